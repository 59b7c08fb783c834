package resume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// session notes what a line's session gets.
type session struct {
	got      []byte
	gathered int
	ending   bool
	ended    error
}

func (s *session) Received(_ *loop.Conn, b []byte) int {
	s.got = append(s.got, b...)
	return len(b)
}
func (s *session) Flushed(*loop.Conn)            {}
func (s *session) Gathered(*loop.Conn)           { s.gathered++ }
func (s *session) Ending(*loop.Conn)             { s.ending = true }
func (s *session) Ended(c *loop.Conn, err error) { s.ended = err; c.Close() }

// newLines returns lines, and a function that calls another one on a loop.
func newLines(t *testing.T, memory int64) (*Lines, func(f func(l *loop.Loop))) {
	t.Helper()
	l := loops(t)[0]
	shared := record.NewShared(limits.NewRegistry(), nil, slog.New(slog.DiscardHandler))
	return NewLines(shared, replay.NewArena(memory)), func(f func(*loop.Loop)) { l.Call(func() { f(l) }) }
}

// loops returns two loops, of which the first is awake.
func loops(t *testing.T) []*loop.Loop {
	group, err := loop.NewGroup(loop.Options{Min: 1, Max: 2, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(group.Close)
	return group.Loops()
}

func (s *Lines) begin(l *loop.Loop, h loop.Handler) *Line {
	return s.Begin(l, h, Begin{Client: &record.Client{Resume: NewToken(s.process)}, Service: "test", Wait: time.Hour})
}

// A client's stream ends with more than there is room for. The rest waits until the session reads on, and all of it arrives up to the close frame.
// A session that gives the rest up has got whole messages, and the end is known.
func TestStreamEndsWithMuch(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	for _, drops := range []bool{false, true} {
		on(func(l *loop.Loop) {
			s := new(session)
			line := lines.begin(l, s)
			carrier := l.Link(new(slow), line)
			line.carrier = carrier
			message := wstest.ClientFrame(true, frame.Binary, string(make([]byte, 50<<10)))
			want := append(bytes.Repeat(message, 10), wstest.ClientFrame(true, frame.Close, "")...)
			stream := want
			read := func() { // as the loop does
				for !carrier.Paused() && len(stream) > 0 {
					n := min(len(stream), 64<<10)
					line.Received(carrier, stream[:n])
					stream = stream[n:]
				}
			}
			line.conn.Pause()
			carrier.Pause()
			line.Ending(carrier)
			if s.ending {
				t.Error("the session hears of the end too early")
			}
			read()
			if line.Ending(carrier); !s.ending || len(stream) == 0 || line.conn.Kept() > 2*maxDrained+len(message) {
				t.Errorf("the session hears of the end: %t; %d bytes are kept, %d not read", s.ending, line.conn.Kept(), len(stream))
			}
			if drops {
				if !line.DropRest() {
					t.Error("the client cannot come back")
				}
				read()
				want = want[:int(line.received.taken)*len(message)]
			}
			line.conn.Resume()
			l.Later(func() {
				read()
				if len(stream) > 0 || !line.received.closed || line.received.taken == 0 || !bytes.Equal(s.got, want) {
					t.Errorf("drops: %t; %d bytes are not read; closed: %t; the session got %d messages, %d bytes; want %d", drops, len(stream),
						line.received.closed, line.received.taken, len(s.got), len(want))
				}
				line.carrier = nil
				line.conn.Close()
			})
		})
		on(func(*loop.Loop) {})
	}
}

// A ping within a message is answered at once, and the message comes whole.
func TestPingWithinMessage(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		s := new(session)
		line := lines.begin(l, s)
		begin, end := wstest.ClientFrame(false, frame.Text, "be"), wstest.ClientFrame(true, frame.Continuation, "gin")
		ping := wstest.ClientFrame(true, frame.Ping, "there?")
		line.Received(nil, append(bytes.Clone(begin), ping[:3]...))
		if len(s.got) != 0 {
			t.Errorf("the session got %q too early", s.got)
		}
		line.Received(nil, bytes.Clone(ping[3:]))
		if !bytes.Equal(s.got, ping) {
			t.Errorf("the session got %q; want the ping", s.got)
		}
		line.Received(nil, bytes.Clone(end))
		if want := append(append(bytes.Clone(ping), begin...), end...); !bytes.Equal(s.got, want) {
			t.Errorf("the session got %q; want %q", s.got, want)
		}
		line.conn.Close()
	})
}

