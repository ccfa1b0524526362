package main

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/TykTechnologies/tyk/user"
)

const maxKeyBody = 1 << 20

// answer is what the admin API says about anything but a key.
type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func ok(message string) answer      { return answer{"ok", message} }
func failure(message string) answer { return answer{"error", message} }

// keyChanged is the answer to a change of a key.
type keyChanged struct {
	Key     string `json:"key"`
	Status  string `json:"status"`
	Action  string `json:"action"`
	KeyHash string `json:"key_hash,omitempty"`
}

// admin serves /tyk/, for whoever knows the secret.
func (g *gateway) admin(w http.ResponseWriter, r *http.Request) {
	secret := []byte(r.Header.Get("X-Tyk-Authorization"))
	if subtle.ConstantTimeCompare(secret, []byte(g.conf.Secret)) != 1 {
		answerJSON(w, http.StatusForbidden, failure("Attempted administrative access with invalid or missing key!"))
		return
	}
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/tyk/"), "/")
	if name, found := strings.CutPrefix(path+"/", "keys/"); found {
		g.adminKeys(w, r, strings.TrimSuffix(name, "/"))
		return
	}
	switch path {
	case "reload", "reload/group":
		g.adminReload(w, r, path == "reload" && r.URL.Query().Get("block") == "true")
	default:
		http.NotFound(w, r)
	}
}

// adminReload answers before the reload is done, unless it is to block.
func (g *gateway) adminReload(w http.ResponseWriter, r *http.Request, block bool) {
	if r.Method != http.MethodGet {
		methodNotAllowed(w)
		return
	}
	done := make(chan struct{})
	g.background.Add(1)
	go func() {
		defer g.background.Done()
		defer close(done)
		if err := g.reload(); err != nil {
			g.log.Errorf("reload failed, the old state stays: %v", err)
		}
	}()
	if block {
		<-done
	}
	answerJSON(w, http.StatusOK, ok(""))
}

func methodNotAllowed(w http.ResponseWriter) {
	answerJSON(w, http.StatusMethodNotAllowed, failure("Method not supported"))
}

func (g *gateway) adminKeys(w http.ResponseWriter, r *http.Request, name string) {
	if name == "create" && r.Method == http.MethodPost {
		name = ""
	}
	if r.URL.Query().Get("hashed") != "" {
		answerJSON(w, http.StatusBadRequest, failure("hashed: this host does not look keys up by their hash"))
		return
	}
	var code int
	var body any
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		code, body = g.putKey(w, r, name)
	case http.MethodGet:
		code, body = g.getKey(r, name)
	case http.MethodDelete:
		code, body = g.deleteKey(r, name)
	default:
		methodNotAllowed(w)
		return
	}
	answerJSON(w, code, body)
}

// putKey adds a key (POST; without a name it gets one) or modifies it (PUT).
func (g *gateway) putKey(w http.ResponseWriter, r *http.Request, name string) (int, any) {
	s := new(user.SessionState)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxKeyBody)).Decode(s); err != nil {
		return http.StatusBadRequest, failure("Request malformed")
	}
	id, old, problem := g.keyToPut(r, name, s.OrgID)
	if problem != nil {
		return problem.code, failure(problem.message)
	}
	if s.Expires > 1 && time.Unix(s.Expires, 0).Before(time.Now()) {
		s.Expires = old.Expires // as the gateway does: no key is born expired
	}
	if r.URL.Query().Get("suppress_reset") != "1" {
		s.LastUpdated = strconv.FormatInt(time.Now().Unix(), 10)
	} else if r.Method == http.MethodPut {
		s.LastUpdated = old.LastUpdated
	}
	if err := g.settle(s); err != nil {
		g.log.Errorf("key not saved: %v", err)
		return http.StatusInternalServerError, failure("Failed to create key, ensure security settings are correct.")
	}
	if err := g.keys.save(id, s); err != nil {
		return http.StatusInternalServerError, failure("Failed to create key, ensure security settings are correct.")
	}
	if r.Method == http.MethodPut {
		return http.StatusOK, keyChanged{Key: id, Status: "ok", Action: "modified"}
	}
	changed := keyChanged{Key: id, Status: "ok", Action: "added"}
	if g.conf.HashKeys {
		changed.KeyHash = g.keyHash(id)
	}
	return http.StatusOK, changed
}

// keyToPut returns the id to store under, and the session there is already.
func (g *gateway) keyToPut(r *http.Request, name, org string) (id string, old *user.SessionState, problem *refusal) {
	if r.Method == http.MethodPut {
		if id, old = g.keys.find(org, name); old == nil {
			return "", nil, &refusal{http.StatusNotFound, "Key is not found"}
		}
		return id, old, nil
	}
	if name != "" && len(name) < g.conf.MinTokenLength {
		return "", nil, &refusal{http.StatusBadRequest, fmt.Sprintf(
			"custom key ID length %d is less than min_token_length (%d)", len(name), g.conf.MinTokenLength)}
	}
	return g.keys.token(org, name), new(user.SessionState), nil
}

// settle merges the policies into a session that is to be saved.
func (g *gateway) settle(s *user.SessionState) error {
	now := g.state.Load()
	err := now.policies.apply(s, "")
	if len(s.AccessRights) == 0 {
		if !g.conf.AllowMasterKeys {
			return fmt.Errorf("a key without access_rights needs allow_master_keys in the configuration")
		}
		return err
	}
	for id := range s.AccessRights {
		a := now.byID[id]
		if a == nil {
			g.log.WithField("api_id", id).Warn("a key has access to an API that is not loaded")
			continue
		}
		if err := now.policies.apply(s, a.def.OrgID); err != nil {
			return err
		}
	}
	return nil
}

func (g *gateway) getKey(r *http.Request, name string) (int, any) {
	org := r.URL.Query().Get("org_id")
	if a := g.state.Load().byID[r.URL.Query().Get("api_id")]; a != nil {
		org = a.def.OrgID
	}
	_, s := g.keys.find(org, name)
	if name == "" || s == nil {
		return http.StatusNotFound, failure("Key not found")
	}
	_ = g.state.Load().policies.apply(s, "") // the key is shown even if its policies are gone
	return http.StatusOK, s
}

func (g *gateway) deleteKey(r *http.Request, name string) (int, any) {
	id, s := g.keys.find(r.URL.Query().Get("org_id"), name)
	if name == "" || s == nil {
		return http.StatusNotFound, failure("There is no such key found")
	}
	g.keys.remove(id)
	return http.StatusOK, keyChanged{Key: id, Status: "ok", Action: "deleted"}
}
