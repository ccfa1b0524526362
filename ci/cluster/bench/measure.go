package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

const gateways = 3

var limit = limiter.Limit{Tokens: 1000, Period: time.Second, Burst: 100}

type bench struct {
	addr   string
	length time.Duration
	admin  *redis.Client
	ctx    context.Context
	report io.Writer // of the tables
}

func newBench(addr string, length time.Duration, report io.Writer) (*bench, error) {
	b := &bench{addr: addr, length: length, report: report, admin: redis.NewClient(&redis.Options{Addr: addr}), ctx: context.Background()}
	return b, b.admin.Ping(b.ctx).Err()
}

func (b *bench) close() { _ = b.admin.Close() }

// info is a number in Redis's INFO.
func (b *bench) info(section, pattern string) float64 {
	m := regexp.MustCompile(pattern).FindStringSubmatch(b.admin.Info(b.ctx, section).Val())
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	return n
}

func (b *bench) version() string {
	m := regexp.MustCompile(`(?:redis|valkey)_version:(\S+)`).FindStringSubmatch(b.admin.Info(b.ctx, "server").Val())
	if m == nil {
		return "?"
	}
	return m[1]
}

// scripts is how many script calls Redis has served, those of the heartbeat,
// which EVAL does, not counted.
func (b *bench) scripts() float64 { return b.info("commandstats", `cmdstat_evalsha:calls=(\d+)`) }

// bytes is what a key takes in Redis, its place in the table included.
func (b *bench) bytes(before float64) float64 {
	return (b.info("memory", `used_memory:(\d+)`) - before) / float64(max(1, b.admin.DBSize(b.ctx).Val()))
}

// heap is what this process keeps.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A system decides requests at one of the gateways.
type system struct {
	name  string
	take  func(gateway int, key string, l limiter.Limit) bool
	close func()
}

func (b *bench) leases() (*system, error) {
	var limits []*cluster.Limiter
	var clients []redis.UniversalClient
	for range gateways {
		client, err := cluster.Dial("redis://" + b.addr)
		if err != nil {
			return nil, err
		}
		l := cluster.New(cluster.Options{Client: client, Nodes: gateways})
		limits, clients = append(limits, l), append(clients, client)
		for !l.Stats().Up {
			time.Sleep(time.Millisecond)
		}
	}
	return &system{
		name: "leases",
		take: func(i int, key string, l limiter.Limit) bool { return limits[i].Take(key, l, 1).Allowed },
		close: func() {
			for i, l := range limits {
				l.Close()
				_ = clients[i].Close()
			}
		},
	}, nil
}

func (b *bench) scriptEach() (*system, error) {
	var limits []*redis_rate.Limiter
	var clients []*redis.Client
	for range gateways {
		client := redis.NewClient(&redis.Options{Addr: b.addr})
		limits, clients = append(limits, redis_rate.NewLimiter(client)), append(clients, client)
	}
	return &system{
		name: "a script each",
		take: func(i int, key string, l limiter.Limit) bool {
			r, err := limits[i].Allow(b.ctx, key, redis_rate.Limit{Rate: int(l.Tokens), Burst: int(l.Burst), Period: l.Period})
			return err == nil && r.Allowed > 0
		},
		close: func() {
			for _, c := range clients {
				_ = c.Close()
			}
		},
	}, nil
}

// A run is what one load came to.
type outcome struct {
	span     time.Duration
	asked    int
	admitted []time.Duration // when
	took     []time.Duration // each decision
	scripts  float64
	cpu      float64 // seconds that Redis used
}

// drive asks each gateway at its rate, from several goroutines, as steadily as
// the machine lets it.
func (b *bench) drive(s *system, rates []float64, l limiter.Limit, key func() string) outcome {
	const each = 8 // goroutines for each gateway
	var mu sync.Mutex
	var all outcome
	var ended sync.WaitGroup
	scripts, cpu := b.scripts(), b.cpu()
	start := time.Now()
	for i, rate := range rates {
		for n := range each {
			ended.Add(1)
			go func() {
				defer ended.Done()
				one := askSteadily(start, b.length, rate/each, float64(n)/each, func() bool { return s.take(i, key(), l) })
				mu.Lock()
				defer mu.Unlock()
				all.asked += one.asked
				all.admitted = append(all.admitted, one.admitted...)
				all.took = append(all.took, one.took...)
			}()
		}
	}
	ended.Wait()
	all.span = time.Since(start)
	all.scripts, all.cpu = b.scripts()-scripts, b.cpu()-cpu
	slices.Sort(all.admitted)
	slices.Sort(all.took)
	return all
}

