package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// maxAttack bounds one visit of a hostile client.
const maxAttack = 15 * time.Second

// attack is one visit of a hostile client. It is owned by its goroutine.
type attack struct {
	ctx  context.Context
	dice *rand.Rand
	path string // of the service
	conn *net.TCPConn
	in   []byte
	seen []byte // the status line of the response to the upgrade request

	answered func(status string) // is told the status line as soon as it has come; nil for not at all
}

// errNotUpgraded is returned if the proxy refused the upgrade. One visit may be refused, but the effect of most is judged.
var errNotUpgraded = errors.New("not upgraded")

// visitOnce carries out one visit until ctx ends. It returns the response to the upgrade request, and what the visit returned.
func visitOnce(ctx context.Context, dialer *net.Dialer, address, path string, dice *rand.Rand, act func(a *attack) error) (status string, err error) {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return noConnection, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	a := &attack{ctx: ctx, dice: dice, path: path, conn: conn.(*net.TCPConn)}
	err = act(a)
	return string(a.seen), err
}

// noConnection stands for a response if there was no connection.
const noConnection = "no connection"

// request returns a valid upgrade request.
func (a *attack) request(query string) string {
	return wstest.UpgradeRequest(a.path + query)
}

// upgrade sends an upgrade request and reads the response.
func (a *attack) upgrade(query string) error {
	if err := a.write([]byte(a.request(query))); err != nil {
		return err
	}
	return a.answer()
}

// upgraded returns an attack that begins with a session.
func upgraded(act func(a *attack) error) func(a *attack) error {
	return func(a *attack) error {
		if err := a.upgrade(""); err != nil {
			return err
		}
		return act(a)
	}
}

// answer reads the response to the upgrade request.
func (a *attack) answer() error {
	for {
		if head, rest, ok := strings.Cut(string(a.in), "\r\n\r\n"); ok {
			a.in = []byte(rest)
			a.seen = []byte(head[:min(len(head), len("HTTP/1.1 101"))])
			if a.answered != nil {
				a.answered(string(a.seen))
			}
			if !strings.HasSuffix(string(a.seen), " 101") {
				return errNotUpgraded
			}
			return nil
		}
		if err := a.read(); err != nil {
			return err
		}
	}
}

