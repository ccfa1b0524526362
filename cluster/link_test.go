package cluster

import (
	"errors"
	"testing"
)

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// What is one key's fault alone is no reason to give Redis up.
func TestServerFaults(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("EOF"): true, errSlow: true, answer("READONLY You can't write"): true, answer("LOADING x"): true,
		answer("CLUSTERDOWN x"): true, answer("NOPERM x"): true,
		answer("MOVED 1 127.0.0.1:1"): false, answer("ASK 1 127.0.0.1:1"): false, answer("TRYAGAIN x"): false,
		answer("ERR ratelimit:{x} is not a bucket"): false,
	} {
		if got := serverFault(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if serverFault(nil) {
		t.Error("no error is a fault")
	}
}
