package relay

import (
	"runtime"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A session may look for another connection when the server has closed, or is about to: its search is refused, and starts no
// goroutine that Close does not wait for. (With a WaitGroup the search would count up from zero while Close waits, which is a
// misuse that the race detector reports.)
func TestSeekWhileClosing(t *testing.T) {
	r := newRig(t, setup{Profile: "whisperlive", Queue: 1})
	client, server := r.Session()
	client.Send(frame.Text, `{"uid": "a"}`)
	server.Expect(frame.Text, `{"uid": "a"}`)
	r.Gate.StopAccepting()
	release := make(chan struct{})
	r.sessions.pending.Go(func() { <-release }) // so that Close waits
	closed := make(chan struct{})
	go func() { r.Stop(); close(closed) }()
	wstest.Eventually(t, "the server closes", func() bool {
		return r.sessions.closing.Err() != nil
	})
	for range 1000 {
		runtime.Gosched() // it waits now
	}
	close(release)
	<-closed
	server.Send(frame.Text, `{"status": "WAIT"}`)
	client.ExpectClose(frame.GoingAway, "shutting down")
	_ = client.Close()
	r.expectRecord(fate{"proxy", frame.GoingAway, "shutting down", "discarded"})
	_ = server.Close()
}
