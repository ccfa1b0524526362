package main

import (
	"testing"
	"time"
)

// steady is one request each millisecond, answered a millisecond later; those
// admitted are chosen by their number.
func steady(n int, admitted func(i int) bool) (a answers) {
	for i := range n {
		at := time.Duration(i) * time.Millisecond
		a.list = append(a.list, answer{i % gateways, at, at + time.Millisecond, admitted(i)})
	}
	return a
}

func TestFigures(t *testing.T) {
	always := steady(3001, func(int) bool { return true })
	if n := always.peak(time.Second); n != 1000 {
		t.Errorf("peak %d of one each millisecond", n)
	}
	if n := always.least(time.Second); n != 999 && n != 1000 {
		t.Errorf("least %d of one each millisecond", n)
	}
	if u := always.use(100); u < 0.96 || u > 0.97 { // 3001 of 3101
		t.Errorf("use %.3f", u)
	}
	gap := steady(3000, func(i int) bool { return i < 1000 || i >= 1500 })
	if n := gap.least(100 * time.Millisecond); n != 0 {
		t.Errorf("least %d over a gap", n)
	}
	if d, ok := gap.recovered(time.Second, 0.97); !ok || d < 450*time.Millisecond || d > 550*time.Millisecond {
		t.Errorf("recovered %v after the start of a gap of 500 ms: %v", d, ok)
	}
	if d, ok := steady(3000, func(i int) bool { return i < 1000 }).recovered(time.Second, 0.97); ok {
		t.Errorf("recovered %v after the last", d)
	}
	if by := gap.by(); by[0]+by[1]+by[2] != 2500 {
		t.Errorf("by gateway %v", by)
	}
}

// Answers may overtake each other.
func TestPeakOfAnswersInReverse(t *testing.T) {
	var a answers
	for i := range 1000 {
		a.list = append(a.list, answer{0, time.Duration(1000-i) * time.Millisecond / 2, time.Duration(500+i/4) * time.Millisecond, true})
	}
	if n := a.peak(time.Second); n != 1000 {
		t.Errorf("peak %d of 1000", n)
	}
}

// What was decided before a second began and answered in it is not of it.
func TestPeakDoesNotCountDelays(t *testing.T) {
	a := steady(2000, func(int) bool { return true })
	for i := range a.list[:500] {
		a.list[i].received = 500 * time.Millisecond
	}
	if n := a.peak(time.Second); n > 1000 {
		t.Errorf("peak %d", n)
	}
}
