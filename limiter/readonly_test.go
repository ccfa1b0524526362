//go:build unix

package limiter

import (
	"runtime/debug"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// readOnly moves what v points to into memory where any write is a fault, a
// compare-and-swap that fails included.
func readOnly[T any](t *testing.T, v *T) *T {
	t.Helper()
	page, err := syscall.Mmap(-1, 0, int(unsafe.Sizeof(*v)), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(page) })
	moved := (*T)(unsafe.Pointer(&page[0]))
	copy(page, unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
	if err := syscall.Mprotect(page, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	return moved
}

// faults reports whether f writes to memory that is read-only.
func faults(f func()) (did bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { did = recover() != nil }()
	f()
	return false
}

// A refusal and a look do not even try to write, so that refusals for one key
// do not slow each other: the buckets here cannot be written.
func TestRefusalAttemptsNoWrite(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector does not survive a fault")
	}
	limit := Limit{Tokens: 1, Period: 24 * time.Hour, Burst: 1}
	drained := NewBucket(limit)
	drained.Take(1)
	b := readOnly(t, drained)
	l := New(WithShards(1))
	l.Take("k", limit, 1)
	entries := readOnly(t, (*[minSlab]entry)(l.shards[0].slab.Load().entries))
	l.shards[0].slab.Store(&slab{entries: entries[:]})
	for name, refusal := range map[string]func() bool{
		"Bucket.Allow":     b.Allow,
		"Bucket.Take":      func() bool { return b.Take(1).Allowed },
		"Bucket.Take, all": func() bool { return b.Take(2).Allowed },
		"Limiter.Take":     func() bool { return l.Take("k", limit, 1).Allowed },
		"Limiter.TakeAll":  func() bool { return l.TakeAll(Claim{"k", limit, 1}, Claim{"k", limit, 1}).Allowed },
		"Limiter.Peek":     func() bool { return !l.Peek("k", limit).Allowed },
	} {
		if faults(func() {
			if refusal() {
				t.Errorf("%s: allowed", name)
			}
		}) {
			t.Errorf("%s tried to write", name)
		}
	}
	full := time.Duration(drained.tat.Load())
	if faults(func() { b.Refund(0); b.Refund(-1); b.RefundAt(full, 1) }) {
		t.Error("a refund of nothing, or to a full bucket, tried to write")
	}
	if !faults(func() { b.Refund(1) }) {
		t.Error("a refund did not fault: this memory can be written, so nothing is shown")
	}
}
