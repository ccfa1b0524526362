package plugin

import (
	"context"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/user"
	"github.com/sirupsen/logrus"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak runs; 0 skips it")
	soakKeys = flag.Int("soak-keys", 1_000_000, "known keys, at least 1000")
	soakP999 = flag.Duration("soak-p999", time.Millisecond, "what p99.9 of the pre hook must not exceed; a machine with other work needs more")
)

const (
	soakRate    = 100_000 // decisions a second
	soakHot     = 100     // keys that ask for five times what they may
	soakWorkers = 4

	// Of 100 000 requests a second 6250 are those of hot keys, 62.5 a second for
	// each, of which four in five are above the limit: 5 % of all are refused.
	soakHotShare = 0.0625
	soakHotLimit = 12.5
	soakChurn    = 0.01 // share of requests with a credential that nobody has seen
)

// soak is the plugin under an open loop: requests come when they are due,
// whether or not those before them are done.
type soak struct {
	e        *engine
	base     *http.Request
	limits   [2]meta // of a key, and of a hot one
	admitted []atomic.Int32
	created  atomic.Int64

	sent, refused, late atomic.Int64
	took                [64 * 8]atomic.Int64 // by time, in eighths of powers of two of a nanosecond
}

func newSoak() *soak {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	p, _ := readProcess(func(string) string { return "" })
	p.maxKeys = *soakKeys
	s := &soak{
		e: newEngine(p, log.WithField("prefix", "ratelimit")), base: httptest.NewRequest("GET", "/demo/", nil),
		limits:   [2]meta{{"ratelimit": "5/s"}, {"ratelimit": fmt.Sprint(soakHotLimit, "/s burst 20")}},
		admitted: make([]atomic.Int32, *soakKeys),
	}
	s.created.Store(int64(*soakKeys))
	ctx.SetDefinition(s.base, keyed("soak", nil))
	return s
}

// request is one request through both hooks, as a gateway calls them.
func (s *soak) request(key int, header http.Header) {
	name := "soak-key-" + strconv.Itoa(key)
	header["Authorization"] = []string{name}
	r := *s.base
	r.Header = header
	w := &verdictWriter{header: make(http.Header)}
	start := time.Now()
	s.e.pre(w, &r)
	took := time.Since(start)
	exponent := bits.Len64(uint64(took))
	s.took[exponent*8+int(uint64(took)<<3>>exponent)&7].Add(1)
	if w.status == 0 {
		hot := 0
		if key < soakHot {
			hot = 1
		}
		session := &user.SessionState{OrgID: "org", KeyID: name, MetaData: s.limits[hot]}
		r = *r.WithContext(context.WithValue(r.Context(), ctx.SessionData, session))
		s.e.postKeyAuth(w, &r)
	}
	s.sent.Add(1)
	if w.status != 0 {
		s.refused.Add(1)
	} else if key < *soakKeys {
		s.admitted[key].Add(1)
	}
}

type verdictWriter struct {
	header http.Header
	status int
}

func (w *verdictWriter) Header() http.Header         { return w.header }
func (w *verdictWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *verdictWriter) WriteHeader(status int)      { w.status = status }

// pick chooses whose request it is.
func (s *soak) pick() int {
	switch p := rand.Float64(); {
	case p < soakHotShare:
		return rand.IntN(soakHot)
	case p < soakHotShare+soakChurn:
		return int(s.created.Add(1))
	}
	return soakHot + rand.IntN(*soakKeys-soakHot)
}

// run sends at the rate until the time is over.
func (s *soak) run(length time.Duration) {
	var all sync.WaitGroup
	start := time.Now()
	for range soakWorkers {
		all.Add(1)
		go func() {
			defer all.Done()
			header := make(http.Header)
			const every = time.Second * soakWorkers / soakRate
			for due := time.Duration(0); due < length; due += every {
				if ahead := due - time.Since(start); ahead > time.Millisecond {
					time.Sleep(ahead)
				} else if ahead < -10*time.Millisecond {
					s.late.Add(1)
				}
				s.request(s.pick(), header)
			}
		}()
	}
	all.Wait()
}

// slowest is the time that a share of the hook's calls stayed below.
func (s *soak) slowest(share float64) time.Duration {
	var total, sum int64
	for i := range s.took {
		total += s.took[i].Load()
	}
	for i := range s.took {
		if sum += s.took[i].Load(); float64(sum) >= share*float64(total) {
			return time.Duration((uint64(i%8) + 1) << (i / 8) >> 3)
		}
	}
	return 0
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first left to sweep
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (s *soak) report(length time.Duration) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		before := s.sent.Load()
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			sent := s.sent.Load()
			fmt.Fprintf(os.Stderr, "soak %d/%.0f s: %d/s, %.1f %% refused, p99.9 %v, %d late, %d keys\n", n, length.Seconds(),
				sent-before, 100*float64(s.refused.Load())/float64(sent), s.slowest(0.999), s.late.Load(), s.e.limits.own.Len())
			before = sent
		}
	}()
	return func() { close(done) }
}

// TestSoak is a gateway's day in a minute: 1 M keys, each of which is known, an
// open loop of 100 000 requests a second, keys that come and go.
func TestSoak(t *testing.T) {
	if *soakFor <= 0 {
		t.Skip("make soak runs it")
	}
	s := newSoak()
	header := make(http.Header)
	for key := range *soakKeys {
		s.request(key, header)
	}
	s.run(max(time.Second, *soakFor/10)) // pools and maps find their size
	for i := range s.admitted {
		s.admitted[i].Store(0)
	}
	for i := range s.took {
		s.took[i].Store(0)
	}
	s.sent.Store(0)
	s.refused.Store(0)
	s.late.Store(0)
	goroutines, before := runtime.NumGoroutine(), heap()
	begun := time.Now()
	stop := s.report(*soakFor)
	s.run(*soakFor)
	stop()
	span := time.Since(begun).Seconds()
	after := heap()
	time.Sleep(10 * time.Millisecond) // the reporter ends

	if p := s.slowest(0.999); p > *soakP999 {
		t.Errorf("p99.9 of the pre hook is %v", p)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if float64(after) > 1.05*float64(before) {
		t.Errorf("the heap has grown from %d to %d MB", before>>20, after>>20)
	}
	for key := range s.admitted {
		rate, burst := 5.0, 5.0
		if key < soakHot {
			rate, burst = soakHotLimit, 20
		}
		if n := float64(s.admitted[key].Load()); n > burst+rate*span {
			t.Fatalf("key %d: %v admitted in %.1f s, at %v/s burst %v", key, n, span, rate, burst)
		}
	}
	if s.refused.Load() == 0 {
		t.Error("nothing was refused")
	}
	fmt.Fprintf(os.Stderr, "soak: %d decisions in %.1f s, p50 %v, p99 %v, p99.9 %v, heap %d MB before and %d MB after\n",
		s.sent.Load(), span, s.slowest(0.5), s.slowest(0.99), s.slowest(0.999), before>>20, after>>20)
}
