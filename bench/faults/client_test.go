package faults

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// client is one client of the proxy, with one session. It sends a numbered message now and then, and checks that this very
// message comes back.
type client struct {
	id     int
	nc     net.Conn
	r      *bufio.Reader
	first  int // size of its first message, about
	echoes atomic.Int64
	began  time.Time
	before int           // clients with the same address before it, whose port it has
	leave  chan struct{} // closed when it is to end its session
	abrupt atomic.Bool   // it is to leave without waiting for its last echo
	done   chan struct{} // closed when its session has ended

	// Set when the session has ended.
	code   int       // of the close frame; 0 for none
	reason string    // the same
	cut    bool      // the stream ended in the middle of a frame
	ended  time.Time // when the client was told
	wrong  error     // what it should not have received; nil if all was well
}

// dialClient connects.
func dialClient(address string, id, first int) (*client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	nc, early, _, err := ws.Dial(ctx, "ws://"+address+"/")
	if err != nil {
		return nil, err
	}
	c := &client{id: id, nc: nc, r: early, first: first, began: time.Now(), leave: make(chan struct{}), done: make(chan struct{})}
	if early == nil {
		c.r = bufio.NewReader(nc)
	}
	return c, nil
}

// address returns the client's own address.
func (c *client) address() string { return c.nc.LocalAddr().String() }

// longestPause is the most time between an echo and the next message; the least is half of it.
const longestPause = 500 * time.Millisecond

// run is the session. It ends when the client is told to leave or when the proxy ends it.
func (c *client) run() {
	defer close(c.done)
	defer c.nc.Close()
	for number := 0; ; number++ {
		m := c.message(number)
		if err := c.send(ws.NewTextFrame(m)); err != nil || c.abrupt.Load() && c.leaving() {
			c.goodbye() // an error is understood from what the proxy has said
			return
		}
		if !c.expect(m) {
			return
		}
		c.echoes.Add(1)
		if !c.pause(longestPause - rand.N(longestPause/2)) {
			return
		}
		if c.leaving() && !c.abrupt.Load() {
			c.goodbye()
			return
		}
	}
}

// usualSize is the size of messages, in bytes, where it does not matter.
const usualSize = 100

// message returns a message that tells, in each of its parts, whose and which it is.
func (c *client) message(number int) []byte {
	size := usualSize
	if number == 0 {
		size = c.first
	}
	part := fmt.Appendf(nil, "client %d, message %d; ", c.id, number)
	return bytes.Repeat(part, max(size/len(part), 1))
}

func (c *client) leaving() bool { return closed(c.leave) }

// over reports whether the session has ended.
func (c *client) over() bool { return closed(c.done) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (c *client) send(f ws.Frame) error {
	_ = c.nc.SetWriteDeadline(wstest.Deadline())
	_, err := c.nc.Write(ws.MustCompileFrame(ws.MaskFrame(f)))
	return err
}

// expect receives a message, which must be this one, and returns false when the session has ended instead.
func (c *client) expect(m []byte) bool {
	_ = c.nc.SetReadDeadline(wstest.Deadline())
	f, ok := c.receive()
	if ok && (f.Header.OpCode != ws.OpText || !f.Header.Fin || !bytes.Equal(f.Payload, m)) {
		c.wrong = fmt.Errorf("received %+v %.80q; want %.80q", f.Header, f.Payload, m)
		return false
	}
	return ok
}

// pause waits for the given time and returns false when the session has ended meanwhile. Nothing else should come.
func (c *client) pause(d time.Duration) bool {
	_ = c.nc.SetReadDeadline(time.Now().Add(d))
	if _, err := c.r.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	_ = c.nc.SetReadDeadline(wstest.Deadline())
	if f, ok := c.receive(); ok {
		c.wrong = fmt.Errorf("received %+v %.80q, which it had not asked for", f.Header, f.Payload)
	}
	return false
}

// goodbye ends the session with the code 1000, and receives what still comes until the proxy's close frame.
func (c *client) goodbye() {
	_ = c.send(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, "goodbye")))
	_ = c.nc.SetReadDeadline(wstest.Deadline())
	for {
		if _, ok := c.receive(); !ok {
			return
		}
	}
}

// receive receives a data frame, and notes how the session has ended when there is none.
func (c *client) receive() (f ws.Frame, ok bool) {
	_, err := c.r.Peek(1)
	if err != nil {
		c.lost(err)
		return f, false
	}
	if f.Header, err = ws.ReadHeader(c.r); err == nil && f.Header.Length > 1<<20 {
		c.wrong = fmt.Errorf("received the header of a frame that was never sent: %+v", f.Header)
		return f, false
	}
	f.Payload = make([]byte, f.Header.Length)
	if _, bodyErr := io.ReadFull(c.r, f.Payload); err != nil || bodyErr != nil {
		c.cut = true
		c.lost(errors.Join(err, bodyErr))
		return f, false
	}
	if f.Header.OpCode != ws.OpClose {
		return f, true
	}
	code, reason := ws.ParseCloseFrameData(f.Payload)
	c.code, c.reason, c.ended = int(code), reason, time.Now()
	_ = c.send(ws.NewCloseFrame(f.Payload)) // it may be an answer to ours, and the connection over already
	return f, false
}

// lost notes that the stream has ended without a close frame.
func (c *client) lost(err error) {
	c.ended = time.Now()
	c.reason = err.Error()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.wrong = fmt.Errorf("heard nothing for %v", wstest.Timeout)
	}
}
