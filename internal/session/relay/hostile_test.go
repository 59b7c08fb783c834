package relay

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A server that breaks RFC 6455 is told what it did, with 1002 or 1007; its client, who did nothing wrong, gets 1011.

// breach is a frame that no server may send, or the beginning of one.
type breach struct {
	name   string
	wire   string
	err    *frame.Error // what the server is told
	reason string       // what the client is told
	within bool         // it is a breach within a message only
	first  bool         // it is a breach outside of messages only
}

// breaches are one frame for each rule that a server can break.
func breaches() []breach {
	plain := func(fin bool, op frame.Opcode, payload string) string {
		return string(wstest.ServerFrame(fin, op, payload))
	}
	masked := func(op frame.Opcode, payload string) string {
		return string(wstest.ClientFrame(true, op, payload))
	}
	list := []breach{
		{name: "masked text", wire: masked(frame.Text, "masked"), err: frame.ErrMasked},
		{name: "masked ping", wire: masked(frame.Ping, "masked"), err: frame.ErrMasked},
		{name: "masked close", wire: masked(frame.Close, "\x03\xe8"), err: frame.ErrMasked},
		{name: "first reserved bit", wire: "\xc1\x01x", err: frame.ErrReservedBits},
		{name: "second reserved bit", wire: "\xa2\x01x", err: frame.ErrReservedBits},
		{name: "third reserved bit of a ping", wire: "\x99\x00", err: frame.ErrReservedBits},
		{name: "opcode 3", wire: "\x83\x01x", err: frame.ErrReservedOpcode},
		{name: "opcode 7, to be continued", wire: "\x07\x00", err: frame.ErrReservedOpcode},
		{name: "opcode 11", wire: "\x8b\x00", err: frame.ErrReservedOpcode},
		{name: "opcode 15", wire: "\x8f\x02xy", err: frame.ErrReservedOpcode},
		{name: "fragmented ping", wire: "\x09\x01x", err: frame.ErrFragmentedControl},
		{name: "fragmented pong", wire: "\x0a\x00", err: frame.ErrFragmentedControl},
		{name: "fragmented close", wire: "\x08\x02\x03\xe8", err: frame.ErrFragmentedControl},
		{name: "ping of 126 bytes", wire: plain(true, frame.Ping, strings.Repeat("x", 126)), err: frame.ErrLongControl},
		{name: "close of 126 bytes", wire: plain(true, frame.Close, "\x03\xe8"+strings.Repeat("x", 124)), err: frame.ErrLongControl},
		{name: "pong of 64 KiB", wire: plain(true, frame.Pong, strings.Repeat("x", 64<<10)), err: frame.ErrLongControl},
		{name: "length over 63 bits", wire: "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x01x", err: frame.ErrLengthEncoding, first: true},
		{name: "all bits of the length", wire: "\x02\x7f" + strings.Repeat("\xff", 8), err: frame.ErrLengthEncoding, first: true},
		{name: "5 bytes in a length of 16 bits", wire: "\x81\x7e\x00\x05hello", err: frame.ErrLengthEncoding, first: true},
		{name: "65535 bytes in a length of 64 bits", wire: "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", err: frame.ErrLengthEncoding, first: true},
		{name: "continuation over 63 bits", wire: "\x80\x7f\x80" + strings.Repeat("\x00", 7), err: frame.ErrLengthEncoding, within: true},
		{name: "continuation of nothing", wire: plain(true, frame.Continuation, "x"), err: frame.ErrNoMessage, first: true},
		{name: "continuation of nothing, to be continued", wire: plain(false, frame.Continuation, ""), err: frame.ErrNoMessage, first: true},
		{name: "text in a message", wire: plain(true, frame.Text, "x"), err: frame.ErrInMessage, within: true},
		{name: "binary in a message", wire: plain(false, frame.Binary, ""), err: frame.ErrInMessage, within: true},
		{name: "close with half a code", wire: plain(true, frame.Close, "\x03"), err: frame.ErrClosePayload},
		{name: "close reason not UTF-8", wire: plain(true, frame.Close, "\x03\xe8\xff"), err: frame.ErrCloseReason},
		{name: "close reason ends within a character", wire: plain(true, frame.Close, "\x03\xf3busy \xc3"), err: frame.ErrCloseReason},
	}
	for _, code := range []frame.CloseCode{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		list = append(list, breach{
			name: "close with " + code.String(), wire: plain(true, frame.Close, string([]byte{byte(code >> 8), byte(code)})+"gone"),
			err: frame.ErrCloseCode, reason: brokeProtocol + frame.ErrCloseCode.Reason + ": " + code.String(),
		})
	}
	for i := range list {
		if list[i].reason == "" {
			list[i].reason = brokeProtocol + list[i].err.Reason
		}
	}
	return list
}

