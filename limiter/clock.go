package limiter

import (
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for linkname
)

// nanotime is what time.Since reads; called directly it saves 2 ns, a
// twentieth of Bucket.Allow. The runtime keeps the name for such use.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Monotonic is the default clock: to the nanosecond, unmoved by changes of
// the wall clock.
func Monotonic() time.Duration { return time.Duration(nanotime()) }

// CoarseResolution is how far a coarse clock lags unless told otherwise.
const CoarseResolution = 10 * time.Millisecond

// coarseIdle is how long a coarse clock's ticker outlives the last reading.
const coarseIdle = time.Second

// CoarseClock makes a clock for [WithClock] that costs one atomic load instead
// of a reading of the system's clock. It lags the monotonic clock by up to
// resolution ([CoarseResolution] if 0 or less), and more where the process is
// starved of CPU, and never leads it; so over a span measured by an exact
// clock a bucket may admit the tokens of one resolution more.
//
// A goroutine with a ticker starts at the first reading and ends by itself
// when a second has passed without one; the next reading starts it again.
func CoarseClock(resolution time.Duration) func() time.Duration {
	if resolution <= 0 {
		resolution = CoarseResolution
	}
	c := &coarse{resolution: resolution, idle: coarseIdle}
	return c.now
}

type coarse struct {
	resolution time.Duration
	idle       time.Duration
	cached     atomic.Int64
	used       atomic.Bool // since the last tick, so the ticker runs; written once a tick, so that readers share the line

	mu      sync.Mutex // starts and ends the ticker
	running bool
}

func (c *coarse) now() time.Duration {
	if !c.used.Load() {
		c.use()
	}
	return time.Duration(c.cached.Load())
}

// use tells the ticker that there are readers, and starts it.
func (c *coarse) use() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		c.running = true
		c.cached.Store(int64(Monotonic()))
		go c.tick()
	}
	c.used.Store(true)
}

func (c *coarse) tick() {
	ticker := time.NewTicker(c.resolution)
	defer ticker.Stop()
	lastUse := Monotonic()
	for range ticker.C {
		now := Monotonic()
		c.cached.Store(int64(now))
		if c.used.Swap(false) {
			lastUse = now
		} else if now-lastUse >= c.idle && c.stop() {
			return
		}
	}
}

// stop ends the ticker unless a reading came in between.
func (c *coarse) stop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used.Load() {
		return false
	}
	c.running = false
	return true
}
