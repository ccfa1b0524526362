package main

import (
	"cmp"
	"slices"
	"time"
)

// span is from the first request to the last answer: all decisions are in it.
func (a answers) span() time.Duration {
	first := a.list[0].sent
	for _, one := range a.list {
		first = min(first, one.sent)
	}
	return a.list[len(a.list)-1].received - first
}

// use is what was admitted to what the limit allows.
func (a answers) use(burst int) float64 {
	return float64(a.admitted(0, time.Hour)) / (float64(burst) + rate*a.span().Seconds())
}

// admitted counts those admitted from one time until another.
func (a answers) admitted(from, until time.Duration) (n int) {
	for _, one := range a.list {
		if one.admitted && one.received >= from && one.received < until {
			n++
		}
	}
	return n
}

// by counts those that each gateway admitted.
func (a answers) by() (n [gateways]int) {
	for _, one := range a.list {
		if one.admitted {
			n[one.gateway]++
		}
	}
	return n
}

// peak is the most admitted in any such span, counting those alone that were
// sent and answered in it: what an answer's delay moves into another span is no
// excess.
func (a answers) peak(span time.Duration) (most int) {
	for _, first := range a.list {
		i, _ := slices.BinarySearchFunc(a.list, first.sent, func(one answer, at time.Duration) int { return cmp.Compare(one.received, at) })
		n := 0
		for _, one := range a.list[i:] {
			if one.received > first.sent+span {
				break
			}
			if one.admitted && one.sent >= first.sent {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// step is how finely spans are looked at where any would do.
const step = 50 * time.Millisecond

// least is the fewest admitted in such a span.
func (a answers) least(span time.Duration) int {
	fewest := len(a.list)
	for from := time.Duration(0); from+span <= a.list[len(a.list)-1].received; from += step {
		fewest = min(fewest, a.admitted(from, from+span))
	}
	return fewest
}

// recovered is how long after a time a second begins in which that part of the
// limit is used; false if none does.
func (a answers) recovered(since time.Duration, part float64) (time.Duration, bool) {
	for from := since; from+time.Second <= a.list[len(a.list)-1].received; from += step {
		if a.admitted(from, from+time.Second) >= int(part*rate) {
			return from - since, true
		}
	}
	return 0, false
}

// wait is how long that part of the requests waited for an answer at most.
func (a answers) wait(part float64) time.Duration {
	waits := make([]time.Duration, len(a.list))
	for i, one := range a.list {
		waits[i] = one.received - one.sent
	}
	slices.Sort(waits)
	return waits[int(part*float64(len(waits)-1))].Round(10 * time.Microsecond)
}
