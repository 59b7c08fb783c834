package relay

import (
	"crypto/sha256"
	"hash"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// mover takes all sessions from one loop to the other and back without end, the way a group does, until stopped.
func (r *rig) mover() (moves *atomic.Int64, stop func()) {
	moves = new(atomic.Int64)
	quit := make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		loops := r.Loops.Loops()
		for {
			select {
			case <-quit:
				return
			default:
			}
			r.each(func(s *Session) {
				(*clientSide)(s).MoveTo(loops[(s.client.Loop().ID()+1)%len(loops)])
				moves.Add(1)
			})
		}
	})
	return moves, sync.OnceFunc(func() { close(quit); tasks.Wait() })
}

// Sessions that are moved between event loops all the time lose, double and mix up nothing, in frames of all sizes both
// ways, and pings are answered in between.
func TestMoveWhileStreaming(t *testing.T) {
	streamWhileMoving(t, func(*rig) (stop func()) { return func() {} })
}

// streamWhileMoving has clients stream while their sessions are moved between loops and something else happens, which begin starts.
func streamWhileMoving(t *testing.T, begin func(*rig) (stop func())) {
	const clients, total = 4, 4 << 20
	r := newRig(t, setup{Profile: "echo", Cap: clients, Loops: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(clients)
	moves, stop := r.mover()
	defer stop()
	defer begin(r)()
	type outcome struct {
		digest hash.Hash // of the frames that came back, as they were sent
		pongs  int
		err    error
	}
	var enough atomic.Bool // moves
	var peers []*wstest.Peer
	sums, sent := make([][sha256.Size]byte, clients), make([]uint64, clients)
	back := make([]outcome, clients)
	var senders, readers sync.WaitGroup
	for i := range clients {
		p := r.Join()
		peers = append(peers, p)
		senders.Go(func() {
			var err error
			if sums[i], sent[i], err = flow(p, uint64(i), total, &enough); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			_, _ = p.Conn.Write(p.Encode(true, frame.Ping, nil))
		})
		readers.Go(func() {
			o := &back[i]
			for o.digest = sha256.New(); ; {
				h, payload, err := p.Next()
				switch {
				case err != nil || h.Opcode == frame.Close:
					o.err = err
					return
				case h.Opcode == frame.Pong:
					o.pongs++
				case h.Opcode == frame.Ping: // see reconnectAll
				default:
					o.digest.Write(p.Encode(h.Fin, h.Opcode, payload))
				}
			}
		})
	}
	wstest.Eventually(t, "sessions are moved often", func() bool { return moves.Load() >= 20 })
	enough.Store(true)
	senders.Wait()
	stop() // the last answers arrive on loops that the sessions stay on
	messages := uint64(0)
	for _, n := range sent {
		messages += n
	}
	wstest.Eventually(t, "everything is answered", func() bool {
		asked, answered := uint64(0), uint64(0) // what has been written may still be in a socket
		r.each(func(s *Session) {
			asked += s.scanner.Messages
			if s.client.Pending() == 0 {
				answered += s.leg.conn.Scanner.Messages
			}
		})
		return asked == messages && answered == messages
	})
	for _, p := range peers {
		p.SendClose(frame.NormalClosure, "")
	}
	readers.Wait()
	for i, o := range back {
		if o.err != nil || o.pongs != 1 || [sha256.Size]byte(o.digest.Sum(nil)) != sums[i] {
			t.Errorf("client %d: not what it sent came back: %v, %d pongs", i, o.err, o.pongs)
		}
	}
	t.Logf("%d moves", moves.Load())
}

// A session's timers go with it.
func TestMoveTakesTimers(t *testing.T) {
	for name, limit := range map[string]func(*route.Service){
		"idle limit":    func(s *route.Service) { s.IdleTimeout = 500 * time.Millisecond },
		"session limit": func(s *route.Service) { s.MaxDuration = 500 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Loops: 2, Service: limit})
			client, _ := r.Session()
			moves, stop := r.mover()
			client.ExpectClose(frame.PolicyViolation, name+" reached")
			stop()
			if moves.Load() == 0 {
				t.Error("the session was not moved")
			}
			client.SendClose(frame.PolicyViolation, "")
			client.ExpectEnd()
		})
	}
}

// A client that lingers, and pings, has nothing to do with the session that its connection serves by then, perhaps on
// another loop. (It takes the race detector to see that.)
func TestLingeringClientTouchesNothing(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Loops: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	lingering := r.Join()
	r.sessions.EndAll(frame.GoingAway, "enough")
	lingering.ExpectClose(frame.GoingAway, "enough")
	client := r.Join()
	moved := false // once: going to and fro would put in order what the race detector is to find without
	loops := r.Loops.Loops()
	r.each(func(s *Session) {
		if s.life.state == relaying && !moved {
			moved = true
			(*clientSide)(s).MoveTo(loops[1-s.client.Loop().ID()])
		}
	})
	for range 200 {
		lingering.Send(frame.Ping, "still here")
		client.Send(frame.Text, "hello")
		client.Expect(frame.Text, "hello")
	}
	lingering.SendClose(frame.GoingAway, "")
	lingering.ExpectEnd()
}

