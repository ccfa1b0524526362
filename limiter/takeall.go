package limiter

import "time"

// A Claim asks for Cost tokens of Key's bucket at Limit.
type Claim struct {
	Key   string
	Limit Limit
	Cost  int64
}

// TakeAll takes what all claims ask for, or nothing. If it is allowed, the
// decision is that of the claim with the fewest tokens left; if not, that of
// the claim that has to wait longest. Without claims it is allowed.
//
// All claims are looked at before the first is taken, so a refusal changes
// nothing. Only when another goroutine takes the same tokens in between are
// tokens taken and given back, and a third one may be refused meanwhile.
func (l *Limiter) TakeAll(claims ...Claim) Decision {
	d, _ := l.takeAll(l.clock(), 0, claims)
	return d
}

// TakeAllAt is TakeAll at the time now.
func (l *Limiter) TakeAllAt(now time.Duration, claims ...Claim) Decision {
	d, _ := l.takeAll(now, exact, claims)
	return d
}

// Decide is TakeAll that tells which of the claims the decision is of; -1
// without claims.
func (l *Limiter) Decide(claims []Claim) (d Decision, which int) {
	return l.takeAll(l.clock(), 0, claims)
}

// DecideKnown is Decide at the limits that the buckets of known keys have, as
// for TakeKnown.
func (l *Limiter) DecideKnown(claims []Claim) (d Decision, which int) {
	return l.takeAll(l.clock(), keep, claims)
}

func (l *Limiter) takeAll(now time.Duration, mode how, claims []Claim) (all Decision, which int) {
	switch len(claims) {
	case 0:
		return Decision{Allowed: true}, -1
	case 1:
		return l.request(now, claims[0], take|mode), 0
	}
	for i, c := range claims {
		if d := l.request(now, c, mode); i == 0 || Tighter(d, all) {
			all, which = d, i
		}
	}
	if !all.Allowed {
		return all, which
	}
	for i, c := range claims {
		d := l.request(now, c, take|mode)
		if !d.Allowed {
			for _, taken := range claims[:i] {
				l.RefundAt(now, taken.Key, taken.Cost)
			}
			return d, i
		}
		if i == 0 || Tighter(d, all) {
			all, which = d, i
		}
	}
	return all, which
}

// Tighter reports whether a says more about what the client may do than b: a
// refusal, and of these the longer wait; or else the fewer tokens left.
func Tighter(a, b Decision) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case !a.Allowed:
		return uint64(a.RetryAfter) > uint64(b.RetryAfter) // below 0 is never: the longest
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}
