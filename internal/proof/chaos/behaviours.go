package chaos

import (
	"bytes"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// reason is the reason in the close frames of hostile servers, so that readers of a report know who sent them.
const reason = "a hostile server"

// sayAndClose sends a message and a close frame in the TCP segment of the 101.
func sayAndClose(v *visit) {
	v.closeBehind101(plain(frame.Text, []byte(`{"error": "go away"}`)))
}

// closeBehind101 sends a close frame in the TCP segment of the 101.
func closeBehind101(v *visit) { v.closeBehind101(nil) }

func (v *visit) closeBehind101(message []byte) {
	if v.upgrade(message, closing(frame.PolicyViolation, reason)) {
		v.last(nil)
	}
}

// tooMuchAtOnce begins with a message that is larger than what the proxy keeps for a client.
func tooMuchAtOnce(v *visit) {
	if v.upgrade(plain(frame.Text, bytes.Repeat([]byte("x"), 100<<10))) {
		v.drain()
	}
}

// ends returns a behaviour that answers the first message with these bytes, and ends the connection.
func ends(last []byte) func(v *visit) {
	return func(v *visit) {
		if !v.upgrade() {
			return
		}
		if _, _, ok := v.next(); ok {
			v.last(last)
		}
	}
}

// masked answers with masked frames, which servers must not send.
func masked(v *visit) {
	if !v.upgrade() {
		return
	}
	for {
		op, payload, ok := v.next()
		if !ok || !v.write(frame.Append(nil, frame.Header{Fin: true, Opcode: op, Masked: true, Mask: 0x01020304}, payload)) {
			return
		}
	}
}

// silent accepts the connection and says nothing.
func silent(v *visit) { v.drain() }

// resets accepts the connection and resets it.
func resets(v *visit) { _ = v.conn.SetLinger(0) }

// stallsInFrame stops in the middle of the first answer.
func stallsInFrame(v *visit) {
	if !v.upgrade() {
		return
	}
	if _, _, ok := v.next(); ok {
		answer := plain(frame.Text, bytes.Repeat([]byte("x"), 1000))
		v.write(answer[:len(answer)/2])
		v.drain()
	}
}

// echoes returns a behaviour that answers each message with what answer makes of it.
func echoes(answer func(v *visit, whole []byte) []byte) func(v *visit) {
	return func(v *visit) {
		if v.upgrade() {
			v.echo(answer)
		}
	}
}

func (v *visit) echo(answer func(v *visit, whole []byte) []byte) {
	for {
		op, payload, ok := v.next()
		if !ok || !v.write(answer(v, plain(op, payload))) {
			return
		}
	}
}

// twice answers each message twice.
func twice(_ *visit, whole []byte) []byte { return append(whole, whole...) }

// late answers after some time, often after the client has left.
func late(v *visit, whole []byte) []byte {
	v.pause(100*time.Millisecond, time.Second)
	return whole
}

// foreign answers with the audio of another session.
func foreign(*visit, []byte) []byte {
	return plain(frame.Binary, sim.AppendMark(nil, sim.Mark{Session: foreignSession, Seq: 1}, 1))
}

// foreignSession is the identity of no session.
const foreignSession = 999_999_999_999

// greetsLate echoes, and sends a greeting long after the upgrade.
func greetsLate(v *visit) {
	if !v.upgrade() {
		return
	}
	due := time.AfterFunc(200*time.Millisecond+time.Duration(v.dice.Int64N(int64(2*time.Second))), func() {
		_, _ = v.conn.Write(plain(frame.Text, []byte(`{"message": "hello"}`)))
	})
	defer due.Stop()
	v.echo(func(_ *visit, whole []byte) []byte { return whole })
}

// neverPongs echoes, and answers no ping.
func neverPongs(v *visit) {
	if v.noPongs = true; v.upgrade() {
		v.echo(func(_ *visit, whole []byte) []byte { return whole })
	}
}

// alwaysBusy reports a moment after the first message that it is full, as WhisperLive does.
func alwaysBusy(v *visit) {
	if !v.upgrade() {
		return
	}
	if _, _, ok := v.next(); ok {
		v.pause(time.Millisecond, 100*time.Millisecond)
		v.last(append(plain(frame.Text, []byte(`{"uid": "x", "status": "WAIT", "message": 9.5}`)), closing(frame.NormalClosure, "")...))
	}
}

// refuses returns a behaviour that answers upgrade requests with one of the statuses.
func refuses(statuses ...int) func(v *visit) {
	return func(v *visit) {
		if _, err := handshake.ReadRequest(v.conn, handshake.DefaultMaxHead); err == nil {
			v.leave()
			handshake.Refuse(v.conn, &handshake.Refusal{Status: statuses[v.dice.IntN(len(statuses))], Reason: reason})
		}
	}
}
