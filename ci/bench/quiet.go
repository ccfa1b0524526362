package main

import "time"

// A referee lets a measurement begin when the machine gives as many CPUs as it
// is to use: on a shared machine, two that in truth are one would show no
// contention and no scaling.
type referee struct {
	patience time.Duration         // how long it may wait, all in all
	best     map[int]time.Duration // of spinning, by number of CPUs
	busy     int                   // measurements that began all the same
}

// usual is by how much spinning may take longer than at best.
const usual = 1.15

// await returns when spinning takes as long as it should.
func (f *referee) await(cpus int) {
	for ok := false; !ok; {
		took, _ := perform(spin, cpus*50*portion, cpus)
		best, known := f.best[cpus]
		if !known || took < best {
			f.best[cpus] = took
		}
		ok = known && float64(took) < usual*float64(best)
		if !ok && f.patience <= 0 {
			f.busy++
			return
		}
		if !ok {
			const pause = 10 * time.Millisecond
			time.Sleep(pause)
			f.patience -= pause + took
		}
	}
}

// spin is a job of its own CPU alone.
func spin(from, to int) int {
	x := uint32(from)
	for range to - from {
		for range 20 {
			x = x*1664525 + 1013904223
		}
	}
	return int(x & 1)
}
