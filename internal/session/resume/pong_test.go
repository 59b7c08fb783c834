package resume

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A pong that comes in two reads, within a message that is too long to wait for its end, is not looked at: the client is asked again.
func TestAsksAgainAfterPongInPieces(t *testing.T) {
	lines, on := newLines(t, 8<<20)
	on(func(l *loop.Loop) {
		line := lines.begin(l, new(session))
		to := new(slow)
		line.carrier = l.Link(to, line)
		line.Write(wstest.ServerFrame(true, frame.Binary, "first"))
		line.Received(nil, wstest.ClientFrame(false, frame.Binary, make([]byte, maxWhole)))
		line.ping()
		pong := wstest.ClientFrame(true, frame.Pong, binary.BigEndian.AppendUint64([]byte{pingMark}, 1))
		line.Received(nil, bytes.Clone(pong[:7]))
		line.Received(nil, bytes.Clone(pong[7:]))
		line.Received(nil, wstest.ClientFrame(true, frame.Continuation, "end"))
		line.Write(wstest.ServerFrame(true, frame.Binary, make([]byte, pingAfter)))
		if pings := bytes.Count(to.got, []byte{0x89, 9, pingMark}); pings != 2 {
			t.Errorf("the client was asked %d times", pings)
		}
		line.Received(nil, wstest.ClientFrame(true, frame.Pong, binary.BigEndian.AppendUint64([]byte{pingMark}, 2)))
		if first := line.kept.window.First(); first != 2 || line.kept.lost {
			t.Errorf("the first message kept is %d, lost: %t", first, line.kept.lost)
		}
		line.carrier = nil
		line.conn.Close()
	})
}
