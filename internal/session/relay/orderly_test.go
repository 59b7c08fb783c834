package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// However a client leaves in the middle, its backend is told in the protocol's own words, and what it answers reaches no client.
func TestOrderlyEnd(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(client *wstest.Peer)
		fate  fate
		code  frame.CloseCode // that the backend gets in the end
		text  string
	}{
		"closes": {
			func(p *wstest.Peer) {
				p.SendClose(4000, "tab closed")
				p.ExpectClose(4000, "tab closed")
				p.ExpectEnd()
			},
			fate{"client", 4000, "tab closed", "ended"},
			4000, "tab closed",
		},
		"closes without a code": {
			func(p *wstest.Peer) {
				p.SendClose(frame.NoStatus, "")
				p.ExpectClose(frame.NoStatus, "")
				p.ExpectEnd()
			},
			fate{"client", frame.NoStatus, "", "ended"},
			frame.GoingAway, "session ended",
		},
		"ends the stream": {
			func(*wstest.Peer) {}, fate{"client", frame.AbnormalClosure, leftWithoutClose, "ended"}, frame.GoingAway, "session ended",
		},
		"resets": {
			(*wstest.Peer).Reset, fate{"client", frame.AbnormalClosure, leftWithoutClose, "ended"}, frame.GoingAway, "session ended",
		},
		"breaks the protocol": {
			func(p *wstest.Peer) {
				p.SendBytes([]byte{0x83, 0x80, 0, 0, 0, 0})
				p.ExpectClose(frame.ProtocolError, "reserved opcode")
			},
			fate{"client", frame.ProtocolError, "reserved opcode", "ended"},
			frame.GoingAway, "session ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "sherpa-onnx"})
			client, server := r.Session()
			client.Send(frame.Binary, "audio")
			server.Expect(frame.Binary, "audio")
			c.leave(client)
			_ = client.Close()
			server.ExpectOwn(frame.Text, "Done")
			r.expectRecord(c.fate) // the session does not wait for the backend
			if s := r.Backend.Stats(); s.Leased != 0 || s.Retiring != 1 {
				t.Errorf("stats: %+v", s)
			}
			server.Send(frame.Text, `{"text":"no client gets this"}`)
			server.Send(frame.Text, "Done!")
			server.ExpectClose(c.code, c.text)
			_ = server.Close()
			wstest.Eventually(t, "it is counted", func() bool { return r.stats().Meters.Total.Orderly[meter.EndCompleted] == 1 })
		})
	}
}

// A client that has said that it is done leaves as it would directly: its close is passed on, and what the backend still says is passed on
// to it.
func TestOrderlyClient(t *testing.T) {
	r := newRig(t, setup{Profile: "sherpa-onnx"})
	client, server := r.Session()
	client.Send(frame.Binary, "audio")
	client.Send(frame.Text, "Done")
	client.SendClose(1000, "bye")
	server.Expect(frame.Binary, "audio")
	server.Expect(frame.Text, "Done")
	server.ExpectClose(1000, "bye")
	server.Send(frame.Text, "the result")
	server.SendClose(1000, "")
	client.Expect(frame.Text, "the result")
	client.ExpectClose(1000, "bye")
	_ = client.Close()
	r.expectRecord(fate{"client", 1000, "bye", "discarded"})
}

// A client that vanishes behind its end message leaves the backend in peace until that has said its last word.
func TestVanishesBehindTheEnd(t *testing.T) {
	r := newRig(t, setup{Profile: "sherpa-onnx"})
	client, server := r.Session()
	client.Send(frame.Text, "Done")
	server.Expect(frame.Text, "Done")
	client.Reset()
	r.expectRecord(fate{"client", frame.AbnormalClosure, leftWithoutClose, "ended"})
	server.Send(frame.Text, "Done!")
	server.ExpectClose(frame.GoingAway, "session ended")
}

// Behind a message that was cut off nothing can be said, so the connection is closed as it is.
func TestCutOffInTheMiddle(t *testing.T) {
	r := newRig(t, setup{Profile: "sherpa-onnx"})
	client, server := r.Session()
	client.SendBytes(wstest.ClientFrame(false, frame.Text, "half"))
	h, _, err := server.Next()
	if err != nil || h.Fin {
		t.Fatalf("%+v, %v", h, err)
	}
	_ = client.Close()
	server.ExpectClose(frame.GoingAway, "session ended")
	r.expectRecord(fate{"client", frame.AbnormalClosure, leftWithoutClose, "discarded"})
}

// A session that the proxy ends is ended on the backend in order, too.
func TestOrderlyLimit(t *testing.T) {
	r := newRig(t, setup{Profile: "sherpa-onnx"})
	client, server := r.Session()
	client.Send(frame.Binary, "audio")
	server.Expect(frame.Binary, "audio")
	r.on(func(s *Session) { s.End(meter.Limit, frame.PolicyViolation, "session lasted too long") })
	client.ExpectClose(frame.PolicyViolation, "session lasted too long")
	server.ExpectOwn(frame.Text, "Done")
	server.Send(frame.Text, "Done!")
	server.ExpectClose(frame.GoingAway, "session ended")
	_ = client.Close()
	r.expectRecord(fate{"proxy", frame.PolicyViolation, "session lasted too long", "ended"})
}