// Whatever a client sends and however it arrives, its session gets all of it, each message in one piece.
func TestAnythingArrives(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	for seed := range uint64(300) {
		on(func(l *loop.Loop) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := new(session)
			line := lines.begin(l, s)
			var stream, data, control []byte
			messages := 0
			open := false
			for range 40 {
				if random.IntN(3) == 0 {
					f := wstest.ClientFrame(true, []frame.Opcode{frame.Ping, frame.Pong}[random.IntN(2)], string(make([]byte, random.IntN(20))))
					stream, control = append(stream, f...), append(control, f...)
					continue
				}
				op, fin := frame.Binary, random.IntN(2) == 0
				if open {
					op = frame.Continuation
				}
				if open = !fin; fin {
					messages++
				}
				f := wstest.ClientFrame(fin, op, string(make([]byte, random.IntN(300))))
				stream, data = append(stream, f...), append(data, f...)
			}
			if open {
				f := wstest.ClientFrame(true, frame.Continuation, "")
				stream, data, messages = append(stream, f...), append(data, f...), messages+1
			}
			for len(stream) > 0 {
				n := min(len(stream), 1+random.IntN(400))
				line.Received(nil, bytes.Clone(stream[:n]))
				stream = stream[n:]
			}
			var gotData, gotControl []byte
			for rest := s.got; len(rest) > 0; {
				h, size, err := frame.ParseHeader(rest)
				if err != nil || size == 0 {
					t.Fatalf("seed %d: the session got no frames", seed)
				}
				n := size + int(h.Length)
				if h.Opcode.IsControl() {
					gotControl = append(gotControl, rest[:n]...)
				} else {
					gotData = append(gotData, rest[:n]...)
				}
				rest = rest[n:]
			}
			if !bytes.Equal(gotData, data) || !bytes.Equal(gotControl, control) || int(line.received.taken) != messages || line.received.rest != nil {
				t.Errorf("seed %d: %d bytes of data, want %d; %d of control frames, want %d; %d messages, want %d", seed, len(gotData), len(data),
					len(gotControl), len(control), line.received.taken, messages)
			}
			line.conn.Close()
		})
	}
}

// Clients that begin long messages and do not end them get no more memory than those of one address may have; their messages pass in pieces then, but
// not those of others.
func TestGatheredIsBounded(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		begin := wstest.ClientFrame(true, frame.Binary, string(make([]byte, 1<<20)))[:900<<10]
		var all []*Line
		streams := 0
		for i := range 101 {
			line := lines.beginFrom(l, crowd{network: []string{"192.0.2.1", "192.0.2.2"}[i/100]})
			for rest := begin; len(rest) > 0; {
				n := min(len(rest), 64<<10)
				line.Received(nil, bytes.Clone(rest[:n]))
				rest = rest[n:]
			}
			all = append(all, line)
			if line.received.streams {
				streams++
			}
		}
		if n := lines.Unfinished.gathered.Load(); n > maxGathered/3+maxWhole || n < maxGathered/4 || streams == 0 || streams > 80 || all[100].received.streams {
			t.Errorf("%d bytes wait for their messages' ends; %d of 100 pass in pieces; that of another address: %t", n, streams, all[100].received.streams)
		}
		for _, line := range all {
			line.conn.Close()
		}
		if n := lines.Unfinished.gathered.Load(); n != 0 || lines.Stats().Lines != 0 || len(lines.Unfinished.shares) != 0 {
			t.Errorf("%d bytes and %d lines are left", n, lines.Stats().Lines)
		}
	})
}

