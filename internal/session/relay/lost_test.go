//go:build linux && !portableloop

package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A connection that is lost between its lease and the beginning of the session costs the client nothing: it waits for
// another. (With the portable loops, the session may begin before the loss is seen.)
func TestLeasedConnectionIsLost(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 1})
	r.Ready(1)
	busy, release := make(chan struct{}), make(chan struct{})
	r.Loops.Loops()[0].Post(func() { close(busy); <-release })
	<-busy
	client := r.Connect(wstest.UpgradeRequest("/v1/test"))
	wstest.Eventually(t, "the connection is leased", func() bool { return r.Backend.Stats().Leased == 1 })
	r.Accepted().Reset() // the loop sees this before it begins the session
	close(release)
	client.ExpectUpgrade()
	server := r.Accepted()
	client.Send(frame.Text, "hello")
	server.Expect(frame.Text, "hello")
	if s := r.Backend.Stats().Totals; s.Leased != 2 || s.Discarded != 1 || s.Dialed != 2 {
		t.Errorf("totals: %+v; want two leases", s)
	}
	if got := r.stats(); got.Total != 1 || len(got.Refused) != 0 {
		t.Errorf("stats: %+v", got)
	}
	client.SendClose(frame.NormalClosure, "")
	client.ExpectClose(frame.NormalClosure, "")
	_ = client.Close()
	if a := r.Record(); a["id"].String() != (record.ID{Process: r.Shared.Process, Number: 1}).String() {
		t.Errorf("record: %v", a)
	}
}
