package chaos

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
)

// rawServer accepts connections and does to each what its behaviour says, byte by byte.
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

// visit is one connection to a rawServer. It is owned by the goroutine that carries out the behaviour.
type visit struct {
	server  *rawServer
	conn    *net.TCPConn
	dice    *rand.Rand
	in      []byte // received and not taken yet
	inside  bool   // counted as open
	noPongs bool   // pings are not answered
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

// close cuts all connections, and returns when nothing is left.
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
		if err != nil { // most likely out of descriptors, which may pass
			if wait(s.ending, 50*time.Millisecond) != nil {
				return
			}
			continue
		}
		s.meter.attempt(time.Now())
		s.tasks.Go(func() { s.serve(conn.(*net.TCPConn), number) })
	}
}

// maxVisit bounds how long a connection may last: a server that nobody leaves must not keep it for ever.
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

// leave counts the connection as gone. It comes before anything that shows its end to the proxy.
func (v *visit) leave() {
	if v.inside {
		v.inside = false
		v.server.meter.left()
	}
}

// upgrade reads the upgrade request and accepts it; what stands behind goes out with the same write.
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

// next returns the next message. Pings are answered on the way, and so is a close frame, with which it ends.
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

// drain says nothing, and reads until the proxy ends the connection.
func (v *visit) drain() { _, _ = io.Copy(io.Discard, v.conn) }

// last says its last, ends the server's direction, and waits for a moment that the proxy ends the other.
func (v *visit) last(b []byte) {
	v.leave()
	v.write(b)
	_ = v.conn.CloseWrite()
	_ = v.conn.SetDeadline(time.Now().Add(3 * time.Second))
	v.drain()
}

// pause waits for a random time between the two.
func (v *visit) pause(least, most time.Duration) bool {
	return wait(v.server.ending, least+time.Duration(v.dice.Int64N(int64(most-least)))) == nil
}

// plain returns a whole frame as servers send it.
func plain(op frame.Opcode, payload []byte) []byte {
	return frame.Append(nil, frame.Header{Fin: true, Opcode: op}, payload)
}

// closing returns a close frame.
func closing(code frame.CloseCode, reason string) []byte {
	return plain(frame.Close, frame.AppendClosePayload(nil, code, reason))
}

// wait waits for that time, or until ctx ends, whose error it returns then.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