// A client that is in the middle of a message when its session ends, and does not close, gives that memory back while the line waits for it.
func TestEndedGathersNothing(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	begin := wstest.ClientFrame(true, frame.Binary, string(make([]byte, 64<<10)))[:60<<10]
	end := frame.AppendControl(nil, frame.Close, frame.ClosePayload(frame.NormalClosure, ""), false)
	for name, ends := range map[string]func(*Line){
		"it is there": func(line *Line) { line.Write(end); line.conn.Close() },
		"it is back":  func(line *Line) { line.Write(end); line.over = true; line.Expired(nil) },
	} {
		on(func(l *loop.Loop) {
			line := lines.begin(l, new(session))
			line.carrier = l.Link(new(slow), line)
			line.Received(nil, bytes.Clone(begin))
			if ends(line); line.carrier != nil || lines.Stats().Lines != 1 {
				t.Errorf("%s: the line does not wait", name)
			}
			if n := lines.Unfinished.gathered.Load(); n != 0 || line.received.rest != nil || !line.received.follower.Between() {
				t.Errorf("%s: %d bytes wait for their message's end", name, n)
			}
			line.finish()
		})
	}
}

// Many clients that do not end short messages get no more memory than those with long ones.
func TestShortGatheredIsBounded(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		begin := wstest.ClientFrame(true, frame.Binary, string(make([]byte, 64<<10)))[:60<<10]
		var all []*Line
		bytes := 0
		for range 2000 {
			line := lines.begin(l, new(session))
			line.Received(nil, begin)
			if rest := line.received.rest; rest != nil {
				bytes += len(*rest)
			}
			all = append(all, line)
		}
		if bytes < maxGathered/4 || bytes > maxGathered/3+len(all)*uncounted {
			t.Errorf("%d bytes wait for their messages' ends", bytes)
		}
		for _, line := range all {
			line.conn.Close()
		}
	})
}

// What breaks the protocol with its header does not wait for its end: the session sees that at once.
func TestBreaksProtocol(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		for _, begin := range [][]byte{
			{0x80 | byte(frame.Ping), 0x80 | 127, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4},
			{0x80 | byte(frame.Text), 100},
			{0x80 | byte(frame.Continuation), 0x80 | 100, 1, 2, 3, 4},
		} {
			s := new(session)
			line := lines.begin(l, s)
			line.Received(nil, bytes.Clone(begin))
			if !bytes.Equal(s.got, begin) || line.received.rest != nil {
				t.Errorf("the session got %q; want %q", s.got, begin)
			}
			line.conn.Close()
		}
	})
}

// A client comes back just when its line was told to make room: others are told later, and it is not counted.
func TestBackBeforeGivingUp(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		line := lines.begin(l, new(session))
		lines.ending = true
		line.carrier = l.Link(new(Line), new(session))
		line.giveUp()
		line.carrier = nil
		if lines.ending || lines.Stats().Expired != 0 {
			t.Error("no other line will make room")
		}
		line.conn.Close()
		line.giveUp()
		if stats := lines.Stats(); stats != (Stats{}) {
			t.Errorf("%+v; want nothing", stats)
		}
	})
}

// A client comes back just when its session has ended for good.
func TestBackAfterTheEnd(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		line := lines.begin(l, new(session))
		token := line.token
		line.conn.Close()
		err := line.Resume(Asked{Token: token, Received: -1}, func() (loop.Socket, error) {
			t.Error("it takes the socket")
			return loop.Socket{}, errors.New("none")
		}, nil)
		if !errors.Is(err, errGone) {
			t.Errorf("%v; want %v", err, errGone)
		}
	})
}

// Lines give memory back that others need: it is shared with failover, and fairly by tenant and network.
func TestGivesBack(t *testing.T) {
	lines, on := newLines(t, 256<<10)
	var greedy *Line
	on(func(l *loop.Loop) {
		greedy = lines.begin(l, new(session))
		greedy.carrier = l.Link(new(Line), new(session)) // it is there, and acknowledges nothing
		greedy.kept.pinged = true
		for range 240 {
			greedy.keep(wstest.ServerFrame(true, frame.Binary, string(make([]byte, 1000))))
			greedy.kept.sent++
			greedy.kept.window.End(profile.Entry{})
		}
	})
	window := new(replay.Window)
	window.SetArena(lines.arena, replay.Owner{Tenant: "another"})
	wstest.Eventually(t, "another one gets some", func() bool { return window.Append(make([]byte, 2<<10)) && window.Memory() > 100<<10 })
	on(func(*loop.Loop) {
		if greedy.kept.window.Memory() != 0 {
			t.Errorf("%d bytes are still kept", greedy.kept.window.Memory())
		}
		greedy.carrier = nil
		greedy.conn.Close()
		window.Free()
		if n := lines.arena.Used(); n != 0 {
			t.Errorf("%d bytes are in use", n)
		}
	})
}