// expectBreach plays the end of a session that the server has broken, and the beginning of the next one.
func (r *rig) expectBreach(client, server *wstest.Peer, b breach) {
	r.T.Helper()
	client.ExpectClose(frame.InternalError, b.reason)
	server.ExpectOwn(frame.Close, string(frame.AppendClosePayload(nil, b.err.Code, b.err.Reason)))
	server.ExpectEnd() // nothing that it says now would be understood
	_ = server.Close()
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
	r.expectRecord(fate{"backend", frame.InternalError, b.reason, "discarded"})
	r.expectFault(1, "broken")
	client, server = r.Session()
	client.Send(frame.Text, "next")
	server.Expect(frame.Text, "next")
	server.Send(frame.Text, "answer")
	client.Expect(frame.Text, "answer")
	_ = client.Close()
}

func TestServerBreaksProtocol(t *testing.T) {
	for _, profile := range []string{"one-shot", "echo"} {
		for _, b := range breaches() {
			if !b.within {
				t.Run(b.name+", "+profile, func(t *testing.T) {
					r := newRig(t, setup{Profile: profile})
					client, server := r.Session()
					client.Send(frame.Text, "question")
					server.Expect(frame.Text, "question")
					server.SendBytes(wstest.ServerFrame(true, frame.Text, "answer"), []byte(b.wire))
					client.Expect(frame.Text, "answer")
					r.expectBreach(client, server, b)
				})
			}
			if !b.first {
				t.Run(b.name+" in a message, "+profile, func(t *testing.T) {
					r := newRig(t, setup{Profile: profile})
					client, server := r.Session()
					client.Send(frame.Text, "question")
					server.Expect(frame.Text, "question")
					server.SendBytes(server.Encode(false, frame.Text, []byte("ans")), []byte(b.wire))
					client.Expect(frame.Text, "ans")
					r.expectBreach(client, server, b)
				})
			}
		}
	}
}

// A breach is the server's also where its messages are looked at, and where the client awaits the last of them.
func TestServerBreaksProtocolAtTheEnd(t *testing.T) {
	for _, b := range breaches() {
		if b.within {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "vosk"})
			client, server := r.Session()
			client.Send(frame.Text, voskEnd)
			expectReset(t, server)
			server.SendBytes([]byte(b.wire))
			r.expectBreach(client, server, b)
		})
	}
}

// A client that left before gets its own code, and its server is told nothing more: close frames have been exchanged, or at
// least the proxy's was sent.
func TestServerAnswersCloseBadly(t *testing.T) {
	for _, b := range breaches() {
		if b.within {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.Session()
			client.SendClose(4000, "done")
			server.ExpectClose(4000, "done")
			server.SendBytes([]byte(b.wire))
			client.ExpectClose(4000, "done")
			_ = client.Close()
			r.expectRecord(fate{"client", 4000, "done", "discarded"})
			_ = server.Close()
			r.expectFault(0, "served")
		})
	}
}