func (a *attack) read() error {
	var b [4 << 10]byte
	n, err := a.conn.Read(b[:])
	a.in = append(a.in, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

func (a *attack) write(b []byte) error {
	_, err := a.conn.Write(b)
	return err
}

// clientFrame returns a masked frame.
func (a *attack) clientFrame(fin bool, op frame.Opcode, payload []byte) []byte {
	return frame.Append(nil, frame.Header{Fin: fin, Opcode: op, Masked: true, Mask: a.dice.Uint32()}, payload)
}

// audio returns a message with audio that belongs to no session.
func (a *attack) audio() []byte {
	return a.clientFrame(true, frame.Binary, sim.AppendMark(nil, sim.Mark{Session: attackerSession, Seq: 1}, 20))
}

// attackerSession is the identity in the audio of hostile clients.
const attackerSession = 888_888_888_888

// wrongEnd is returned if the proxy ended a visit in another way than it promises.
type wrongEnd struct{ want, got string }

func (e *wrongEnd) Error() string { return fmt.Sprintf("got %s; want %s", e.got, e.want) }

// expect reads until the proxy ends the session, and checks its close code.
func (a *attack) expect(code frame.CloseCode) error {
	want := "close code " + code.String()
	for {
		h, size, err := frame.ParseHeader(a.in)
		if err != nil {
			return &wrongEnd{want, err.Error()}
		}
		if size == 0 || int64(len(a.in)-size) < h.Length {
			if err := a.read(); errors.Is(err, io.EOF) {
				return &wrongEnd{want, "the end of the stream"}
			} else if errors.Is(err, os.ErrDeadlineExceeded) {
				return &wrongEnd{want, "nothing"}
			} else if err != nil {
				return err // a reset, since the proxy left bytes unread: it may come now and then, see endsRight
			}
			continue
		}
		payload := a.in[size : size+int(h.Length)]
		a.in = a.in[size+int(h.Length):]
		if h.Opcode != frame.Close {
			continue
		}
		if got, _, _ := frame.ParseClose(payload); got != code {
			return &wrongEnd{want, "close code " + got.String()}
		}
		return nil
	}
}

// breaks returns an attack that sends invalid bytes and expects a close code for them.
func breaks(want frame.CloseCode, bytes func(a *attack) []byte) func(a *attack) error {
	return upgraded(func(a *attack) error {
		if err := a.write(bytes(a)); err != nil {
			return err
		}
		return a.expect(want)
	})
}

// badKey sends a key that the server refuses, and expects the server's response. A mistake of the operator leads to 404.
func badKey(a *attack) error {
	err := a.upgrade("?key=bad-" + strconv.Itoa(a.dice.IntN(1000)))
	if got := string(a.seen); got != "" && !strings.HasSuffix(got, " 401") && !strings.HasSuffix(got, " 404") {
		return &wrongEnd{"HTTP 401", got}
	}
	return err
}

// closedClientTimeout is how long a session may take to end after its client closed: several times the close-timeout of three
// seconds.
const closedClientTimeout = 10 * time.Second

// closesWithoutWaiting sends a message and a close frame together. It waits for the answer only sometimes.
func closesWithoutWaiting(a *attack) error {
	options := a.clientFrame(true, frame.Text, []byte(`{"uid": "x", "language": "en", "task": "transcribe"}`))
	if err := a.write(append(options, a.clientFrame(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))...)); err != nil {
		return err
	}
	if a.dice.IntN(2) == 0 {
		return nil
	}
	_ = a.conn.SetReadDeadline(time.Now().Add(closedClientTimeout))
	return a.expect(frame.NormalClosure)
}

// vanishes resets the connection during the handshake, after it, or in the middle of a frame.
func vanishes(a *attack) error {
	defer a.conn.SetLinger(0)
	if a.dice.IntN(4) == 0 {
		return a.write([]byte(a.request("")))
	}
	if err := a.upgrade(""); err != nil {
		return err
	}
	whole := append(a.audio(), a.audio()...)
	return a.write(whole[:a.dice.IntN(len(whole))])
}

// stallsReading sends as much as it can, reads nothing, and leaves after some seconds.
func stallsReading(a *attack) error {
	_ = a.conn.SetReadBuffer(4 << 10)
	_ = a.conn.SetWriteDeadline(time.Now().Add(3 * time.Second))
	chunk := a.clientFrame(true, frame.Binary, make([]byte, 64<<10))
	for {
		if err := a.write(chunk); err != nil {
			return err
		}
	}
}

// byteByByte sends its request, a message and its close frame one byte at a time.
func byteByByte(a *attack) error {
	trickle := func(b []byte) error {
		for i := range b {
			if err := a.write(b[i : i+1]); err != nil {
				return err
			}
			if err := kit.Wait(a.ctx, time.Duration(a.dice.IntN(5))*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}
	if err := trickle([]byte(a.request(""))); err != nil {
		return err
	}
	if err := a.answer(); err != nil {
		return err
	}
	if err := trickle(a.clientFrame(true, frame.Text, []byte("one byte at a time"))); err != nil {
		return err
	}
	if err := trickle(a.clientFrame(true, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))); err != nil {
		return err
	}
	return a.expect(frame.NormalClosure)
}

// halfCloses ends its direction of the stream after a message, and reads on.
func halfCloses(a *attack) error {
	if err := a.write(a.audio()); err != nil {
		return err
	}
	_ = a.conn.CloseWrite()
	_, err := io.Copy(io.Discard, a.conn)
	return err
}

// pingsWithoutEnd sends thousands of pings and reads the pongs.
func pingsWithoutEnd(a *attack) error {
	pings := make([]byte, 0, 64<<10)
	for range 100 {
		pings = append(pings, a.clientFrame(true, frame.Ping, []byte("are you there?"))...)
	}
	for range 20 {
		if err := a.write(pings); err != nil {
			return err
		}
		if err := a.read(); err != nil {
			return err
		}
		a.in = a.in[:0]
	}
	return nil
}

// neverEndsRequest sends one header field after the other and never ends its request.
func neverEndsRequest(a *attack) error {
	request := strings.TrimSuffix(a.request(""), "\r\n")
	if err := a.write([]byte(request)); err != nil {
		return err
	}
	_ = a.conn.SetDeadline(time.Now().Add(slowRequestTimeout))
	for {
		if err := a.write([]byte("X-More: " + strings.Repeat("x", a.dice.IntN(200)) + "\r\n")); err != nil {
			return stillConnected(err)
		}
		if err := kit.Wait(a.ctx, time.Duration(a.dice.IntN(100))*time.Millisecond); err != nil {
			return err
		}
	}
}

// staysSilent connects and waits until the proxy ends the connection.
func staysSilent(a *attack) error {
	_ = a.conn.SetDeadline(time.Now().Add(slowRequestTimeout))
	_, err := io.Copy(io.Discard, a.conn)
	return stillConnected(err)
}

// slowRequestTimeout is how long the proxy may wait for the end of a request: several times the handshake-timeout of three
// seconds.
const slowRequestTimeout = 12 * time.Second

// stillConnected returns a wrongEnd if a client was still connected at its deadline.
func stillConnected(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &wrongEnd{"the end of the connection", "nothing"}
	}
	return err
}

// brokenFrame returns a frame that RFC 6455 forbids.
func brokenFrame(a *attack) []byte {
	switch a.dice.IntN(5) {
	case 0: // a reserved bit
		b := a.audio()
		b[0] |= 0x40
		return b
	case 1: // a reserved opcode
		return a.clientFrame(true, 0x3, nil)
	case 2: // a fragmented control frame
		return a.clientFrame(false, frame.Ping, nil)
	case 3: // a control frame that is too long
		return a.clientFrame(true, frame.Ping, make([]byte, 126))
	default: // a continuation without a message
		return a.clientFrame(true, frame.Continuation, nil)
	}
}
