package session

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/profile"
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

// However small a client's messages are, what is known of each of them stays small beside what replay-memory accounts for.
func TestManySmallMessages(t *testing.T) {
	if size := unsafe.Sizeof(profile.Entry{}); size != entrySize {
		t.Errorf("an entry takes %d bytes", size)
	}
	r := newFailoverRig(t, "deepgram", 1, setup{queue: 2})
	client := r.connect(wstest.UpgradeRequest("/v1/test?encoding=linear16&sample_rate=8000", "Authorization: Token good"))
	client.ExpectUpgrade()
	server := r.servers[0].Take()
	const messages = 40_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range messages {
			if _, _, err := server.Next(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	some := []byte(strings.Repeat(string(wstest.ClientFrame(true, frame.Binary, "")), 100))
	for range messages / 100 {
		client.SendBytes(some)
		r.on(func(s *Session) {
			f := s.failover
			if takes := int64(cap(f.entries.list)) * entrySize; takes > 2*entriesFree+f.window.Memory() {
				t.Errorf("%d bytes for entries, %d of the arena", takes, f.window.Memory())
			}
		})
	}
	<-done
	r.on(func(s *Session) {
		if a := s.failover.assurance(); a.Assured || a.Why != "the client sent many small messages, and the server has not answered them" {
			t.Errorf("assurance: %+v", a)
		}
	})
	_ = client.Close()
}
