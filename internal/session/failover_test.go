package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	profiles "github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// failoverRig is a rig with several servers, whose sessions may outlive them.
type failoverRig struct {
	*rig
	servers []*wstest.Server
	arena   *replay.Arena
}

func newFailoverRig(t *testing.T, profile string, servers int, o setup) *failoverRig {
	t.Helper()
	r := &failoverRig{arena: replay.NewArena(64 << 20)}
	t.Cleanup(func() { // the rig is closed before
		if n := r.arena.Used(); n != 0 {
			t.Errorf("%d bytes of the arena are still in use", n)
		}
	})
	for range servers {
		r.servers = append(r.servers, new(wstest.Server))
	}
	o.profile, o.script, o.more = profile, r.servers[0], r.servers[1:]
	options, service := o.options, o.service
	o.options = func(o *Options) {
		o.Replay = r.arena
		if options != nil {
			options(o)
		}
	}
	o.service = func(s *route.Service) {
		s.Failover, s.ReplayWindow = true, 15*time.Second
		s.QueueTimeout = wstest.Timeout
		if service != nil {
			service(s)
		}
	}
	r.rig = newRig(t, o)
	if r.service.Profile.Predial == profiles.PredialIdle { // idle connections are kept
		r.allReady(max(o.cap, 1), r.backends...)
	}
	return r
}

// begin begins a session, and returns its client, the server that serves it, and which one that is.
func (r *failoverRig) begin() (client, server *wstest.Peer, number int) {
	r.t.Helper()
	client = r.join()
	name := ""
	r.on(func(s *Session) { name = s.record.Backend.URL() })
	for i, b := range r.backends {
		if b.URL() == name {
			return client, r.servers[i].Take(), i
		}
	}
	r.t.Fatal("nobody serves the session")
	return nil, nil, 0
}

// other returns the connection to the other one of two servers.
func (r *failoverRig) other(number int) *wstest.Peer {
	r.t.Helper()
	return r.servers[1-number].Take()
}

const (
	fullConfig = `{"config" : {"sample_rate" : 8000}}`
	second     = 16000 // bytes of audio at 8000 Hz
)

// chunk is an audio message of a tenth of a second, which can be told from others.
func chunk(n int) string { return strings.Repeat(string(rune('a'+n)), second/10) }

func partial(text string) string { return fmt.Sprintf(`{"partial" : %q}`, text) }

func final(text string, start, end float64) string {
	return fmt.Sprintf(`{"result" : [{"conf" : 1, "end" : %.2f, "start" : %.2f, "word" : %q}], "text" : %q}`, end, start, text, text)
}

// speak sends audio and has the server answer it.
func speak(client, server *wstest.Peer, chunks int, answer, wanted string) {
	client.Send(frame.Binary, chunk(chunks))
	server.Expect(frame.Binary, chunk(chunks))
	server.Send(frame.Text, answer)
	client.Expect(frame.Text, wanted)
}

// A server dies in the middle of a frame to the client. The next one gets the configuration and what was not answered; the client gets
// neither half a frame nor a result twice, and the times go on.
func TestServerDiesInFrame(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.begin()
	client.Send(frame.Text, fullConfig)
	server.Expect(frame.Text, fullConfig)
	speak(client, server, 0, partial("one"), partial("one"))
	speak(client, server, 1, final("one", 0.05, 0.15), final("one", 0.05, 0.15))
	speak(client, server, 2, partial("two"), partial("two"))
	client.Send(frame.Binary, chunk(3))
	server.Expect(frame.Binary, chunk(3))
	half := server.Encode(true, frame.Text, []byte(partial("two, but the server dies")))
	server.SendBytes(half[:len(half)-5])
	server.Reset()

	next := r.other(n)
	next.ExpectOwn(frame.Text, fullConfig)
	next.Expect(frame.Binary, chunk(2))
	next.Send(frame.Text, partial("two again")) // the client has got a reply to this
	next.Expect(frame.Binary, chunk(3))
	next.Send(frame.Text, final("two", 0.02, 0.18))
	client.Expect(frame.Text, final("two", 0.22, 0.38))
	speak(client, next, 4, partial("three"), partial("three"))
	client.Send(frame.Text, voskEnd)
	var d Detail
	r.on(func(s *Session) { d = s.detail() })
	if a := d.Recoverability; !a.Recoverable || len(a.Moves) != 1 || a.Moves[0].Cause != meter.Lost || a.Moves[0].Replayed != 200*time.Millisecond {
		t.Errorf("recoverability: %+v", a)
	}
	moved := r.line("session moved")
	if moved["cause"].String() != "lost" || moved["replayed"].Duration() != 200*time.Millisecond {
		t.Errorf("the log says %v", moved)
	}
}
