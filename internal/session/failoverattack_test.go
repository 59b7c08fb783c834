package session

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

const (
	liveOptions = `{"uid" : "u", "language" : "en", "audio_format" : "int16"}`
	liveReady   = `{"uid" : "u", "message" : "SERVER_READY", "backend" : "x"}`
)

// inReplay returns a session of WhisperLive's whose next server has got its client's options, and is not ready for the audio.
func (r *failoverRig) inReplay() (client, next *wstest.Peer) {
	r.t.Helper()
	client, server, n := r.begin()
	client.Send(frame.Text, liveOptions)
	server.Expect(frame.Text, liveOptions)
	server.Send(frame.Text, liveReady)
	client.Expect(frame.Text, liveReady)
	client.Send(frame.Binary, chunk(1))
	server.Expect(frame.Binary, chunk(1))
	server.Reset()
	next = r.other(n)
	next.ExpectOwn(frame.Text, liveOptions)
	return client, next
}

// A client that closes during the replay does not wait for longer than CloseTimeout for a server that takes nothing.
func TestClientClosesInReplay(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{service: func(s *Service) { s.CloseTimeout = 50 * time.Millisecond }})
	client, _ := r.inReplay()
	client.SendClose(frame.NormalClosure, "enough")
	client.ExpectClose(frame.NormalClosure, "enough")
	client.ExpectEnd()
	_ = client.Close()
	if a := r.record(); a["by"].String() != "client" || a["moves"].Int64() != 1 {
		t.Errorf("the record says %v", a)
	}
}

// A server that becomes ready after the client has closed gets all that the client sent, and then its close frame.
func TestServerIsReadyAfterClientCloses(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{})
	client, next := r.inReplay()
	client.SendClose(frame.NormalClosure, "enough")
	wstest.Eventually(t, "the close frame waits", func() (waits bool) {
		r.on(func(s *Session) { waits = s.failover.closing != nil })
		return waits
	})
	next.Send(frame.Text, liveReady)
	next.Expect(frame.Binary, chunk(1))
	client.ExpectClose(frame.NormalClosure, "enough")
	client.ExpectEnd()
	_ = client.Close()
}

// A session whose audio crashes servers at once, as soon as they hear it, is not given to all of them either.
func TestSessionCrashesServersAtOnce(t *testing.T) {
	r := newFailoverRig(t, "vosk", 1, setup{})
	client, server, _ := r.began()
	for range maxDead {
		server.Reset()
		server = r.servers[0].Take()
		server.ExpectOwn(frame.Text, fullConfig)
		server.Expect(frame.Binary, chunk(0))
		r.on(func(s *Session) { s.failover.began = loop.Now() })
	}
	server.Reset()
	client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer; moved from 3 servers that failed")
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
}
