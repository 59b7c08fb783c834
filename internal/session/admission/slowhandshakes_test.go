package admission_test

import (
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Thousands of clients that never end their request take a bounded number of goroutines and descriptors, and sessions begin meanwhile.
func TestSlowHandshakes(t *testing.T) {
	const limit, slow = 50, 300
	const kept = 24 // an address has about as many places as are free
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Gate: func(o *admission.Options) {
		o.Limits.MaxHandshakes, o.Limits.HandshakeTimeout = limit, time.Hour
	}})
	r.Ready(1)
	before := runtime.NumGoroutine()
	honest := r.Join() // one that is in its session loses nothing
	honest.Send(frame.Text, "hello")
	honest.Expect(frame.Text, "hello")
	var attackers []net.Conn
	defer func() {
		for _, nc := range attackers {
			_ = nc.Close()
		}
	}()
	for i := range slow {
		nc, err := net.Dial("tcp", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		attackers = append(attackers, nc)
		if i%2 == 0 { // the others say nothing
			_, _ = nc.Write([]byte("GET /v1/test HTTP/1.1\r\nHost: x\r\nX-Slow: "))
		}
	}
	wstest.Eventually(t, "the oldest are dropped", func() bool {
		s := r.stats()
		if s.Handshakes > limit {
			t.Fatalf("%d handshakes are unfinished", s.Handshakes)
		}
		return s.Dropped["address"] == slow-kept
	})
	if n := runtime.NumGoroutine(); n > before+limit+20 {
		t.Errorf("%d goroutines; there were %d", n, before)
	}
	for i, nc := range attackers { // the oldest have gone, and the latest have not
		deadline := wstest.Deadline() // it is closed soon after it was counted
		if i >= slow-kept {
			deadline = time.Now().Add(time.Millisecond)
		}
		_ = nc.SetReadDeadline(deadline)
		_, err := nc.Read(make([]byte, 1))
		if timeout, ok := err.(net.Error); (ok && timeout.Timeout()) != (i >= slow-kept) {
			t.Fatalf("attacker %d: %v", i, err)
		}
	}
	honest.Send(frame.Text, "still there")
	honest.Expect(frame.Text, "still there")
	honest.CloseNormally()
	honest = r.Join()
	honest.CloseNormally()
}

// Clients that were refused and do not go away count among the unfinished handshakes.
func TestRefusedClientsThatStay(t *testing.T) {
	t.Parallel()
	const limit = 8
	r := newRig(t, setup{Gate: func(o *admission.Options) { o.Limits.MaxHandshakes = limit }})
	r.Ready(1)
	for range 3 * limit {
		nc, err := net.Dial("tcp", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write([]byte("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"))
		if n := r.stats().Handshakes; n > limit {
			t.Fatalf("%d handshakes are unfinished", n)
		}
	}
	wstest.Eventually(t, "all are answered", func() bool { return r.stats().Refused[http.StatusNotFound] == 3*limit })
}
