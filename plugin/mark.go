package plugin

import (
	"context"
	"net/http"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
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

// tell puts the RateLimit fields into the answer to come. Whatever else the
// gateway does with the request, they go out with it; fields of a response hook
// would miss cached answers, and cost the gateway one more hook.
func (m *mark) tell(w http.ResponseWriter) {
	httplimit.SetRateLimit(w.Header(), m.rule.policy, m.decision)
}

// leave replaces the request in place, as the gateway itself does.
func (m *mark) leave(r *http.Request) {
	m.Context = r.Context()
	*r = *r.WithContext(m)
}
