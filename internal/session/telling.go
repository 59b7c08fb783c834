package session

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A service may tell its clients how they fare (Service.TellClients), in messages of its profile. A client that must wait for a connection
// is accepted while it waits then: it gets its 101 and its place in the queue, and what it sends is kept for its session, up to maxEarly
// bytes. It is a client in the queue like all others, and counts in the same limits. A client that offers subprotocols waits for its 101
// as without that, since the server's choice belongs in it.

// tellTimeout is how long a waiting client may take to accept a message. One that does not is taken to have left.
const tellTimeout = time.Second

// telling is a client that was accepted while it waits. It is owned by the goroutine of the handshake. While an earlyReader runs, that owns
// scanner, controls, kept, rest, close and broke.
type telling struct {
	nc      net.Conn // static
	service *Service // static
	last    int      // the place that it was told last
	code    frame.CloseCode

	wake  chan struct{} // of size one: there is something to tell
	mu    sync.Mutex
	place *place // guarded by mu: the latest from the board; nil for none
	pong  []byte // guarded by mu: the payload of the last ping, which is to be answered; nil for none

	scanner  frame.Scanner
	controls controls
	kept     []byte // data frames
	rest     []byte // the incomplete frame behind them
	close    []byte // the payload of the client's close frame; nil if none has come
	broke    error  // how it broke the protocol; nil if it has not
}

// place is a client's place in the queue, and how many seconds it waits there; -1 if nobody knows.
type place struct{ number, wait int }

// newTelling returns what a client is told while it waits; nil for a client that is not to be told anything.
func newTelling(service *Service, nc net.Conn, req *handshake.Request, arrival *arrival) *telling {
	if !service.tellsQueue() || len(req.Subprotocols()) > 0 {
		return nil
	}
	maxMessage, _ := arrival.Hold.MaxMessage(service.MaxMessage)
	return &telling{
		nc: nc, service: service, wake: make(chan struct{}, 1), scanner: frame.NewClientScanner(maxMessage),
	}
}

// accept accepts a client that begins to wait, and tells it its place. It returns false if the client has left.
func (t *telling) accept(req *handshake.Request, arrival *arrival, wait int) bool {
	b := req.AppendAccept(make([]byte, 0, 256), "", handshake.Field{Name: IDHeader, Value: arrival.ID.String()})
	early := req.Early
	req.Early = nil
	return t.write(t.appendPlace(b, place{arrival.Position, wait})) && t.take(early)
}

// appendPlace appends the message with the client's place.
func (t *telling) appendPlace(b []byte, p place) []byte {
	t.last = p.number
	return frame.AppendMessage(b, frame.Text, true, []byte(t.service.Profile.Tell().Queue(t.service.Name, p.number, p.wait)), false)
}

// write reports whether the client has accepted what is written.
func (t *telling) write(b []byte) bool {
	_ = t.nc.SetWriteDeadline(time.Now().Add(tellTimeout))
	_, err := t.nc.Write(b)
	_ = t.nc.SetWriteDeadline(time.Time{})
	return err == nil
}

// offer takes the client's place from the board, which is one goroutine. It never blocks.
func (t *telling) offer(number, wait int) { t.later(func() { t.place = &place{number, wait} }) }

// later changes what is to be told, and wakes the goroutine that tells it.
func (t *telling) later(change func()) {
	t.mu.Lock()
	change()
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// news returns what a waiting client is to be told; nil for a client that is told nothing.
func (t *telling) news() *News {
	if t == nil {
		return nil
	}
	return &News{Ready: t.wake, Tell: t.tell}
}

// tell tells the client its place, if that has changed, and answers its ping. It returns false if the client has left.
func (t *telling) tell() bool {
	t.mu.Lock()
	p, pong := t.place, t.pong
	t.place, t.pong = nil, nil
	t.mu.Unlock()
	var b []byte
	if p != nil && p.number != t.last && p.number != 0 {
		b = t.appendPlace(b, *p)
	}
	if pong != nil {
		b = frame.AppendControl(b, frame.Pong, pong, false)
	}
	return len(b) == 0 || t.write(b)
}

// take takes what the client sends. It returns false if the client has closed or broken the protocol.
func (t *telling) take(b []byte) bool {
	b = append(t.rest, b...)
	pos := 0
	for {
		run, err := t.scanner.Next(b[pos:])
		t.kept = append(t.kept, b[pos:pos+run.Data]...)
		pos += run.Consumed
		if err != nil {
			t.broke = err
			return false
		}
		if !run.HasControl() {
			break
		}
		if !t.control(run.Control, run.Payload) {
			return false
		}
	}
	t.rest = append(t.rest[:0], b[pos:]...)
	return true
}

// errControls is how a waiting client breaks the rules that sends too many control frames.
var errControls = &frame.Error{Code: frame.PolicyViolation, Reason: "too many control frames"}

func (t *telling) control(op frame.Opcode, payload []byte) bool {
	switch {
	case op == frame.Close:
		t.close = append([]byte{}, payload...)
		return false
	case t.controls.exceeded():
		t.broke = errControls
		return false
	case op == frame.Ping:
		t.later(func() { t.pong = append([]byte{}, payload...) }) // only the last ping needs an answer (RFC 6455, section 5.5.3)
	}
	return true
}

// received returns what the client has sent for its session.
func (t *telling) received() []byte { return append(bytes.Clone(t.kept), t.rest...) }

// full reports whether no more can be kept.
func (t *telling) full() bool { return len(t.kept)+len(t.rest) >= maxEarly }

// leave answers a client that has closed or broken the protocol, and closes its connection.
func (t *telling) leave() {
	switch broken := (*frame.Error)(nil); {
	case t.close != nil:
		code, _, err := frame.ParseClose(t.close)
		payload := t.close
		if err != nil {
			payload = frame.ClosePayload(frame.ProtocolError, err.Error())
		} else if code.Sendable() {
			payload = frame.ClosePayload(code, "")
		}
		t.write(frame.AppendControl(nil, frame.Close, payload, false))
	case errors.As(t.broke, &broken):
		t.end(broken.Code, broken.Reason)
		return
	}
	_ = t.nc.Close()
}

// end sends a client a close frame, waits for its own for as long as its service allows, and closes its connection.
func (t *telling) end(code frame.CloseCode, reason string) {
	defer t.nc.Close()
	_ = t.nc.SetDeadline(time.Now().Add(t.service.CloseTimeout))
	if _, err := t.nc.Write(frame.AppendControl(nil, frame.Close, frame.ClosePayload(code, reason), false)); err != nil || t.broke != nil {
		return
	}
	t.kept = nil // of use to nobody any more
	var buf [4 << 10]byte
	for total := 0; total < maxEarly; {
		n, err := t.nc.Read(buf[:])
		if err != nil || !t.take(buf[:n]) {
			return
		}
		total += n
	}
}

// closeCodeOf returns the close code for a client that was accepted, and that gets no connection for this reason.
func closeCodeOf(err error, refusal *handshake.Refusal) frame.CloseCode {
	if ended := (*WaitEnded)(nil); errors.As(err, &ended) {
		return ended.Code
	}
	if refusal.Status == http.StatusServiceUnavailable {
		return frame.TryAgainLater
	}
	return frame.PolicyViolation
}
