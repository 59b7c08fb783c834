package profile

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// world is a proxy with a few connections to simulated servers, and clients that come and go. It does with a [Boundary] what
// the real proxy does, but nothing happens by itself: every step of every party is an action that the test chooses, so that
// any order of events can be tried.
type world struct {
	profile *Profile
	serve   func() server // a new connection's part of the server
	talk    func(c chooser, s *visit) []said
	chooser chooser

	conns  []*conn
	visits int
	dials  int
	trace  []string
	honest bool   // the servers keep to the protocol, so that every reset succeeds in the end
	wrong  string // what must not happen and did

	served, reused, answers, resets, keptAlive int // so that a test can tell that it has tested something
	broken                                     map[Reason]int
}

// chooser chooses a number below n: rapid's, or a random number generator.
type chooser func(n int) int

func (c chooser) chance(percent int) bool { return c(100) < percent }

// said is a whole message from the server, or its close.
type said struct {
	op      frame.Opcode
	payload string
	close   frame.CloseCode // if not 0, the server closes with this code instead
	late    bool            // later messages may overtake it
}

// server is the server's part of one connection.
type server interface {
	// hear receives a message and returns the server's answers.
	hear(op frame.Opcode, payload string) []said
}

// piece is part of a frame, as the network delivers it.
type piece struct {
	op          frame.Opcode
	length      int64
	fin         bool
	first, last bool // of its frame
	key         uint32
	data        []byte
}

// cut cuts a message into frames and those into pieces.
func cut(c chooser, m said, masked bool) (pieces []piece) {
	rest := m.payload
	op := m.op
	for {
		n := len(rest)
		fin := true
		if c.chance(10) && n > 0 {
			n, fin = c(n), false
		}
		body := []byte(rest[:n])
		rest = rest[n:]
		var key uint32
		if masked {
			key = uint32(c(1<<16))<<16 | uint32(c(1<<16))
			frame.ApplyMask(body, key)
		}
		for at := 0; ; {
			k := len(body) - at
			if c.chance(20) {
				k = c(k + 1)
			}
			pieces = append(pieces, piece{op: op, length: int64(len(body)), fin: fin, first: at == 0 && (len(pieces) == 0 || pieces[len(pieces)-1].last), last: at+k == len(body), key: turned(key, at), data: body[at : at+k]})
			at += k
			if at == len(body) {
				break
			}
		}
		if fin {
			return pieces
		}
		op = frame.Continuation
	}
}

// lane is one direction of a connection: what is under way in it, and what has come out of it.
type lane struct {
	shown    bool // the message under way is presented to the Boundary
	feed     bool
	pass     Pass
	whole    uint64
	mid      bool // a message is under way
	midFrame bool
}

// joiner puts messages together from what passes.
type joiner struct {
	op      frame.Opcode
	payload []byte
	within  bool // a message
	inFrame bool
	wrong   bool // frames or messages overlap
}

func (j *joiner) add(p piece) (m said, whole bool) {
	j.wrong = j.wrong || p.first == j.inFrame || p.first && (p.op == frame.Continuation) != j.within
	if p.first && p.op != frame.Continuation {
		*j = joiner{op: p.op, wrong: j.wrong}
	}
	j.within, j.inFrame = !p.last || !p.fin, !p.last
	data := append([]byte(nil), p.data...)
	frame.ApplyMask(data, p.key)
	j.payload = append(j.payload, data...)
	if p.last && p.fin {
		return said{op: j.op, payload: string(j.payload)}, true
	}
	return said{}, false
}

// visit is one client's session.
type visit struct {
	id      int
	conn    *conn
	sending []piece // on its way to the proxy
	paused  bool
	left    bool
	ending  frame.CloseCode // the proxy's close code
	got     joiner
	answers int
	first   string   // its first text message, which sets what sticks
	later   []string // settings that it sends later on
	spoken  int      // pieces of audio made up
}

// conn is one connection.
type conn struct {
	w        *world
	id       int
	b        Boundary
	server   server
	up, down lane
	toServer []piece
	heard    joiner
	audio    map[int]int // by session, how much of its audio the server has heard
	saying   []said      // by the server, not yet sent
	toProxy  []piece     // sent
	timer    bool
	ready    bool
	gone     bool
	closed   frame.CloseCode // the server has closed, behind toProxy
	visit    *visit
	sessions int
}

func (w *world) log(format string, args ...any) {
	if len(w.trace) > 400 {
		w.trace = w.trace[200:]
	}
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...) + "\n" + strings.Join(w.trace, "\n")
	}
}

// dial makes a new connection.
func (w *world) dial() *conn {
	w.dials++
	c := &conn{w: w, id: w.dials, b: New(w.profile), server: w.serve(), audio: make(map[int]int)}
	w.conns = append(w.conns, c)
	w.log("conn %d dialed", c.id)
	if g, ok := c.server.(interface{ greet() []said }); ok {
		c.saying = g.greet()
	}
	c.do(c.b.Dialed())
	return c
}

// traffic is what the connection's present session has seen.
func (c *conn) traffic() Traffic {
	return Traffic{Sent: c.up.whole, Received: c.down.whole, SendingMessage: c.up.mid, ReceivingMessage: c.down.mid}
}

