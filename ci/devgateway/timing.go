package main

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// hookTime is how long the hooks of one request have taken. The client is told
// in the Server-Timing field; a real gateway has nothing like it.
type hookTime struct {
	spent time.Duration
	began time.Time // of the hook that runs; zero between hooks
}

type hookTimeKey struct{}

func withHookTime(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), hookTimeKey{}, new(hookTime)))
}

func hookTimeOf(r *http.Request) *hookTime {
	t, _ := r.Context().Value(hookTimeKey{}).(*hookTime)
	return t
}

func (t *hookTime) begin() { t.began = time.Now() }

func (t *hookTime) end() {
	t.spent += time.Since(t.began)
	t.began = time.Time{}
}

// tell writes what was spent, the hook that runs included.
func (t *hookTime) tell(h http.Header) {
	spent := t.spent
	if !t.began.IsZero() {
		spent += time.Since(t.began)
	}
	h.Set("Server-Timing", "hooks;dur="+strconv.FormatFloat(float64(spent)/float64(time.Millisecond), 'f', 4, 64))
}
