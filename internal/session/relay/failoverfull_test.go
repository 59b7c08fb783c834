package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A session whose server dies, while the only other one says that it is full, was not moved: it ends as when no other server has a place, also if
// the other one takes longer to say so than the session may wait.
func TestOnlyOtherServerIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		why  string
	}{
		"soon": {why: "no connection came free in time"},
		"late": {late: true, why: "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "whisperlive", 2, setup{Service: func(s *route.Service) {
				s.QueueTimeout, s.MoveTimeout = 200*time.Millisecond, 200*time.Millisecond
				if c.late {
					s.MoveTimeout = time.Minute
				}
			}})
			const options, ready = `{"uid" : "u", "language" : "en", "audio_format" : "int16"}`, `{"uid" : "u", "message" : "SERVER_READY", "backend" : "x"}`
			client, server, n := r.Begin()
			client.Send(frame.Text, options)
			server.Expect(frame.Text, options)
			server.Send(frame.Text, ready)
			client.Expect(frame.Text, ready)
			client.Send(frame.Binary, sessiontest.Chunk(1))
			server.Expect(frame.Binary, sessiontest.Chunk(1))
			r.Scripts[n].HangUp(true)
			server.Reset()
			full := r.Other(n)
			full.ExpectOwn(frame.Text, options)
			r.on(func(s *Session) {
				s.leg.found.until = time.Now()
				if !c.late { // however late the answer comes
					s.leg.found.until = s.leg.found.until.Add(time.Hour)
				}
			})
			full.Send(frame.Text, `{"uid" : "u", "status" : "WAIT", "message" : 3.5}`)
			full.ExpectClose(frame.GoingAway, "session moved to another connection")
			client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer; not moved: "+c.why)
			client.SendClose(frame.InternalError, "")
			client.ExpectEnd()
			_ = client.Close()
			_ = full.Close() // its place was not free before
			if f := r.moves(); f[meter.Lost].Moved != 0 || f[meter.Lost].NotMoved != 1 {
				t.Errorf("moves: %+v; want one that is not moved", f[meter.Lost])
			}
			if got := r.Record(); got["moves"].Int64() != 0 || got["class"].String() != meter.BackendFailed.String() {
				t.Errorf("the record says %v", got)
			}
		})
	}
}