// A client has lost the message during which memory ran out, also if it acknowledges those before that: it cannot come back without saying how many it
// has got.
func TestGivesBackWithinMessage(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		line := lines.begin(l, new(session))
		line.carrier = l.Link(new(slow), line)
		line.Write(wstest.ServerFrame(true, frame.Binary, "first"))
		line.Write(wstest.ServerFrame(false, frame.Binary, "sec"))
		line.giveBack()
		pong := binary.BigEndian.AppendUint64([]byte{pingMark}, 1)
		line.Received(nil, wstest.ClientFrame(true, frame.Pong, pong))
		line.Write(wstest.ServerFrame(true, frame.Continuation, "ond"))
		socket := func() (loop.Socket, error) { return loop.Socket{}, errors.New("it may come back") }
		for received, status := range map[int64]int{-1: http.StatusGone, 1: http.StatusGone, 2: 0} {
			refusal := new(handshake.Refusal)
			err := line.Resume(Asked{Token: line.token, Received: received}, socket, nil)
			if errors.As(err, &refusal); refusal.Status != status {
				t.Errorf("with %d messages received: %v; want %d", received, err, status)
			}
		}
		line.carrier = nil
		line.conn.Close()
	})
}

// slow is a client's connection that takes what is written when the test says so.
type slow struct {
	loop.Link
	got     []byte
	pending int
	ended   bool
}

func (s *slow) Write(b []byte) { s.got, s.pending = append(s.got, b...), s.pending+len(b) }
func (s *slow) Pending() int   { return s.pending }
func (s *slow) Waits() bool    { return s.pending > 0 }
func (s *slow) Leaving()       {}
func (s *slow) Interest()      {}
func (s *slow) CloseWrite()    { s.ended = true }
func (s *slow) Close()         { s.ended = true }

// withoutPings returns what a connection has got but for pings.
func (s *slow) withoutPings() (all []byte) {
	for rest := s.got; len(rest) > 0; {
		h, size, _ := frame.ParseHeader(rest)
		n := min(len(rest), size+int(h.Length))
		if h.Opcode != frame.Ping {
			all = append(all, rest[:n]...)
		}
		rest = rest[n:]
	}
	return all
}

// A client that is back gets what it has missed as its socket takes it, and then what the session has sent meanwhile. What is not on its way yet
// stays in the arena.
func TestCatchesUp(t *testing.T) {
	lines, on := newLines(t, 8<<20)
	for seed := range uint64(50) {
		on(func(l *loop.Loop) {
			random := rand.New(rand.NewPCG(seed, 2))
			line := lines.begin(l, new(session))
			var sent, rest []byte
			write := func(n int) { // a part of what the server sends
				for len(rest) < n {
					rest = append(rest, wstest.ServerFrame(random.IntN(3) > 0, frame.Binary, string(make([]byte, random.IntN(100<<10))))...)
				}
				sent = append(sent, rest[:n]...)
				line.Write(rest[:n])
				rest = rest[n:]
			}
			write(400<<10 + random.IntN(400<<10))
			taker := new(slow)
			line.carrier = l.Link(taker, line)
			line.resend(0, false)
			for turns := 0; line.kept.behind; turns++ {
				if taker.pending > maxResent || line.conn.Pending() == 0 {
					t.Fatalf("seed %d: %d bytes wait outside the arena", seed, taker.pending)
				}
				taker.pending = 0
				if turns < 20 && random.IntN(2) == 0 {
					write(random.IntN(20 << 10))
				}
				line.Flushed(nil)
			}
			write(random.IntN(10 << 10))
			if got := taker.withoutPings(); !bytes.Equal(got, sent) {
				t.Fatalf("seed %d: the client got %d bytes; want %d", seed, len(got), len(sent))
			}
			line.carrier = nil
			line.conn.Close()
		})
	}
}

