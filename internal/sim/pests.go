package sim

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// pests sends the messages that nobody asked for: texts in JSON that say what they are. Each is one whole frame, and what
// else is sent to the client is whole frames too, so they fit in at any time.
type pests struct {
	conn    *conn
	late    loop.Timer
	chatter loop.Timer
	lates   int // late messages sent
	chats   int // chatter sent
}

// start sends the greeting and begins the chatter, as far as they are asked for.
func (p *pests) start() {
	if p.conn.server.options.Fail.Greeting {
		p.say(`{"greeting" : "hello"}`)
	}
	p.chatLater()
}

func (p *pests) stop() {
	p.late.Stop()
	p.chatter.Stop()
}

// sendLate sets a late message on its way, unless there is one already.
func (p *pests) sendLate() {
	if p.late.Active() {
		return
	}
	after := p.conn.server.options.Fail.LateAfter
	if after == 0 {
		after = defaultLateAfter
	}
	p.late.Set(p.conn.socket, after, timerUnasked)
}

// sayLate sends the late message that is due.
func (p *pests) sayLate() {
	p.lates++
	p.say(fmt.Sprintf(`{"late" : %d}`, p.lates))
	p.conn.flush()
}

// chatLater sets the time of the next chatter, if any was asked for.
func (p *pests) chatLater() {
	if every := p.conn.server.options.Fail.Chatter; every > 0 {
		p.chatter.Set(p.conn.socket, every, timerChatter)
	}
}

// chat sends the chatter that is due.
func (p *pests) chat() {
	p.chatLater()
	if p.conn.socket.Pending() > 0 {
		return // to a client that does not read, nothing is piled up
	}
	p.chats++
	p.say(fmt.Sprintf(`{"chatter" : %d}`, p.chats))
	p.conn.flush()
}

func (p *pests) say(text string) {
	p.conn.lane.out = frame.Append(p.conn.lane.out, frame.Header{Fin: true, Opcode: frame.Text}, []byte(text))
}
