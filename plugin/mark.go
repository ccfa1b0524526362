package plugin

import (
	"context"
	"net/http"

	"tokenbucket.internal/limiter"
)

// A mark is left in the context of a request that has paid: by which rule,
// and what was left in the bucket.
type mark struct {
	context.Context
	rule     rule
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
