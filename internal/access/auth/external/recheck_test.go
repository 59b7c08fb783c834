package external

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The server is asked once more with the same question, and only 401 and 403 turn the client away: then the answer that is remembered lets no
// other in, either.
func TestAgain(t *testing.T) {
	var status atomic.Int32
	asked := make(chan http.Header, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Clone()
		if r.Header.Get("X-Original-Uri") != "/stt?model=premium" {
			t.Errorf("asked about %q", r.Header.Get("X-Original-Uri"))
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	c := New(Options{URL: server.URL, Timeout: time.Minute, Cache: time.Hour, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	request := httptest.NewRequest(http.MethodGet, "/stt?model=premium", http.NoBody)
	request.Header.Set("Cookie", "session=a:b")
	request.Header["X-Two"] = []string{"one", "", "three"}
	question := ""
	attempt := &auth.Attempt{Service: "stt", Credential: "secret", Request: request, Question: &question}
	status.Store(http.StatusOK)
	for range 2 { // the second is answered from memory
		question = ""
		if _, err := c.Authenticate(t.Context(), attempt); err != nil || question == "" {
			t.Fatalf("%v, question %q", err, question)
		}
	}
	first := <-asked
	for _, answer := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden} {
		status.Store(int32(answer))
		reason, want := c.Again(t.Context(), question), ""
		if answer == http.StatusUnauthorized || answer == http.StatusForbidden {
			want = refusedNow
		}
		if reason != want {
			t.Errorf("%d: %q, want %q", answer, reason, want)
		}
		if again := <-asked; !reflect.DeepEqual(first, again) {
			t.Errorf("asked with %v, and again with %v", first, again)
		}
	}
	if _, err := c.Authenticate(t.Context(), attempt); !errors.As(err, new(*auth.Denied)) {
		t.Errorf("another client with the same question: %v", err)
	}
	server.Close()
	if reason := c.Again(t.Context(), question); reason != "" {
		t.Errorf("without a server: %q", reason)
	}
}

// However many sessions last, the server is asked about them at a rate, and no more than a few times at once.
func TestAgainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{URL: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler)})
		defer c.Close()
		for range againPerSecond {
			if wait := c.Turn(); wait > 0 {
				t.Errorf("one of the first waits for %v", wait)
			}
		}
		for i := range 100 {
			if wait, want := c.Turn(), time.Duration(i+1)*time.Second/againPerSecond; wait < want-time.Millisecond || wait > want+time.Millisecond {
				t.Errorf("turn %d comes after %v, want %v", i, wait, want)
			}
		}
		for range againAtOnce {
			<-c.again.unasked
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c.Again(ctx, "X-A:b\n"); ctx.Err() == nil {
			t.Error("it does not wait for its turn")
		}
	})
}

// Questions about sessions that last take no connections from clients that come.
func TestAgainTakesNoTurn(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		<-hold
		answers200(w, req)
	})
	var asking sync.WaitGroup
	for range againAtOnce {
		asking.Go(func() { r.Again(t.Context(), "X-A:b\n") })
	}
	wstest.Eventually(t, "questions about sessions are asked", func() bool { return r.asked.Load() == againAtOnce })
	for i := range maxParallel {
		a := attempt(t, fmt.Sprint("k", i))
		a.Client = netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 4)})
		asking.Go(func() {
			if _, err := r.Authenticate(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
	wstest.Eventually(t, "all questions about clients arrive", func() bool { return r.asked.Load() == againAtOnce+maxParallel })
	close(hold)
	asking.Wait()
}
