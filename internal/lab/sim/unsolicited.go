package sim

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// unsolicited sends messages that answer nothing: texts in JSON that say what they are. All messages to the client are whole frames,
// so these fit in between at any time.
type unsolicited struct {
	conn         *conn
	late         loop.Timer
	chatter      loop.Timer
	lateCount    int // late messages sent
	chatterCount int // chatter sent
}

// start sends the greeting and starts the chatter, if the options say so.
func (p *unsolicited) start() {
	if p.conn.server.options.Fail.Greeting {
		p.say(`{"greeting" : "hello"}`)
	}
	p.scheduleChatter()
}

func (p *unsolicited) stop() {
	p.late.Stop()
	p.chatter.Stop()
}

// sendLate schedules a late message, unless one is scheduled.
func (p *unsolicited) sendLate() {
	if p.late.Active() {
		return
	}
	after := p.conn.server.options.Fail.LateAfter
	if after == 0 {
		after = defaultLateAfter
	}
	p.late.Set(p.conn.socket, after, timerUnasked)
}

// sendDueLate sends the scheduled late message.
func (p *unsolicited) sendDueLate() {
	p.lateCount++
	p.say(fmt.Sprintf(`{"late" : %d}`, p.lateCount))
	p.conn.flush()
}

// scheduleChatter schedules the next chatter, if the options say so.
func (p *unsolicited) scheduleChatter() {
	if every := p.conn.server.options.Fail.Chatter; every > 0 {
		p.chatter.Set(p.conn.socket, every, timerChatter)
	}
}

// chat sends the scheduled chatter.
func (p *unsolicited) chat() {
	p.scheduleChatter()
	if p.conn.socket.Pending() > 0 {
		return // nothing accumulates for a client that does not read
	}
	p.chatterCount++
	p.say(fmt.Sprintf(`{"chatter" : %d}`, p.chatterCount))
	p.conn.flush()
}

func (p *unsolicited) say(text string) {
	p.conn.lane.out = frame.Append(p.conn.lane.out, frame.Header{Fin: true, Opcode: frame.Text}, []byte(text))
}
