package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// rawServer accepts connections and handles each with its behaviour.
type rawServer struct {
	// Static.
	listener net.Listener
	behave   func(v *visit)
	meter    *meter
	seed     uint64
	ending   context.Context
	end      context.CancelFunc
	tasks    sync.WaitGroup
}

// visit is one connection to a rawServer. The goroutine of the behaviour owns it.
type visit struct {
	server  *rawServer
	conn    *net.TCPConn
	dice    *rand.Rand
	in      []byte // bytes received and not handled yet
	inside  bool   // the meter counts it as open
	noPongs bool   // next answers no pings
}

// startRaw starts a server with that behaviour on any port of the loopback interface.
func startRaw(seed uint64, m *meter, behave func(v *visit)) (*rawServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &rawServer{listener: listener, behave: behave, meter: m, seed: seed}
	s.ending, s.end = context.WithCancel(context.Background())
	s.tasks.Go(s.accept)
	return s, nil
}

func (s *rawServer) url() string { return "ws://" + s.listener.Addr().String() }

// close closes all connections and waits for all goroutines.
func (s *rawServer) close() {
	s.end()
	_ = s.listener.Close()
	s.tasks.Wait()
}

func (s *rawServer) accept() {
	for number := uint64(1); ; number++ {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // most likely no file descriptor is free at the moment
			if kit.Wait(s.ending, 50*time.Millisecond) != nil {
				return
			}
			continue
		}
		s.meter.attempt(time.Now())
		s.tasks.Go(func() { s.serve(conn.(*net.TCPConn), number) })
	}
}

// maxVisit is how long a connection may last if the proxy does not end it.
const maxVisit = 2 * time.Minute

func (s *rawServer) serve(conn *net.TCPConn, number uint64) {
	stop := context.AfterFunc(s.ending, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(maxVisit))
	v := &visit{server: s, conn: conn, dice: rand.New(rand.NewPCG(s.seed, number))}
	s.meter.entered()
	v.inside = true
	s.behave(v)
	v.leave()
	_ = conn.Close()
}

// leave counts the connection as closed. It is called before the proxy can see the end.
func (v *visit) leave() {
	if v.inside {
		v.inside = false
		v.server.meter.left()
	}
}

// upgrade reads the upgrade request and accepts it. It sends further bytes in the same write.
func (v *visit) upgrade(behind ...[]byte) bool {
	request, err := handshake.ReadRequest(v.conn, handshake.DefaultMaxHead)
	if err != nil {
		return false
	}
	if refusal := request.Check(); refusal != nil {
		v.leave()
		handshake.Refuse(v.conn, refusal)
		return false
	}
	v.in = append(v.in, request.Early...)
	subprotocol := ""
	if request.Offers("binary") {
		subprotocol = "binary"
	}
	out := request.AppendAccept(nil, subprotocol)
	for _, b := range behind {
		out = append(out, b...)
	}
	return v.write(out)
}

func (v *visit) write(b []byte) bool {
	_, err := v.conn.Write(b)
	return err == nil
}

// next returns the next message. It answers pings. After it has answered a close frame, it returns false.
func (v *visit) next() (op frame.Opcode, message []byte, ok bool) {
	for {
		h, size, err := frame.ParseHeader(v.in)
		if err != nil {
			return 0, nil, false
		}
		if size == 0 || int64(len(v.in)-size) < h.Length {
			if !v.read() {
				return 0, nil, false
			}
			continue
		}
		payload := v.in[size : size+int(h.Length) : size+int(h.Length)]
		v.in = v.in[size+int(h.Length):]
		if h.Masked {
			frame.ApplyMask(payload, h.Mask)
		}
		switch h.Opcode {
		case frame.Ping:
			if !v.noPongs && !v.write(plain(frame.Pong, payload)) {
				return 0, nil, false
			}
		case frame.Pong:
		case frame.Close:
			v.leave()
			v.write(plain(frame.Close, payload))
			v.drain()
			return 0, nil, false
		default:
			if h.Opcode != frame.Continuation {
				op = h.Opcode
			}
			if message = append(message, payload...); h.Fin {
				return op, message, true
			}
		}
	}
}

func (v *visit) read() bool {
	var b [16 << 10]byte
	n, err := v.conn.Read(b[:])
	v.in = append(v.in, b[:n]...)
	return err == nil
}

// drain reads until the proxy ends the connection.
func (v *visit) drain() { _, _ = io.Copy(io.Discard, v.conn) }

// last sends the last bytes, ends the server's direction, and waits a moment for the proxy to end the other.
func (v *visit) last(b []byte) {
	v.leave()
	v.write(b)
	_ = v.conn.CloseWrite()
	_ = v.conn.SetDeadline(time.Now().Add(3 * time.Second))
	v.drain()
}

// pause waits for a random time in this range.
func (v *visit) pause(least, most time.Duration) bool {
	return kit.Wait(v.server.ending, kit.Between(v.dice, least, most)) == nil
}

// plain returns a frame as servers send it.
func plain(op frame.Opcode, payload []byte) []byte {
	return frame.Append(nil, frame.Header{Fin: true, Opcode: op}, payload)
}

// closing returns a close frame.
func closing(code frame.CloseCode, reason string) []byte {
	return plain(frame.Close, frame.AppendClosePayload(nil, code, reason))
}

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
	due := time.AfterFunc(kit.Between(v.dice, 200*time.Millisecond, 2200*time.Millisecond), func() {
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
