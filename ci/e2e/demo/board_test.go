package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// demonstrated is the demo's result with a gateway that answers so.
func demonstrated(t *testing.T, answer http.HandlerFunc) error {
	t.Helper()
	gateway := httptest.NewServer(answer)
	defer gateway.Close()
	b := newBoard(keys)
	front := httptest.NewServer(b.proxy(gateway.URL))
	defer front.Close()
	return b.demonstrate(context.Background(), front.URL, 200*time.Millisecond)
}

func TestDemoFailsUnlessEveryRequestIsAdmittedOrRefused(t *testing.T) {
	if err := demonstrated(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }); err != nil {
		t.Error(err)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"500":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		if err := demonstrated(t, answer); err == nil || !strings.Contains(err.Error(), "requests got no answer") {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

func TestDemoFailsIfMoreIsAdmittedThanTheLimitAllows(t *testing.T) {
	b := newBoard(keys[:1])
	b.counts[0].admitted = int(keys[0].burst) + 1
	if err := b.table(); err == nil || !strings.Contains(err.Error(), "more was admitted") {
		t.Errorf("%v, want an error", err)
	}
}