func (b *bench) cpu() float64 {
	return b.info("cpu", `used_cpu_sys:([\d.]+)`) + b.info("cpu", `used_cpu_user:([\d.]+)`)
}

func askSteadily(start time.Time, length time.Duration, rate, phase float64, take func() bool) (o outcome) {
	for n := phase; ; n++ {
		due := time.Duration(n / rate * 1e9)
		if due >= length || time.Since(start) >= length {
			return o
		}
		if wait := due - time.Since(start); wait > 100*time.Microsecond {
			time.Sleep(wait)
		}
		before := time.Since(start)
		allowed := take()
		after := time.Since(start)
		o.asked++
		o.took = append(o.took, after-before)
		if allowed {
			o.admitted = append(o.admitted, after)
		}
	}
}

func (o outcome) quantile(q float64) time.Duration {
	if len(o.took) == 0 {
		return 0
	}
	return o.took[int(q*float64(len(o.took)-1))]
}

// use is what was admitted to what the limit allows, or to what was asked if
// that is less.
func (o outcome) use(l limiter.Limit) float64 {
	most := float64(l.Burst) + float64(l.Tokens)*o.span.Seconds()/l.Period.Seconds()
	return float64(len(o.admitted)) / min(most, float64(o.asked))
}

// peak is the most admitted in a second, to what the limit allows in one.
func (o outcome) peak(l limiter.Limit) float64 {
	most, j := 0, 0
	for i := range o.admitted {
		for o.admitted[i]-o.admitted[j] > time.Second {
			j++
		}
		most = max(most, i-j+1)
	}
	return float64(most) / (float64(l.Burst) + float64(l.Tokens)/l.Period.Seconds())
}

func id(n uint64) string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], n*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(b[8:], n)
	return string(b[:])
}

func (b *bench) table(head string) *tabwriter.Writer {
	w := tabwriter.NewWriter(b.report, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, head+"\t")
	return w
}

type rateResult struct {
	System         string
	Offered, Asked float64 // requests a second
	Use            float64
	Scripts        float64 // a second
	RedisCPU       float64 // of one core
	P50, P99       time.Duration
}

// rates compares both systems at growing request rates on one key.
func (b *bench) rates() (all []rateResult, err error) {
	w := b.table("offered/s\tsystem\tasked/s\tuse of the limit\tscripts/s\tRedis CPU\tp50\tp99")
	for n, offered := range []float64{100, 500, 2000, 5000, 10_000, 30_000} {
		for _, open := range []func() (*system, error){b.leases, b.scriptEach} {
			s, err := open()
			if err != nil {
				return nil, err
			}
			key := id(uint64(n + 1))
			o := b.drive(s, even(offered), limit, func() string { return key })
			s.close()
			r := rateResult{
				System: s.name, Offered: offered, Asked: float64(o.asked) / o.span.Seconds(), Use: o.use(limit),
				Scripts: o.scripts / o.span.Seconds(), RedisCPU: o.cpu / o.span.Seconds(), P50: o.quantile(0.5), P99: o.quantile(0.99),
			}
			all = append(all, r)
			fmt.Fprintf(w, "%.0f\t%s\t%.0f\t%.1f %%\t%.0f\t%.0f %%\t%v\t%v\t\n", offered, r.System, r.Asked, 100*r.Use, r.Scripts, 100*r.RedisCPU, r.P50.Round(100), r.P99.Round(100))
		}
	}
	_ = w.Flush()
	fmt.Fprintln(b.report)
	return all, nil
}

func even(offered float64) []float64 {
	rates := make([]float64, gateways)
	for i := range rates {
		rates[i] = offered / gateways
	}
	return rates
}

