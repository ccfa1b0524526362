package plugin

import (
	"net/http"
	"strings"
)

// A source says where an API's requests carry a credential, in the order in
// which the gateway looks: a later place that has one wins.
type source struct {
	header        string // in its canonical form; "" is not looked at, as the others
	param, cookie string
	certificate   bool // the client's, besides
}

func (s source) find(r *http.Request) string {
	var found string
	if values := r.Header[s.header]; len(values) > 0 {
		found = values[0]
	}
	if s.param != "" && r.URL.RawQuery != "" {
		if v := r.URL.Query().Get(s.param); v != "" {
			found = v
		}
	}
	if s.cookie != "" {
		if c, err := r.Cookie(s.cookie); err == nil && c.Value != "" {
			found = c.Value
		}
	}
	if len(found) >= 7 && strings.EqualFold(found[:7], "Bearer ") {
		found = found[7:]
	}
	return found
}

// credential is the id of all that the request shows to the API's
// authentication, or false if it shows nothing.
func (s *settings) credential(r *http.Request) (id, bool) {
	sum, shown := s.id, false
	for _, src := range s.sources {
		found := src.find(r)
		shown = shown || found != ""
		sum = sum.with(hash(found))
		if src.certificate && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			shown = true
			sum = sum.with(hash(string(r.TLS.PeerCertificates[0].Signature)))
		}
	}
	return sum, shown
}
