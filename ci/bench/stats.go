package main

import "slices"

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// ratio is the median of a/b in each round. What disturbs the machine for
// longer than a round disturbs both.
func ratio(a, b result) float64 {
	ratios := make([]float64, len(a.ns))
	for i := range ratios {
		ratios[i] = a.ns[i] / b.ns[i]
	}
	return median(ratios)
}

// find is the result of a peer for a work; false if it has none.
func find(all []result, work, peer string, cpus int) (result, bool) {
	i := slices.IndexFunc(all, func(r result) bool {
		return r.work.name == work && r.peer.name == peer && r.cpus == cpus
	})
	if i < 0 {
		return result{}, false
	}
	return all[i], true
}

// distinct are the values of f in their first order.
func distinct[T comparable](all []result, f func(result) T) (values []T) {
	for _, r := range all {
		if v := f(r); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

func workNames(all []result) []string {
	return distinct(all, func(r result) string { return r.work.name })
}

func cpuCounts(all []result) []int { return distinct(all, func(r result) int { return r.cpus }) }
