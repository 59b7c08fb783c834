package hunt

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// upgradeRequest returns an upgrade request with further fields. The override replaces the path unless it is empty. The key is always the same:
// other tests check what a server makes of it.
func upgradeRequest(host, path, override, subprotocol, fields string) string {
	if override != "" {
		path = override
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: aHVudGluZyBmb3IgbGVhaw==\r\n"
	if subprotocol != "" {
		request += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
	}
	return request + fields + "\r\n"
}

// client is a WebSocket client that can leave at any point. It is reused for one connection after the other, and keeps its buffers.
type client struct {
	conn    net.Conn // with TLS, if the server is reached by it
	tcp     *net.TCPConn
	dice    *rand.Rand
	in      []byte // bytes received and not handled yet
	buffer  []byte // the memory of in
	out     []byte
	message []byte // assembled from fragments
	kind    frame.Opcode
}

// httpError is a response with a status other than 101.
type httpError int

func (e httpError) Error() string { return fmt.Sprintf("HTTP %d", int(e)) }

// closeError is a close frame from the server.
type closeError struct {
	code   frame.CloseCode
	reason string
}

func (e closeError) Error() string { return fmt.Sprintf("close %v", e.code) }

// maxMessage is the largest message that is received.
const maxMessage = 1 << 20

// versions returns the configurations of TLS among which connections choose.
func versions(config *tls.Config, name string) []*tls.Config {
	if config == nil {
		config = new(tls.Config)
	}
	newest := config.Clone()
	if newest.ServerName == "" {
		newest.ServerName = name
	}
	older := newest.Clone()
	older.MaxVersion = tls.VersionTLS12
	return []*tls.Config{newest, newest, newest, older}
}

// dial connects, by TLS if there are configurations for it, from an address unless that is nil, sends the upgrade request and reads the response.
func (c *client) dial(ctx context.Context, from net.IP, address string, secure []*tls.Config, request string, deadline time.Time) error {
	dialing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var dialer net.Dialer
	if from != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: from}
	}
	conn, err := dialer.DialContext(dialing, "tcp", address)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	c.conn, c.tcp = conn, conn.(*net.TCPConn)
	if len(secure) > 0 {
		c.conn = tls.Client(conn, secure[c.dice.IntN(len(secure))])
	}
	_ = c.conn.SetDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // the response may take as long as a queue
	if cap(c.buffer) == 0 {
		c.buffer = make([]byte, 16<<10)
	}
	c.in, c.message, c.kind = c.buffer[:0], c.message[:0], frame.Continuation
	if _, err := io.WriteString(c.conn, request); err != nil {
		return err
	}
	for {
		if end := bytes.Index(c.in, []byte("\r\n\r\n")); end >= 0 {
			head := c.in[:end]
			c.in = c.in[end+4:]
			return checkStatus(head)
		}
		if err := c.read(); err != nil {
			return err
		}
	}
}

func checkStatus(head []byte) error {
	var status int
	if len(head) >= 12 && bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		status, _ = strconv.Atoi(string(head[9:12]))
	}
	if status != http.StatusSwitchingProtocols {
		return httpError(status)
	}
	return nil
}

// read receives more bytes.
func (c *client) read() error {
	if len(c.in) == cap(c.in) || cap(c.in)-len(c.in) < 1024 {
		if len(c.in)*2 > cap(c.buffer) {
			if len(c.in) > maxMessage {
				return errors.New("message too large")
			}
			c.buffer = make([]byte, 2*cap(c.buffer))
		}
		c.in = append(c.buffer[:0], c.in...)
	}
	n, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	return err
}

// receive returns the next message, which is valid until the next call. It answers pings. It returns a close frame as a closeError
// and does not answer it.
func (c *client) receive() (Message, error) {
	for {
		h, size, err := frame.ParseHeader(c.in)
		if err != nil {
			return Message{}, err
		}
		if h.Masked {
			return Message{}, frame.ErrMasked
		}
		if size == 0 || int64(len(c.in)-size) < h.Length {
			if err := c.read(); err != nil {
				return Message{}, err
			}
			continue
		}
		payload := c.in[size : size+int(h.Length)]
		c.in = c.in[size+int(h.Length):]
		switch h.Opcode {
		case frame.Ping:
			if err := c.write(c.frame(true, frame.Pong, payload)); err != nil {
				return Message{}, err
			}
			continue
		case frame.Pong:
			continue
		case frame.Close:
			code, reason, err := frame.ParseClose(payload)
			if err != nil {
				return Message{}, err
			}
			return Message{}, closeError{code, string(reason)}
		}
		if (h.Opcode == frame.Continuation) != (c.kind != frame.Continuation) {
			return Message{}, frame.ErrInMessage
		}
		if h.Fin && c.kind == frame.Continuation { // the message is a single frame
			return Message{h.Opcode, payload}, nil
		}
		if h.Opcode != frame.Continuation {
			c.kind, c.message = h.Opcode, c.message[:0]
		}
		c.message = append(c.message, payload...)
		if h.Fin {
			m := Message{c.kind, c.message}
			c.kind = frame.Continuation
			return m, nil
		}
	}
}

// tls reports whether the connection uses TLS.
func (c *client) tls() bool { return c.conn != net.Conn(c.tcp) }

// frame returns a frame, which is valid until the next call.
func (c *client) frame(fin bool, op frame.Opcode, payload []byte) []byte {
	c.out = c.appendFrame(c.out[:0], fin, op, payload)
	return c.out
}

func (c *client) appendFrame(dst []byte, fin bool, op frame.Opcode, payload []byte) []byte {
	return frame.Append(dst, frame.Header{Fin: fin, Opcode: op, Masked: true, Mask: c.dice.Uint32()}, payload)
}

// send sends a message, sometimes in fragments.
func (c *client) send(m Message) error {
	if len(m.Payload) < 2 || c.dice.IntN(8) > 0 {
		return c.write(c.frame(true, m.Opcode, m.Payload))
	}
	cut := 1 + c.dice.IntN(len(m.Payload)-1)
	c.out = c.appendFrame(c.out[:0], false, m.Opcode, m.Payload[:cut])
	c.out = c.appendFrame(c.out, true, frame.Continuation, m.Payload[cut:])
	return c.write(c.out)
}

func (c *client) write(b []byte) error {
	_, err := c.conn.Write(b)
	return err
}

// close sends a close frame.
func (c *client) close(code frame.CloseCode) error {
	var payload [2]byte
	return c.write(c.frame(true, frame.Close, frame.AppendClosePayload(payload[:0], code, "")))
}

// drop ends the connection: with RST on request or if the socket has unread bytes, otherwise with FIN. TLS says goodbye before every
// other FIN.
func (c *client) drop(reset bool) {
	if c.conn == nil {
		return
	}
	if reset {
		_ = c.tcp.SetLinger(0)
	} else if c.tls() && c.dice.IntN(2) == 0 {
		_ = c.conn.Close()
	}
	_ = c.tcp.Close()
	c.conn, c.tcp = nil, nil
}
