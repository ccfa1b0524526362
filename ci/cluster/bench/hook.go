package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/plugin"
)

// newHook loads the plugin with settings of the process and returns its pre hook
// for a key that it has learned.
func newHook(mode, url string, l limiter.Limit) (side, error) {
	for name, value := range map[string]string{"CLUSTER": mode, "REDIS_URL": url} {
		if err := os.Setenv("TYK_RATELIMIT_"+name, value); err != nil {
			return side{}, err
		}
	}
	p := plugin.Load()
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1/bench/", nil)
	if err != nil {
		return side{}, err
	}
	r.Header.Set("Authorization", "bench")
	ctx.SetDefinition(r, &apidef.APIDefinition{APIID: "bench", UseStandardAuth: true})
	session := &user.SessionState{OrgID: "org", KeyID: "bench", MetaData: map[string]any{"ratelimit": l.String()}}
	authenticated := r.WithContext(context.WithValue(r.Context(), ctx.SessionData, session))
	w := &unseen{header: http.Header{}}
	s := side{
		ready: func() { p.PostKeyAuth(w, authenticated) },
		call: func() {
			request := *r
			p.Pre(w, &request)
		},
	}
	s.ready()
	time.Sleep(time.Second) // until Redis has answered
	s.ready()
	for range 2 * l.Burst {
		s.call()
	}
	if w.status != http.StatusTooManyRequests {
		return side{}, fmt.Errorf("the pre hook does not enforce %v", l)
	}
	return s, nil
}

// unseen is the answer to nobody.
type unseen struct {
	header http.Header
	status int
}

func (u *unseen) Header() http.Header         { return u.header }
func (u *unseen) Write(b []byte) (int, error) { return len(b), nil }
func (u *unseen) WriteHeader(status int)      { u.status = status }
