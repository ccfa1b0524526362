package plugin

import (
	"context"
	"net/http"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// A mark is left in the context of a request that has paid: which bucket, and
// what was left in it.
type mark struct {
	context.Context
	bucket   string
	policy   httplimit.Policy
	decision limiter.Decision
	grant    *grant // by which pre let it pass; nil if it paid later
}

type markKey struct{}

func (m *mark) Value(key any) any {
	if key == (markKey{}) {
		return m
	}
	return m.Context.Value(key)
}

func markOf(r *http.Request) *mark {
	m, _ := r.Context().Value(markKey{}).(*mark)
	return m
}

// leave replaces the request in place, as the gateway itself does.
func (m *mark) leave(r *http.Request) {
	m.Context = r.Context()
	*r = *r.WithContext(m)
}
