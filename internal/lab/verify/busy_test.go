package verify

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// laggard stands between a client and a server that is slow to see that clients have gone, as on a busy machine: while it holds, it keeps the server's side of
// connections that the client has ended. It may alter what the server sends.
type laggard struct {
	server string
	alter  func(connection int, sent []byte) []byte // nil for nothing; of the same length
	gone   func()                                   // ends the server for who dials from now on
	mu     sync.Mutex
	holds  bool
	left   int        // connections until it no longer holds; 0 for never
	number int        // of connections so far
	ended  []net.Conn // by the client; the server does not know yet
}

// start returns the address for clients.
func (l *laggard) start(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			n := l.accepted()
			all.Go(func() { l.relay(client, n) })
		}
	})
	l.gone = func() { _ = listener.Close() }
	t.Cleanup(func() {
		l.gone()
		l.release()
		all.Wait()
	})
	return listener.Addr().String()
}

func (l *laggard) relay(client net.Conn, n int) {
	defer client.Close()
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		l.answer(client, server, n)
		_ = client.Close()
		_, _ = io.Copy(io.Discard, server) // a client that has gone is no reason to stop
	})
	_, _ = io.Copy(server, client)
	l.mu.Lock()
	if l.holds {
		l.ended = append(l.ended, server)
	} else {
		_ = server.Close()
	}
	l.mu.Unlock()
	back.Wait()
}

func (l *laggard) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = true
}

// answer passes on what the server sends.
func (l *laggard) answer(client, server net.Conn, n int) {
	for b := make([]byte, 64<<10); ; {
		size, err := server.Read(b)
		sent := b[:size]
		if l.alter != nil {
			sent = l.alter(n, sent)
		}
		if _, failed := client.Write(sent); failed != nil || err != nil {
			return
		}
	}
}

// accepted counts a connection, and returns how many there were before.
func (l *laggard) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		if l.left--; l.left == 0 {
			l.releaseLocked()
		}
	}
	l.number++
	return l.number - 1
}

// holdFor has the server see who has gone when there are so many more connections.
func (l *laggard) holdFor(connections int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = connections
}

func (l *laggard) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked()
}

func (l *laggard) releaseLocked() {
	l.holds = false
	for _, c := range l.ended {
		_ = c.Close()
	}
	l.ended = nil
}

// A server is full with as many sessions as it takes, also if it is slow to see that the sessions before have gone.
func TestBusyAfterOtherSessions(t *testing.T) {
	t.Parallel()
	server, err := sim.Start(sim.Options{Protocol: sim.Cartesia, Nasty: sim.NastyOptions{Full: 6}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	slow := &laggard{server: server.Addr().String()}
	target, err := handshake.ParseTarget("ws://" + slow.start(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := try(t, sim.Cartesia, sim.Options{Protocol: sim.Cartesia}, func(o *Options) {
		target.Protocol = o.Target.Protocol
		target.AddQuery(o.Profile.Script().Query)
		o.Target, o.Recordings = target, o.Recordings[:1] // which needs four connections for reset, the last trial before
		o.Progress = func(what string) {
			switch {
			case strings.HasPrefix(what, "reset"):
				slow.hold()
			case what == "busy":
				slow.holdFor(4) // the first three of which have the two places that are left
			}
		}
	})
	last := r.Claims[len(r.Claims)-1]
	if err != nil || last.Name != "busy" || last.Verdict != Holds || !strings.Contains(last.Why, "with 6 sessions open") {
		t.Errorf("%v, %+v", err, last)
	}
}

// A refusal that takes a while, as from far away, is not overlooked. It may be too late for the client.
func TestBusyRefusesLate(t *testing.T) {
	t.Parallel()
	r, err := try(t, sim.Soniox, sim.Options{Protocol: sim.Soniox, Latency: 60 * time.Millisecond, Nasty: sim.NastyOptions{Full: 3}}, func(o *Options) {
		o.Recordings = o.Recordings[:1]
	})
	last := r.Claims[len(r.Claims)-1]
	why := map[Verdict]string{Holds: "with 3 sessions open", Fails: "its client is lost"}[last.Verdict]
	if err != nil || last.Name != "busy" || why == "" || !strings.Contains(last.Why, why) {
		t.Errorf("%v, %+v", err, last)
	}
}
