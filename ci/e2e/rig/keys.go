package rig

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// AdminHeader carries the secret of the admin API.
const AdminHeader = "X-Tyk-Authorization"

// A Key is what the admin API is told of a key.
type Key struct {
	APIs     []string
	Metadata Object
	Policies []string
	Expires  time.Time
	PerAPI   Rate   // the limit of its own that the key has on each API
	Fields   Object // other fields to set
}

// Rate is a limit as the gateway's sessions have it.
type Rate struct {
	Rate float64 `json:"rate"`
	Per  float64 `json:"per"` // seconds
}

func (k Key) session() Object {
	rights := Object{}
	for _, id := range k.APIs {
		right := Object{"api_id": id, "api_name": id, "versions": []string{"Default"}}
		if k.PerAPI != (Rate{}) {
			right["limit"] = k.PerAPI
		}
		rights[id] = right
	}
	s := Object{"org_id": Org, "access_rights": rights}
	if k.Metadata != nil {
		s["meta_data"] = k.Metadata
	}
	if k.Policies != nil {
		s["apply_policies"] = k.Policies
	}
	if !k.Expires.IsZero() {
		s["expires"] = k.Expires.Unix()
	}
	merge(s, k.Fields)
	return s
}

// CreateKey makes a key with an id of the gateway's choice.
func (g *Gateway) CreateKey(ctx context.Context, k Key) (id string, err error) {
	var answer struct{ Key string }
	err = g.admin(ctx, http.MethodPost, "/tyk/keys/create", k.session(), &answer)
	g.remember(answer.Key)
	return answer.Key, err
}

// CreateKeyAs makes a key with an id of its own.
func (g *Gateway) CreateKeyAs(ctx context.Context, id string, k Key) error {
	g.remember(id)
	return g.admin(ctx, http.MethodPost, keyPath(id), k.session(), nil)
}

// UpdateKey replaces what the gateway knows of a key.
func (g *Gateway) UpdateKey(ctx context.Context, id string, k Key) error {
	return g.admin(ctx, http.MethodPut, keyPath(id), k.session(), nil)
}

// DeleteKey deletes a key.
func (g *Gateway) DeleteKey(ctx context.Context, id string) error {
	return g.admin(ctx, http.MethodDelete, keyPath(id)+"?org_id="+Org, nil, nil)
}

func keyPath(id string) string { return "/tyk/keys/" + url.PathEscape(id) }

// Keys returns the ids of every key that was created here.
func (g *Gateway) Keys() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.keys...)
}

func (g *Gateway) remember(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id != "" {
		g.keys = append(g.keys, id)
	}
}