// A server that is full is asked again, with pauses, until it has a place or the client has waited for as long as clients may. However often it
// refuses, the client does not notice.
func TestFullForLong(t *testing.T) {
	var refusals atomic.Int64
	full := func(p *wstest.Peer) {
		for {
			h, _, err := p.Next()
			if err != nil || h.Opcode == frame.Close {
				return
			}
			answer := `{"status": "WAIT"}`
			if refusals.Add(-1) < 0 {
				answer = `{"message": "SERVER_READY"}`
			}
			if _, err := p.Write(p.Encode(true, frame.Text, []byte(answer))); err != nil {
				return
			}
		}
	}
	refusals.Store(4)
	r := newRig(t, setup{Profile: "whisperlive", Queue: 1, Script: &wstest.Server{Serve: full}})
	began := time.Now()
	client := r.Join()
	client.Send(frame.Text, `{"uid": "a"}`)
	client.Expect(frame.Text, `{"message": "SERVER_READY"}`)
	if took := time.Since(began); took < 3*(100+200+400+800)*time.Millisecond/4 {
		t.Errorf("the fifth try came after %v", took)
	}
	_ = client.Close()
}

// One worker, whose server is full for a second after each session, serves several clients who wait at the same time, though each sends two
// messages before the server says that it is full.
func TestWorkersThatAreAway(t *testing.T) {
	server, err := sim.Start(sim.Options{Protocol: sim.KaldiGStreamer, Nasty: sim.NastyOptions{Full: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	patient := withYAML(t, `profiles: {patient: {from: kaldi-gstreamer, timeouts: {busy: 500ms}}}`) // on a busy machine, 100 ms are not enough
	r := newRig(t, setup{Cap: 4, Queue: 10, Backend: func(o *backend.Options) {
		patient(o)
		o.Target, o.Settings.Warm = targetOf(t, server.URL()), 0
	}})
	var clients []*wstest.Peer
	for range 3 {
		p := r.Connect(wstest.UpgradeRequest("/v1/test?content-type=x"))
		p.ExpectUpgrade()
		p.Send(frame.Binary, strings.Repeat("x", 320))
		p.Send(frame.Binary, strings.Repeat("x", 320))
		p.Send(frame.Text, "EOS")
		clients = append(clients, p)
	}
	for i, p := range clients {
		results := 0
		for {
			h, payload, err := p.Next()
			if err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
			if h.Opcode == frame.Close {
				if code, reason, _ := frame.ParseClose(payload); code != frame.NormalClosure || results == 0 {
					t.Errorf("client %d: %d results, then close %d %s", i, results, code, reason)
				}
				break
			}
			results++
		}
		_ = p.Close()
	}
}

// A client's first message reaches the third connection, too: the first one's server is full, and others have left settings on the second one.
func TestFirstMessageMovesTwice(t *testing.T) {
	var full atomic.Bool
	serve := func(p *wstest.Peer) {
		for {
			h, payload, err := p.Next()
			if err != nil || h.Opcode == frame.Close {
				return
			}
			answer := `{"partial" : "audio"}`
			switch text := string(payload); {
			case strings.Contains(text, "config"):
				continue
			case text == voskReset:
				answer = `{"text" : ""}`
			case text == "first" && !full.Swap(true):
				answer = `{"status" : "WAIT"}`
			case text == "first":
				answer = `{"partial" : "first"}`
			}
			if _, err := p.Write(p.Encode(true, frame.Text, []byte(answer))); err != nil {
				return
			}
		}
	}
	r := newRig(t, setup{
		Script: &wstest.Server{Serve: serve}, More: []*wstest.Server{{Serve: serve}}, Queue: 1, Balance: pool.RoundRobin,
		Backend: withYAML(t, "profiles: {x: {from: vosk, busy: {json: {status: WAIT}}}}"),
	})
	r.AllReady(1, r.Backends...)
	before := r.Join()
	before.Send(frame.Text, `{"config" : {"sample_rate" : 8000}}`)
	before.Send(frame.Binary, "audio")
	before.Expect(frame.Text, `{"partial" : "audio"}`)
	before.Send(frame.Text, voskEnd)
	before.Expect(frame.Text, `{"text" : ""}`)
	before.ExpectClose(frame.NormalClosure, "the session is over")
	_ = before.Close()
	r.AllReady(1, r.Backends...)
	client := r.Join()
	client.Send(frame.Binary, "first")
	client.Expect(frame.Text, `{"partial" : "first"}`)
	if !full.Load() {
		t.Error("no server was full")
	}
	_ = client.Close()
}
