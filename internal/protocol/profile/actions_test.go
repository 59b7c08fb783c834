package profile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The actions of a world. Each does nothing when there is nothing to do.

// arrive lets a client come.
func (w *world) arrive() {
	var idle []*conn
	busy := 0
	for _, c := range w.conns {
		if c.ready {
			idle = append(idle, c)
		}
		if c.visit != nil {
			busy++
		}
	}
	if busy >= 3 {
		return
	}
	w.visits++
	w.served++
	v := &visit{id: w.visits}
	for _, m := range w.talk(w.chooser, v) {
		v.sending = append(v.sending, cut(w.chooser, m, true)...)
	}
	if len(idle) > 0 && !w.chooser.chance(5) {
		idle[w.chooser(len(idle))].begin(v)
		return
	}
	w.fresh().begin(v)
}

// sweep forgets connections that are gone.
func (w *world) sweep() {
	idle := 0
	w.conns = slices.DeleteFunc(w.conns, func(c *conn) bool {
		if c.ready {
			idle++
		}
		return c.gone || idle > 3 && c.ready
	})
}

// clientSends lets a piece of what the client sends reach the proxy.
func (c *conn) clientSends() {
	v := c.visit
	if v == nil || len(v.sending) == 0 {
		return
	}
	p := v.sending[0]
	if v.paused && !(p.first && p.op != frame.Continuation && c.w.chooser.chance(2)) {
		return // the proxy does not read, or only what it had read before
	}
	v.sending = v.sending[1:]
	c.w.log("session %d sends %d bytes of %d", v.id, len(p.data), p.length)
	c.toServer = append(c.toServer, c.present(FromClient, &c.up, p, false)...)
}

// clientLeaves ends a session, whatever its state.
func (c *conn) clientLeaves() {
	if v := c.visit; v != nil && (len(v.sending) == 0 || c.w.chooser.chance(20)) {
		c.leave(0)
	}
}

// serverHears lets the server read a piece of what was sent to it.
func (c *conn) serverHears() {
	if c.gone || c.closed != 0 || len(c.toServer) == 0 {
		return
	}
	p := c.toServer[0]
	c.toServer = c.toServer[1:]
	m, whole := c.heard.add(p)
	if c.heard.wrong {
		c.w.fail("the framing towards the server of conn %d is broken", c.id)
	}
	if !whole {
		return
	}
	var id, n int
	if k, _ := fmt.Sscanf(m.payload, "audio of %d, %d.", &id, &n); k == 2 {
		if c.audio[id]++; c.audio[id] != n {
			c.w.fail("conn %d: the server hears audio %d of session %d as number %d", c.id, n, id, c.audio[id])
		}
	}
	answers := c.server.hear(m.op, m.payload)
	c.w.log("conn %d: server hears %.60q and says %d messages", c.id, m.payload, len(answers))
	for _, a := range answers {
		c.w.log("    %.100s %d", a.payload, a.close)
	}
	c.saying = append(c.saying, answers...)
}

// serverSends puts a message of the server's on its way.
func (c *conn) serverSends() {
	if c.gone || c.closed != 0 || len(c.saying) == 0 {
		return
	}
	i := 0
	for i < len(c.saying)-1 && c.saying[i].late && c.w.chooser.chance(60) {
		i++ // overtaken
	}
	m := c.saying[i]
	c.saying = slices.Delete(c.saying, i, i+1)
	pieces := cut(c.w.chooser, m, false)
	if m.close != 0 {
		c.closed = m.close
		if len(c.toProxy) > 0 && c.w.chooser.chance(30) {
			c.toProxy = c.toProxy[:c.w.chooser(len(c.toProxy))]
		}
		return
	}
	c.toProxy = append(c.toProxy, pieces...)
}

// arrives lets a piece of what the server sent reach the proxy.
func (c *conn) arrives() {
	if c.gone {
		return
	}
	if len(c.toProxy) == 0 {
		if c.closed != 0 {
			code := c.closed
			c.closed = 0
			s := c.b.Closed(code)
			if s.Then == Broken && c.visit != nil {
				c.leave(code)
			}
			c.do(s)
			if s.Then != Elsewhere {
				c.drop()
			} else {
				c.gone = true
			}
		}
		return
	}
	p := c.toProxy[0]
	c.toProxy = c.toProxy[1:]
	if c.visit != nil {
		t := c.traffic()
		t.ReceivingMessage = true
		if !c.b.Plausible(t) {
			c.w.log("conn %d: implausible", c.id)
			c.leave(frame.InternalError)
			return
		}
	}
	out := c.present(FromServer, &c.down, p, c.b.state >= finishing)
	if c.visit == nil || c.gone {
		return
	}
	c.toClient(out)
}

// tick fires the timer.
func (c *conn) tick() {
	if c.gone || !c.timer {
		return
	}
	if c.b.state == settling && (len(c.saying) > 0 || len(c.toProxy) > 0) {
		return // nothing is under way for longer than the settle window
	}
	if pending := len(c.toServer)+len(c.saying)+len(c.toProxy) > 0 || c.closed != 0; c.b.state == resetting || c.b.state == finishing {
		if pending && !c.w.chooser.chance(2) {
			return // or else hardly any reset would succeed
		}
		if !pending && c.w.honest {
			c.w.fail("conn %d: the server has answered all, and the reset has not succeeded: %+v", c.id, c.b.session)
		}
	}
	c.timer = false
	c.w.log("conn %d: timer", c.id)
	c.do(c.b.Timer(len(c.toProxy) == 0 || c.toProxy[0].first && c.toProxy[0].op != frame.Continuation))
}

// dies makes the server close, at any point.
func (c *conn) dies() {
	if c.gone || c.closed != 0 {
		return
	}
	c.saying = nil
	c.toProxy = c.toProxy[:c.w.chooser(len(c.toProxy)+1)]
	c.closed = 1011
}

// answer is what the simulated servers say, as far as clients look at it.
type answer struct {
	From   []int   // the sessions whose audio went into it
	Params *string // the settings in force
}

// check looks for anything of another session in a message that a client gets.
func (w *world) check(v *visit, m said) {
	if strings.Contains(m.payload, "WAIT") || m.payload == "alive!" {
		w.fail("session %d gets %q", v.id, m.payload)
	}
	var a answer
	if m.op == frame.Text && m.payload[0] == '{' {
		if err := json.Unmarshal([]byte(m.payload), &a); err != nil {
			w.fail("session %d gets %q: %v", v.id, m.payload, err)
		}
	}
	for _, id := range a.From {
		if id != v.id {
			w.fail("session %d gets what session %d has caused: %s", v.id, id, m.payload)
		}
	}
	if a.Params != nil && *a.Params != v.first && !slices.Contains(v.later, *a.Params) {
		w.fail("session %d, which has set %q, is served with %q", v.id, v.first, *a.Params)
	}
}

// step does one of the actions, chosen by number.
func (w *world) step() {
	if len(w.conns) == 0 || w.chooser.chance(8) {
		w.arrive()
		w.sweep()
		return
	}
	c := w.conns[w.chooser(len(w.conns))]
	switch n := w.chooser(100); {
	case n < 35:
		c.clientSends()
	case n < 38:
		c.clientLeaves()
	case n < 42:
		c.keepAlive()
	case n < 60:
		c.serverHears()
	case n < 75:
		c.serverSends()
	case n < 97:
		c.arrives()
	case n < 99:
		c.tick()
	default:
		if w.chooser.chance(5) {
			c.dies()
		}
	}
}
