package plugin

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// process holds the settings of the gateway process, from its environment.
type process struct {
	maxKeys, shards int
	clockName       string
	clock           func() time.Duration

	cluster      bool                  // limits are shared through Redis
	redis        redis.UniversalClient // nil: the gateway's own
	nodes        int                   // 0: those seen in Redis
	wait         time.Duration         // of a key's first request for Redis
	onRedisFault cluster.Fault
}

const environment = "TYK_RATELIMIT_"

func (p process) String() string {
	text := fmt.Sprintf("up to %d keys, %d shards, %s clock", p.maxKeys, p.shards, p.clockName)
	switch {
	case p.cluster && p.redis == nil:
		text += ", limits shared through the gateway's Redis"
	case p.cluster:
		text += ", limits shared through the Redis of " + environment + "REDIS_URL"
	}
	return text
}

// environ reads the environment. What is unusable keeps its default and is told
// in problems.
type environ struct {
	getenv   func(string) string
	problems []string
}

func (e *environ) problem(format string, args ...any) {
	e.problems = append(e.problems, environment+fmt.Sprintf(format, args...))
}

func (e *environ) number(name string, fallback, least, most int) int {
	text := e.getenv(environment + name)
	if text == "" {
		return fallback
	}
	if n, err := strconv.Atoi(text); err == nil && n >= least && n <= most {
		return n
	}
	e.problem("%s is %.20q, not a whole number from %d to %d; using %d", name, text, least, most, fallback)
	return fallback
}

// word is one of some words, the first if there is none.
func (e *environ) word(name string, words ...string) string {
	text := e.getenv(environment + name)
	if text == "" {
		return words[0]
	}
	for _, word := range words {
		if text == word {
			return word
		}
	}
	e.problem("%s is %.20q; want one of %q; using %s", name, text, words, words[0])
	return words[0]
}

// readProcess reads the process's settings; problems say what is unusable.
func readProcess(getenv func(string) string) (p process, problems []string) {
	e := &environ{getenv: getenv}
	p.maxKeys = e.number("MAX_KEYS", 1_000_000, 1, 1_000_000_000)
	p.shards = e.number("SHARDS", limiter.DefaultShards, 1, 1<<16)
	p.clock = limiter.Monotonic
	if p.clockName = e.word("CLOCK", "precise", "coarse"); p.clockName == "coarse" {
		p.clock = limiter.CoarseClock(0)
	}
	p.cluster = e.word("CLUSTER", "off", "redis") == "redis"
	p.readCluster(e)
	return p, e.problems
}

func (p *process) readCluster(e *environ) {
	p.nodes = e.number("NODES", 0, 0, 10_000)
	p.onRedisFault = map[string]cluster.Fault{
		"share": cluster.FaultShare, "open": cluster.FaultOpen, "closed": cluster.FaultClosed,
	}[e.word("ON_REDIS_FAULT", "share", "open", "closed")]
	p.wait = cluster.DefaultWait
	if text := e.getenv(environment + "REDIS_WAIT"); text != "" {
		d, err := duration(text)
		if err == nil && d >= time.Millisecond && d <= time.Second {
			p.wait = d
		} else {
			e.problem("REDIS_WAIT is %.20q, not a time from 1ms to 1s; using %v", text, p.wait)
		}
	}
	url := e.getenv(environment + "REDIS_URL")
	switch {
	case !p.cluster && url != "":
		e.problem("REDIS_URL is there and %sCLUSTER is not redis: limits are not shared", environment)
	case p.cluster && url != "":
		var err error
		if p.redis, err = cluster.Dial(url); err != nil {
			e.problem("REDIS_URL: %v; using the gateway's own Redis", err)
		}
	}
}
