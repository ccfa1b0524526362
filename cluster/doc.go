// Package cluster keeps one limit over many gateways, without a Redis round
// trip for each request.
//
// The bucket of a key lives in Redis, as one GCRA word that one script changes
// (package shared). A gateway leases tokens of it, some at a time, and spends
// them from its own memory without a lock. Leases are renewed in the
// background, ahead of need, at most ten times a second for each key on average
// (and four times more when its demand jumps); what lies unused for a second is
// given back. A gateway that Redis has refused a token does not ask again before
// one refills, but for a look after 1.5 s, 3 s, 6 s and so on: what is not there
// may only be leased to another.
//
// # Leases
//
// A lease also covers refill that is still to come, up to 250 ms of it
// (shared.Ahead): with small bursts the bucket would be full, and lose refill,
// most of the time between two renewals. Each of these tokens has a time, the
// one at which the bucket would have admitted it, and is not spent before. A
// lease's size follows the demand: what is asked for until the tokens of the
// next renewal can be spent, and where the bucket has plenty, up to a quarter
// of the burst or a second's worth. A gateway that wants more than there is
// takes half of what there is, or three quarters while it is alone. After a pause
// it spends no more than a burst of what it could have spent in between, or 50 ms
// of it, if that is more; the rest lapses, as it does in one bucket.
//
// # What is guaranteed
//
// For each key, while Redis answers, keeps what it was told and its clock is
// not set forward: all gateways together have never admitted more than
//
//	burst + rate * time since the key was first asked for
//
// to within a microsecond of Redis's clock, however many gateways there are,
// whatever their clocks say and however late answers are (a gateway on a coarse
// clock may be early by its resolution). In a span that begins later they admit
// no more than burst + rate*span + the tokens that were leased and earned but
// not spent when it began. A gateway leases no more than burst + rate*250 ms for
// a key, and keeps no more than the greater of a quarter of the burst and half a
// second of the key's demand, and for a key that it does not know yet 100 tokens
// or what refills in a second, if that is less; a lease that nobody takes from
// is given back after 1 to 1.5 s. So the limit may be used less than it allows,
// by no more than the leases that are out and what lapses. A request that waits
// for Redis in vain is decided by this gateway's share, see below, which is
// charged to the bucket afterwards.
//
// A changed limit is each gateway's own until all have learned of it: the
// bucket is converted at each renewal under another limit, and what is
// guaranteed is that of the higher one.
//
// # Faults
//
// Redis is given up when a renewal has no answer for 250 ms or two in a row
// fail, for whatever reason: the network, a failover, READONLY, LOADING. From
// then on each gateway enforces its share of the limit (rate/gateways and
// burst/gateways, at least one token) from its own memory, which takes over
// what it knew the bucket to hold; one heartbeat each 200 ms (each second, if
// Redis comes and goes) asks whether Redis is back, and nothing else asks it.
// When it is, shares are charged to the buckets again. A renewal that fails for
// one key alone does the same for that key.
//
// So a fault of all gateways adds to what is guaranteed a burst, or as many times
// the largest cost, or one token, as there are gateways, if that is more, and the
// leases that were out; a Redis that comes back without its data adds what it
// knew to be missing from buckets that nobody asked for meanwhile. While a part
// of the gateways is cut off and the others are not, that part adds its share of
// the rate.
//
// The number of gateways is counted by their heartbeats in Redis. Until it has
// answered once it is taken for 1, unless Options.Nodes tells.
package cluster