type exactResult struct {
	Load    string
	Burst   int64
	Use     float64
	Peak    float64 // the most in a second, to burst + rate
	Scripts float64 // a second and gateway
}

// exactness is how near leases come to the limit at five times its rate.
func (b *bench) exactness() (all []exactResult, err error) {
	w := b.table("burst\tload\tuse of the limit\tmost in 1 s\tscripts/s and gateway")
	for _, burst := range []int64{100, 10, 1} {
		for name, rates := range map[string][]float64{"even": even(5000), "90/5/5": {4500, 250, 250}} {
			s, err := b.leases()
			if err != nil {
				return nil, err
			}
			l := limit
			l.Burst = burst
			key := id(rand.Uint64())
			o := b.drive(s, rates, l, func() string { return key })
			s.close()
			r := exactResult{Load: name, Burst: burst, Use: o.use(l), Peak: o.peak(l), Scripts: o.scripts / o.span.Seconds() / gateways}
			all = append(all, r)
			fmt.Fprintf(w, "%d\t%s\t%.1f %%\t%.3f\t%.1f\t\n", burst, name, 100*r.Use, r.Peak, r.Scripts)
		}
	}
	_ = w.Flush()
	fmt.Fprintln(b.report)
	return all, nil
}

type keysResult struct {
	System      string
	Keys        int
	Asked       float64 // a second
	AskedEach   float64 // a second and key
	Scripts     float64 // a second
	ScriptsEach float64 // for each request
	RedisCPU    float64 // of one core
	RedisBytes  float64 // for each key
	Bytes       float64 // for each key and gateway, in the gateway's process
	P50, P99    time.Duration
}

// manyKeys asks for many keys at random: so many that each is asked for rarely,
// which is where leases gain least, and fewer that are asked for more often.
func (b *bench) manyKeys(keys int) (all []keysResult, err error) {
	w := b.table("keys\tsystem\tasked/s\tfor each key\tscripts/s\tfor each request\tRedis CPU\tRedis bytes/key\tgateway bytes/key\tp50\tp99")
	for _, n := range []int{keys, max(1, keys/100)} {
		for _, open := range []func() (*system, error){b.leases, b.scriptEach} {
			r, err := b.keys(n, open)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f/s\t%.0f\t%.2f\t%.0f %%\t%.0f\t%.0f\t%v\t%v\t\n", n, r.System, r.Asked, r.AskedEach, r.Scripts, r.ScriptsEach,
				100*r.RedisCPU, r.RedisBytes, r.Bytes, r.P50.Round(100), r.P99.Round(100))
		}
	}
	_ = w.Flush()
	fmt.Fprintln(b.report)
	return all, nil
}

func (b *bench) keys(n int, open func() (*system, error)) (keysResult, error) {
	if err := b.admin.FlushAll(b.ctx).Err(); err != nil {
		return keysResult{}, err
	}
	s, err := open()
	if err != nil {
		return keysResult{}, err
	}
	defer s.close()
	// So slow that a bucket is there as long as this takes.
	slow := limiter.Limit{Tokens: 60, Period: time.Hour, Burst: 1000}
	memory, kept := b.info("memory", `used_memory:(\d+)`), heap()
	var ended sync.WaitGroup
	for i := range gateways {
		ended.Add(1)
		go func() { // every key is known everywhere
			defer ended.Done()
			for k := range n {
				s.take(i, id(uint64(k)), slow)
			}
		}()
	}
	ended.Wait()
	each, own := b.bytes(memory), (heap()-kept)/float64(n)/gateways
	o := b.drive(s, even(15_000), slow, func() string { return id(uint64(rand.IntN(n))) })
	r := keysResult{
		System: s.name, Keys: n, Asked: float64(o.asked) / o.span.Seconds(), Scripts: o.scripts / o.span.Seconds(),
		RedisCPU: o.cpu / o.span.Seconds(), RedisBytes: each, Bytes: max(0, own), P50: o.quantile(0.5), P99: o.quantile(0.99),
		ScriptsEach: o.scripts / float64(o.asked),
	}
	r.AskedEach = r.Asked / float64(n)
	return r, nil
}
