//go:build unix

package e2e

import (
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestDrain ends the proxy while a session is there that finishes in time.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			backend := wstest.StartLibraryServer(t, wstest.LibraryEcho)
			p := startReady(t, "--backend", backend.URL, "--profile", profile, "--connections", "4", "--drain-timeout", "1m")
			p.settle()
			c := dialRaw(t, p.url("/"))
			c.echo("before")
			unfinished, err := net.Dial("tcp", p.address) // accepted, but its request has not come
			if err != nil {
				t.Fatal(err)
			}
			defer unfinished.Close()
			if _, err := unfinished.Write([]byte("GET / HT")); err != nil {
				t.Fatal(err)
			}
			p.signal(syscall.SIGTERM)
			p.awaitUnready("draining")
			if !p.stats().Draining {
				t.Error("the statistics do not say that it is draining")
			}
			if status, body := p.get("/healthz"); status != http.StatusOK {
				t.Errorf("/healthz: %d %s", status, body)
			}
			p.awaitLog("draining")
			if nc, err := net.Dial("tcp", p.address); err == nil {
				_ = nc.Close()
				t.Error("a new client was accepted")
			}
			c.echo("meanwhile")
			c.close(1000, "bye")
			p.wait(0)
			if r := p.awaitLog("stopped"); r["clean"] != true {
				t.Errorf("not clean: %v", r)
			}
			// All connections to the server were closed in order.
			wstest.Eventually(t, "the server is left", func() bool { return backend.Counts().Open == 0 })
			codes := backend.CloseCodes()
			slices.Sort(codes)
			want := []int{1001, 1001, 1001, 1001}
			if profile == "one-shot" {
				want = []int{1000, 1001, 1001, 1001} // one was the client's
			}
			if accepted := backend.Counts().Accepted; accepted > len(want) { // the replacement of a used connection
				want = append(want, 1001)
			}
			if !slices.Equal(codes, want) {
				t.Errorf("the server got the close codes %v, want %v", codes, want)
			}
		})
	}
}

// TestDrainTimeout ends the proxy while sessions are there that do not finish.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t)
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "2", "--drain-timeout", "100ms", "--close-timeout", "300ms")
			p.settle()
			polite, deaf := dialRaw(t, p.url("/")), dialRaw(t, p.url("/"))
			polite.echo("one")
			deaf.echo("two")
			p.signal(syscall.SIGTERM)
			polite.expectClose(1001, "proxy shutting down")
			p.wait(0) // even though the other one does not answer the close frame
			deaf.expectCode(1001)
			if r := p.awaitLog("stopped"); r["clean"] != false {
				t.Errorf("clean: %v", r)
			}
			for _, r := range p.logged("session ended") {
				if r.number("code") != 1001 || r.text("by") != "proxy" {
					t.Errorf("session: %v", r)
				}
			}
			if n := len(p.logged("session ended")); n != 2 {
				t.Errorf("%d sessions logged, want 2", n)
			}
		})
	}
}

// TestSecondSignal ends the proxy for good while it waits for a session.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "1", "--drain-timeout", "1h")
	c := dialRaw(t, p.url("/"))
	c.echo("hello")
	p.signal(syscall.SIGTERM)
	p.awaitUnready("draining")
	p.signal(syscall.SIGTERM)
	if status := p.ended(); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want by the signal", p.State())
	}
	if _, err := c.r.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the client got %v, want the end of its connection", err)
	}
}

// TestInterrupt ends the proxy with the other signal, while its backend cannot be reached.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--backend", "ws://"+wstest.FreeAddress(t), "--drain-timeout", "1h")
	p.awaitUnready("refused")
	p.signal(syscall.SIGINT)
	p.wait(0)
}
