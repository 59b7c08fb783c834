//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// message is a whole WebSocket message.
type message struct {
	opcode  frame.Opcode
	payload []byte
}

// text returns a text message.
func text(payload string) message { return message{frame.Text, []byte(payload)} }

// client is a WebSocket client whose steps are separate, so that each can be timed. It is for one goroutine.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// errClosed is returned when the server has sent a close frame.
var errClosed = errors.New("the server has closed the connection")

// connect opens the TCP connection and nothing else. The caller closes it.
func connect(ctx context.Context, address string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// ask asks for the upgrade. The key is always the same: what becomes of it is for tests to see.
func (c *client) ask(subprotocol string) error {
	request := "GET / HTTP/1.1\r\nHost: " + c.conn.RemoteAddr().String() + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bWVhc3VyaW5nIHN0YXJ0cw==\r\n"
	if subprotocol != "" {
		request += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
	}
	return c.write([]byte(request + "\r\n"))
}

// granted waits for the answer to that.
func (c *client) granted() error {
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the answer to the upgrade request is %s", response.Status)
	}
	return nil
}

// send sends messages in one write.
func (c *client) send(messages ...message) error {
	var b []byte
	for _, m := range messages {
		b = frame.Append(b, frame.Header{Fin: true, Opcode: m.opcode, Masked: true, Mask: rand.Uint32()}, m.payload)
	}
	return c.write(b)
}

// write sends bytes. What follows on them has to come within patience.
func (c *client) write(b []byte) error {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	_, err := c.conn.Write(b)
	return err
}

// goodbye is the client's close frame.
func goodbye() message {
	return message{frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, "")}
}

// receive returns the next message of the server, or errClosed. The servers and proxies here do not fragment.
func (c *client) receive() (message, error) {
	for {
		h, size, err := c.header()
		if err != nil {
			return message{}, err
		}
		whole := make([]byte, size+int(h.Length))
		if _, err := io.ReadFull(c.in, whole); err != nil {
			return message{}, err
		}
		switch payload := whole[size:]; {
		case h.Opcode == frame.Close:
			return message{}, errClosed
		case h.Opcode == frame.Ping:
			if err := c.send(message{frame.Pong, payload}); err != nil {
				return message{}, err
			}
		case h.Opcode.IsControl():
		case !h.Fin || h.Opcode == frame.Continuation:
			return message{}, errors.New("the server has fragmented a message, which is not expected here")
		default:
			return message{h.Opcode, payload}, nil
		}
	}
}

// header looks at the next frame's header.
func (c *client) header() (frame.Header, int, error) {
	for n := 2; ; n++ {
		b, err := c.in.Peek(n)
		if err != nil {
			return frame.Header{}, 0, err
		}
		h, size, err := frame.ParseHeader(b)
		if err != nil || size > 0 {
			return h, size, err
		}
	}
}

// await receives messages until one has these bytes in it.
func (c *client) await(part string) error {
	for {
		m, err := c.receive()
		if err != nil {
			return fmt.Errorf("waiting for %q: %w", part, err)
		}
		if bytes.Contains(m.payload, []byte(part)) {
			return nil
		}
	}
}

// drain receives what is still to come until the server ends the connection, and closes it.
func (c *client) drain() {
	_, _ = io.Copy(io.Discard, c.in)
	_ = c.conn.Close()
}