// do does what a Step says, except for passing on.
func (c *conn) do(s Step) {
	if s.Answered.Frames > 0 {
		c.down.whole--
		c.w.keptAlive++
	}
	for i := range s.Send {
		payload := string(s.Send[i].Append(nil, c.b.Token()))
		op := frame.Text
		if s.Send[i].Binary {
			op = frame.Binary
		}
		c.w.log("conn %d: proxy says %.60q", c.id, payload)
		if c.up.midFrame {
			c.w.fail("a message of the proxy's in the middle of a frame")
		}
		c.toServer = append(c.toServer, cut(c.w.chooser, said{op: op, payload: payload}, true)...)
	}
	switch {
	case s.Timer > 0:
		c.timer = true
	case s.Timer < 0:
		c.timer = false
	}
	v := c.visit
	if v != nil {
		switch s.Client {
		case Pause:
			v.paused = true
		case Resume:
			v.paused = false
		}
	}
	if s.Then != Continue {
		c.w.log("conn %d: %v %v", c.id, s.Then, s.Reason)
	}
	switch s.Then {
	case Ready:
		c.ready = true
		if v != nil {
			c.w.fail("ready with a session")
		}
	case Broken:
		c.w.broken[s.Reason]++
		if v != nil {
			c.leave(s.Close)
		}
		c.drop()
	case Foreign:
		c.leave(frame.InternalError)
	case Finished:
		c.leave(s.Close)
	case Replaced:
		c.do(c.b.ReplaceEnd(c.traffic()))
	case Elsewhere:
		opening := c.b.Opening()
		c.visit = nil
		c.do(c.b.End(c.traffic()))
		next := c.w.fresh()
		next.begin(v)
		if opening.Opcode != 0 {
			v.sending = append(cut(c.w.chooser, said{op: opening.Opcode, payload: string(opening.Payload)}, true), v.sending...)
		}
		v.paused = false
	}
}

// fresh returns a connection that has served no session.
func (w *world) fresh() *conn {
	c := w.dial()
	for range 1000 {
		if c.ready {
			return c
		}
		if c.gone {
			c = w.dial()
		}
		c.serverHears()
		c.serverSends()
		c.arrives()
	}
	w.fail("a new connection is not ready")
	return c
}

// keepAlive has the proxy send a keepalive, if the session's server may get one.
func (c *conn) keepAlive() {
	if every, _ := c.w.profile.SessionKeepalive(); every > 0 && c.visit != nil && !c.up.midFrame && !c.gone {
		c.do(c.b.KeepAlive(c.traffic()))
	}
}

// drop ends the connection.
func (c *conn) drop() {
	c.gone, c.ready = true, false
	c.visit = nil
}

// begin begins a session.
func (c *conn) begin(v *visit) {
	c.ready = false
	c.visit, v.conn = v, c
	if c.sessions++; c.sessions > 1 {
		c.w.reused++
	}
	c.up, c.down.whole = lane{}, 0
	c.w.log("conn %d: session %d begins", c.id, v.id)
	c.do(c.b.Begin(uint64(v.id) * 0x9e3779b97f4a7c15))
}

// leave ends the session, with the proxy's close code or 0 when the client has left.
func (c *conn) leave(code frame.CloseCode) {
	v := c.visit
	if v == nil {
		return
	}
	c.w.log("conn %d: session %d ends with %d", c.id, v.id, code)
	v.left, v.ending = true, code
	c.visit = nil
	if !c.gone {
		s := c.b.End(c.traffic())
		if s.Then == Resetting {
			c.w.resets++
		}
		if s.Then == Continue {
			c.w.fail("the end says nothing")
		}
		c.up = lane{}
		c.do(s)
	}
}

// present shows a piece to the Boundary and returns what passes on.
func (c *conn) present(d Direction, f *lane, p piece, all bool) (out []piece) {
	if p.first && p.op != frame.Continuation {
		f.shown = c.b.Inspect(d)&(1<<p.op) != 0
	}
	var s Step
	if p.first {
		f.pass, f.feed = Relay, all && !f.shown
		if f.shown {
			s = c.b.Frame(d, p.op, p.length, p.fin)
			f.pass, f.feed = s.Pass, s.Feed
			switch s.Pass {
			case Keep:
				c.visit.sending = append([]piece{p}, c.visit.sending...)
			case Release:
				out = append(out, c.held(d)...)
				f.pass = Relay
			}
			c.do(s)
			if s.Pass == Keep || c.gone {
				return nil
			}
		}
	}
	if !p.first && all && !f.shown { // the rest of a message that was not inspected when it began
		f.feed = true
	}
	f.midFrame = !p.last
	f.mid = !p.last || !p.fin
	if p.last && p.fin {
		f.whole++
	}
	if f.feed {
		before := string(p.data)
		step := c.b.Feed(d, p.data, p.key, p.last && p.fin)
		if string(p.data) != before {
			c.w.fail("Feed has changed the payload")
		}
		f.pass = step.Pass
		if step.Pass == Release {
			held := c.held(d)
			c.do(step)
			return append(out, held...)
		}
		if step.Pass == Relay {
			out = append(out, p)
		}
		if d == FromServer && c.visit != nil {
			c.toClient(out)
			out = nil
		}
		c.do(step)
		return out
	}
	if f.pass == Relay {
		out = append(out, p)
	}
	return out
}

// held returns the frame that the Boundary releases.
func (c *conn) held(d Direction) []piece {
	op, payload, fin := c.b.Held(d)
	return []piece{{op: op, length: int64(len(payload)), fin: fin, first: true, last: true, data: append([]byte(nil), payload...)}}
}

// toClient passes pieces on to the client, who looks at whole messages.
func (c *conn) toClient(pieces []piece) {
	v := c.visit
	for _, p := range pieces {
		m, whole := v.got.add(p)
		if v.got.wrong {
			c.w.fail("the framing towards session %d is broken", v.id)
		}
		if whole {
			v.answers++
			c.w.answers++
			c.w.log("session %d gets %.100q", v.id, m.payload)
			c.w.check(v, m)
		}
	}
}