// A client that gets much is asked for its progress once, without waiting for the time of that; its pong makes room.
func TestAsksAfterMuch(t *testing.T) {
	lines, on := newLines(t, 8<<20)
	on(func(l *loop.Loop) {
		line := lines.begin(l, new(session))
		taker := new(slow)
		line.carrier = l.Link(taker, line)
		message := wstest.ServerFrame(true, frame.Binary, string(make([]byte, 1<<10)))
		ping := func() []byte { // the payload of the first one
			for rest := taker.got; len(rest) > 0; {
				h, size, _ := frame.ParseHeader(rest)
				if rest = rest[size:]; h.Opcode == frame.Ping {
					return rest[:h.Length]
				}
				rest = rest[h.Length:]
			}
			return nil
		}
		for line.kept.window.Memory() < pingAfter {
			if ping() != nil {
				t.Fatal("the client is asked too early")
			}
			line.Write(message)
		}
		payload := ping()
		if payload == nil {
			t.Fatalf("the client is not asked after %d bytes", line.kept.window.Memory())
		}
		line.Received(nil, wstest.ClientFrame(true, frame.Pong, string(payload)))
		if kept := line.kept.window.Memory(); kept > 4<<10 {
			t.Errorf("%d bytes are kept that the client has acknowledged", kept)
		}
		line.carrier = nil
		line.conn.Close()
	})
}

// A client's pong counts also within a message that is too long to wait for its end.
func TestAcknowledgesWithinLongMessage(t *testing.T) {
	lines, on := newLines(t, 8<<20)
	on(func(l *loop.Loop) {
		s := new(session)
		line := lines.begin(l, s)
		line.carrier = l.Link(new(slow), line)
		line.Write(wstest.ServerFrame(true, frame.Binary, "first"))
		stream := wstest.ClientFrame(false, frame.Binary, make([]byte, maxWhole))
		line.Received(nil, bytes.Clone(stream))
		line.ping()
		pong := wstest.ClientFrame(true, frame.Pong, binary.BigEndian.AppendUint64([]byte{pingMark}, 1))
		line.Received(nil, bytes.Clone(pong))
		stream = append(stream, pong...)
		if !line.received.streams || line.kept.pinged || line.kept.window.First() != 1 {
			t.Errorf("streams: %t; a pong is awaited: %t; the first message kept is %d", line.received.streams, line.kept.pinged, line.kept.window.First())
		}
		if !bytes.Equal(s.got, stream) {
			t.Errorf("the session got %d bytes; want %d", len(s.got), len(stream))
		}
		line.carrier = nil
		line.conn.Close()
	})
}

// The session's end waits for what the client has missed. When that is no longer kept, the client's connection ends.
func TestEndsWhileCatchingUp(t *testing.T) {
	lines, on := newLines(t, 8<<20)
	message := wstest.ServerFrame(true, frame.Binary, string(make([]byte, 100<<10)))
	end := frame.AppendControl(nil, frame.Close, frame.ClosePayload(frame.NormalClosure, ""), false)
	for name, c := range map[string]struct {
		then func(*Line)
		want []byte // nil for a part of the message
	}{
		"orderly":     {func(l *Line) { l.Write(end); l.CloseWrite() }, append(bytes.Clone(message), end...)},
		"memory goes": {(*Line).giveBack, nil},
	} {
		on(func(l *loop.Loop) {
			line, taker := lines.begin(l, new(session)), new(slow)
			line.Write(message)
			line.carrier = l.Link(taker, line)
			line.resend(0, false)
			c.then(line)
			for line.carrier != nil && line.kept.behind {
				if taker.ended {
					t.Errorf("%s: the stream ends before the client has got everything", name)
				}
				taker.pending = 0
				line.Flushed(nil)
			}
			if !taker.ended || c.want != nil && !bytes.Equal(taker.got, c.want) || c.want == nil && (len(taker.got) >= len(message) || line.carrier != nil) {
				t.Errorf("%s: the client got %d bytes; ended: %t", name, len(taker.got), taker.ended)
			}
			line.carrier = nil
			line.conn.Close()
		})
	}
}

