package cluster

import (
	"errors"
	"math"
	"sync"

	"tokenbucket.internal/cluster/shared"
	"tokenbucket.internal/limiter"
)

// plans keeps compiled limits: a process has few of them.
type plans struct {
	mu      sync.Mutex
	byLimit map[limiter.Limit]*shared.Plan
}

var errEternal = errors.New("cluster: the burst takes more than 292 years to refill")

// maxPlans bounds how many are kept; beyond it all are compiled anew.
const maxPlans = 4096

func (p *plans) of(limit limiter.Limit) (*shared.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plan := p.byLimit[limit]; plan != nil {
		return plan, nil
	}
	plan, err := shared.Compile(limit)
	if err != nil {
		return nil, err
	}
	if plan.Span(limit.Burst) == math.MaxInt64 {
		return nil, errEternal // the times of a lease would not fit
	}
	if p.byLimit == nil || len(p.byLimit) >= maxPlans {
		p.byLimit = make(map[limiter.Limit]*shared.Plan)
	}
	p.byLimit[limit] = plan
	return plan, nil
}