// A client that a connection was dialed for gets all that the server says behind its 101, however soon it closes.
func TestServerClosesAtOnce(t *testing.T) {
	answer, large := wstest.ServerFrame(true, frame.Text, "answer"), wstest.ServerFrame(true, frame.Binary, wstest.Noise(1, 200_000))
	for name, c := range map[string]struct {
		said   []byte
		code   frame.CloseCode
		reason string
	}{
		"close":         {append(answer, wstest.ServerFrame(true, frame.Close, "\x0f\xa0over")...), 4000, "over"},
		"breach":        {append(answer, 0x83, 0), frame.InternalError, brokeProtocol + "reserved opcode"},
		"large message": {append(large, wstest.ServerFrame(true, frame.Close, "\x0f\xa0over")...), 4000, "over"},
	} {
		for profile, yaml := range map[string]string{
			"one-shot": "profiles: {x: {from: one-shot}}",
			"watched":  `profiles: {x: {reuse: one-shot, busy: {text: "busy"}}}`,
		} {
			t.Run(name+", "+profile, func(t *testing.T) {
				dialed := make(chan struct{}, 1000)
				accept := wstest.Accept("", c.said...)
				answer := func(nc net.Conn, req *handshake.Request) bool {
					dialed <- struct{}{}
					return accept(nc, req)
				}
				play := func(p *wstest.Peer) { _, _ = io.Copy(io.Discard, p) } // until the proxy ends the stream
				use := withYAML(t, yaml)
				r := newRig(t, setup{
					Queue: 1, Script: &wstest.Server{Answer: answer, Serve: play},
					Backend: func(o *backend.Options) { use(o); o.Settings.Warm = 0 },
				})
				client := r.Connect(wstest.UpgradeRequest("/v1/test"))
				client.ExpectUpgrade()
				if bytes.HasPrefix(c.said, large) {
					client.ExpectBytes(large)
				} else {
					client.Expect(frame.Text, "answer")
				}
				client.ExpectClose(c.code, c.reason)
				_ = client.Close()
				r.expectRecord(fate{"backend", c.code, c.reason, "discarded"})
				if n := len(dialed); n != 1 {
					t.Errorf("%d connections were dialed for one client", n)
				}
			})
		}
	}
}

// Wherever among other frames a breach comes, and however the network cuts it, the client gets all that stands before it, and
// the server is told; what it sends on, valid or not, changes nothing.
func TestHostileServer(t *testing.T) {
	r := newRig(t, setup{Backend: func(o *backend.Options) { o.CircuitFailures = 1 << 30 }})
	list := breaches()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		b := list[random.IntN(len(list))]
		client, server := r.Session()
		var passed, sent []byte
		open := false
		for n := random.IntN(6); n > 0 || open && b.first || !open && b.within; n-- {
			if random.IntN(3) == 0 {
				sent = append(sent, server.Encode(true, frame.Pong, wstest.Noise(1, random.IntN(126)))...)
				continue
			}
			op := frame.Binary
			if open {
				op = frame.Continuation
			}
			fin := random.IntN(2) == 0
			whole := server.Encode(fin, op, wstest.Noise(2, random.IntN(300)))
			passed, sent, open = append(passed, whole...), append(sent, whole...), !fin
		}
		sent = append(sent, b.wire...)
		sent = append(sent, wstest.Noise(byte(round), random.IntN(100))...)
		for len(sent) > 0 {
			n := 1 + random.IntN(len(sent))
			if _, err := server.Conn.Write(sent[:n]); err != nil { // the proxy need not read on
				break
			}
			sent = sent[n:]
		}
		client.ExpectBytes(passed)
		client.ExpectClose(frame.InternalError, b.reason)
		server.ExpectOwn(frame.Close, string(frame.AppendClosePayload(nil, b.err.Code, b.err.Reason)))
		server.ExpectEnd()
		_, _ = server.Close(), client.Close()
		if t.Failed() {
			t.Fatalf("round %d: %s", round, b.name)
		}
		r.expectRecord(fate{"backend", frame.InternalError, b.reason, "discarded"})
	}
	if got := r.Backend.Health().Broken; got != 300 {
		t.Errorf("%d sessions were broken; want 300", got)
	}
}