// A client that comes back to an ended session has time for all that it has missed, for as long as it takes something.
func TestCatchesUpSlowlyAtTheEnd(t *testing.T) {
	lines, on := newLines(t, 8<<20)
	on(func(l *loop.Loop) {
		line, taker := lines.begin(l, new(session)), new(slow)
		line.Write(wstest.ServerFrame(true, frame.Binary, make([]byte, 10*maxResent)))
		line.carrier, line.over = l.Link(taker, line), true
		line.resend(0, true)
		for !taker.ended {
			if !line.timer.Active() {
				t.Error("the client that takes something is not given more time")
			}
			line.timer.Stop()
			taker.pending = 0
			line.Flushed(nil)
		}
		line.finish()
	})
}

// movable is a session that notes where its loop's group wants it.
type movable struct {
	session
	to chan *loop.Loop
}

func (m *movable) MoveTo(to *loop.Loop) { m.to <- to }

// A session whose client was away when its loop was emptied leaves that loop when the client is back.
func TestLeavesEmptiedLoop(t *testing.T) {
	lines, _ := newLines(t, 1<<20)
	all := loops(t)
	awake, emptied := all[0], all[1]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for on, want := range map[*loop.Loop]*loop.Loop{awake: nil, emptied: awake} {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		nc, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		m := &movable{to: make(chan *loop.Loop, 1)}
		var line *Line
		on.Call(func() {
			line = lines.begin(on, m)
			err = line.Resume(Asked{Token: line.token}, func() (loop.Socket, error) { return loop.Detach(nc) }, &handshake.Request{Request: new(http.Request)})
		})
		if err != nil {
			t.Fatal(err)
		}
		if want != nil {
			if to := <-m.to; to != want {
				t.Errorf("it goes to loop %d", to.ID())
			}
		}
		on.Call(func() { line.conn.Close() })
		if len(m.to) > 0 {
			t.Error("it leaves a loop that is awake")
		}
	}
}

// beginFrom returns the line of a client of a crowd.
func (s *Lines) beginFrom(l *loop.Loop, c crowd) *Line {
	client := &record.Client{Resume: NewToken(s.process), Identity: &identity.Identity{Tenant: c.tenant}}
	client.Address = origin.Address{AddrPort: netip.AddrPortFrom(netip.MustParseAddr(c.network), 1)}
	return s.Begin(l, new(session), Begin{Client: client, Service: "test", Wait: time.Hour})
}

// lost returns the line of a client that is away, for which some bytes are kept.
func (s *Lines) lost(l *loop.Loop, c crowd, kept int) *Line {
	line := s.beginFrom(l, c)
	s.park(line, true)
	for ; kept > 0; kept -= 1000 {
		line.more()
	}
	return line
}

// more is a message that is kept for a lost client.
func (l *Line) more() {
	l.keep(wstest.ServerFrame(true, frame.Binary, string(make([]byte, 1000))))
	l.kept.end()
}

// When memory is scarce, the sessions of those go that have most of it, the one that has waited longest first, whoever needs some.
func TestGreedyMakeRoom(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	const own, other = "192.0.2.1", "192.0.2.2"
	var modest, greedy []*Line
	on(func(l *loop.Loop) {
		modest = append(modest, lines.lost(l, crowd{"modest", own}, 10_000), lines.lost(l, crowd{"greedy", other}, 10_000))
	})
	for range 30 {
		on(func(l *loop.Loop) { greedy = append(greedy, lines.lost(l, crowd{"greedy", own}, 100_000)) })
		on(func(*loop.Loop) { // what was posted has been done
			for range 3 {
				modest[0].more()
			}
		})
	}
	on(func(*loop.Loop) {
		if modest[0].expired || modest[1].expired {
			t.Error("the sessions of those who have little made room")
		}
		left := 0
		for i, line := range greedy {
			if !line.expired {
				left++
			} else if i > 0 && !greedy[i-1].expired {
				t.Errorf("session %d made room before the one that has waited longer", i)
			}
		}
		if used := lines.arena.Used(); left < 5 || left > 10 || used > 1<<20 {
			t.Errorf("%d are left, and %d bytes", left, used)
		}
		for _, line := range append(modest, greedy...) {
			line.conn.Close()
		}
		if n := lines.arena.Used(); n != 0 || len(lines.crowds) != 0 || lines.Stats() != (Stats{Lost: 32, Expired: lines.Stats().Expired}) {
			t.Errorf("%d bytes, %d crowds and %+v are left", n, len(lines.crowds), lines.Stats())
		}
	})
}

