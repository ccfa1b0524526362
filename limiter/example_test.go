package limiter_test

import (
	"fmt"
	"time"

	"tokenbucket.internal/limiter"
)

func Example() {
	limit, err := limiter.Parse("100/m burst 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	l := limiter.New()
	for range 3 {
		d := l.Take("customer-7", limit, 1)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

func ExampleBucket_Take() {
	b := limiter.NewBucket(limiter.Limit{Tokens: 1, Period: time.Second, Burst: 5})
	now := time.Duration(0)
	fmt.Println(b.TakeAt(now, 5).Allowed)
	d := b.TakeAt(now, 2)
	fmt.Println(d.Allowed, d.RetryAfter)
	fmt.Println(b.TakeAt(now+d.RetryAfter, 2).Allowed)
	// Output:
	// true
	// false 2s
	// true
}

func ExampleParse() {
	for _, s := range []string{"6000/m burst 200", "1/100s", "0.5/s", "plenty"} {
		fmt.Println(limiter.Parse(s))
	}
	// Output:
	// 6000/m burst 200 <nil>
	// 1/100s <nil>
	// 1/2s <nil>
	// 0/0s limiter: limit "plenty": rate "plenty" is not a decimal number
}

func ExampleLimiter_TakeAll() {
	l := limiter.New()
	second := limiter.Limit{Tokens: 10, Period: time.Second, Burst: 10}
	hour := limiter.Limit{Tokens: 12, Period: time.Hour, Burst: 12}
	for range 3 {
		d := l.TakeAll(
			limiter.Claim{Key: "customer-7/s", Limit: second, Cost: 5},
			limiter.Claim{Key: "customer-7/h", Limit: hour, Cost: 5},
		)
		fmt.Println(d.Allowed)
	}
	fmt.Println(l.Peek("customer-7/h", hour).Remaining)
	// Output:
	// true
	// true
	// false
	// 2
}

func ExampleWithClock() {
	l := limiter.New(limiter.WithClock(limiter.CoarseClock(10 * time.Millisecond)))
	fmt.Println(l.Take("customer-7", limiter.Limit{Tokens: 1, Period: time.Minute, Burst: 1}, 1).Allowed)
	// Output: true
}
