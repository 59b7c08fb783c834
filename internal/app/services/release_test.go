package services

import (
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A proxy that ends holds no place of a server without a session: idle connections close at once, those of sessions when they end, and
// who must still have a connection gets one.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 4)
	r.serve("a", a.URL(), 4)
	first, second := r.join("/stt"), r.join("/stt")
	r.services.Release()
	wstest.Eventually(t, "idle connections are closed", func() bool { return a.Stats().Connections == 2 })
	first.echo("it continues")
	r.apply(func(c *config.Content) { // and stays so, whatever else changes
		putBackend(c, "a", "stt", a.URL(), 3, nil)
	})
	r.join("/stt").echo("dialed for it")
	first.leave()
	second.leave()
	wstest.Eventually(t, "the connections of the sessions are closed", func() bool { return a.Stats().Connections == 1 })
	if b := r.backend("a"); b.Warm != 0 || b.Idle != 0 || b.Cap != 3 {
		t.Errorf("%+v", b.Pool)
	}
}

// Who waits because of a pause gets a session when the proxy ends: its successor is not paused, and serves those that come later.
func TestReleaseEndsPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 2)
	r.serve("gpu-1", server.URL(), 2)
	if _, err := r.services.Pause("stt"); err != nil {
		t.Fatal(err)
	}
	answers := []<-chan int{r.waiting("stt"), r.waiting("stt")}
	r.services.Release()
	for _, answer := range answers {
		if status := wstest.Receive(t, answer, "a client that waited is answered"); status != http.StatusSwitchingProtocols {
			t.Errorf("a client that waited got %d", status)
		}
	}
}