// A place in the queue is made by the tenant that has most lost clients, not by whoever lost one first.
func TestEvictsFromThoseWhoHaveMost(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		modest := lines.lost(l, crowd{"modest", "192.0.2.1"}, 0)
		first, second := lines.lost(l, crowd{"greedy", "192.0.2.1"}, 0), lines.lost(l, crowd{"greedy", "192.0.2.2"}, 0)
		if lines.EndOldest("other") || !lines.EndOldest("test") {
			t.Error("it ends sessions of another service, or none")
		}
		l.Post(func() {
			if modest.expired || !first.expired || second.expired {
				t.Errorf("expired: modest %v, greedy %v, %v", modest.expired, first.expired, second.expired)
			}
			for _, line := range []*Line{modest, second} {
				line.conn.Close()
			}
		})
	})
	on(func(*loop.Loop) {})
}

// No crowd takes all the places of sessions that have ended while their client was away.
func TestEndedOfManyCrowds(t *testing.T) {
	lines, on := newLines(t, 1<<20)
	on(func(l *loop.Loop) {
		var all []*Line
		fill := func(c crowd) (n int) {
			for {
				line := lines.Begin(l, new(session), Begin{Client: &record.Client{Resume: NewToken(lines.process)}})
				line.crowd = c
				all = append(all, line)
				if !lines.park(line, false) {
					return n
				}
				n++
			}
		}
		first, second, third := fill(crowd{"a", "1"}), fill(crowd{"a", "2"}), fill(crowd{"b", "1"})
		if first != (maxOver+2)/3 || second < maxOver/9 || third < maxOver/9 {
			t.Errorf("%d, %d and %d wait", first, second, third)
		}
		for i := range 100 { // as many networks as one likes
			fill(crowd{"a", string(rune('A' + i))})
		}
		if n := lines.overOf[crowd{"a", ""}.whole()]; n > maxOver/2 {
			t.Errorf("one tenant has %d", n)
		}
		if fill(crowd{"c", "1"}) == 0 {
			t.Error("nothing is left for another tenant")
		}
		for _, line := range all {
			lines.remove(line)
		}
		if lines.over != 0 || len(lines.overOf) != 0 || len(lines.crowds) != 0 || len(lines.byToken) != 0 {
			t.Errorf("%d, %v, %d and %d are left", lines.over, lines.overOf, len(lines.crowds), len(lines.byToken))
		}
	})
}

// Control frames within a message, of which one read has thousands, are handed on in their order, and a session that is not read looks at them once.
func TestControlFloodWithinMessage(t *testing.T) {
	begin, middle := wstest.ClientFrame(false, frame.Text, "be"), wstest.ClientFrame(false, frame.Continuation, "gin")
	end, next := wstest.ClientFrame(true, frame.Continuation, "end"), wstest.ClientFrame(true, frame.Text, "next")
	pong := wstest.ClientFrame(true, frame.Pong, "")
	many := bytes.Repeat(pong, 4000)
	all := slices.Concat(begin, many, middle, pong, end, many, next, begin, pong)
	want := slices.Concat(many, pong, begin, middle, end, many, next, pong)
	for _, paused := range []bool{false, true} {
		for _, size := range []int{len(all), 1000, 7} {
			lines, on := newLines(t, 1<<20)
			s := new(session)
			var line *Line
			reads := 0
			on(func(l *loop.Loop) {
				line = lines.begin(l, s)
				if paused {
					line.conn.Pause()
				}
			})
			for b := range slices.Chunk(all, size) {
				on(func(*loop.Loop) { line.Received(nil, bytes.Clone(b)) })
				reads++
			}
			on(func(*loop.Loop) { line.conn.Resume() })
			on(func(*loop.Loop) {
				if !bytes.Equal(s.got, want) {
					t.Errorf("paused %v, %d bytes at a time: the session got %d bytes, want %d", paused, size, len(s.got), len(want))
				}
				if s.gathered > reads {
					t.Errorf("it looked %d times at what came in %d reads", s.gathered, reads)
				}
				line.conn.Close()
			})
		}
	}
}
