package plugin

import (
	"fmt"
	"strconv"
	"time"

	"tokenbucket.internal/limiter"
)

// process holds the settings of the gateway process, from its environment.
type process struct {
	maxKeys, shards int
	clockName       string
	clock           func() time.Duration
}

const environment = "TYK_RATELIMIT_"

func (p process) String() string {
	return fmt.Sprintf("up to %d keys, %d shards, %s clock", p.maxKeys, p.shards, p.clockName)
}

// readProcess reads the environment. What is unusable keeps its default and
// is told in problems.
func readProcess(getenv func(string) string) (p process, problems []string) {
	number := func(name string, fallback, most int) int {
		text := getenv(environment + name)
		if text == "" {
			return fallback
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= most {
			return n
		}
		problems = append(problems, fmt.Sprintf("%s%s is %.20q, not a whole number from 1 to %d; using %d", environment, name, text, most, fallback))
		return fallback
	}
	p.maxKeys = number("MAX_KEYS", 1_000_000, 1_000_000_000)
	p.shards = number("SHARDS", limiter.DefaultShards, 1<<16)
	p.clockName, p.clock = "precise", limiter.Monotonic
	switch text := getenv(environment + "CLOCK"); text {
	case "", "precise":
	case "coarse":
		p.clockName, p.clock = text, limiter.CoarseClock(0)
	default:
		problems = append(problems, fmt.Sprintf("%sCLOCK is %.20q; want precise or coarse; using precise", environment, text))
	}
	return p, problems
}
