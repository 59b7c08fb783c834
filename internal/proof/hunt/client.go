package hunt

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// client is a WebSocket client that can leave at any point. It is used for one connection after the other.
type client struct {
	*speaker.Conn
	nc   net.Conn // with TLS, if the server is reached by it
	tcp  *net.TCPConn
	dice *rand.Rand
	out  []byte
}

// httpError is a response with a status other than 101.
type httpError int

func (e httpError) Error() string { return fmt.Sprintf("HTTP %d", int(e)) }

// versions returns the configurations of TLS among which connections choose.
func versions(config *tls.Config, name string) []*tls.Config {
	newest := cmp.Or(config, new(tls.Config)).Clone()
	newest.ServerName = cmp.Or(newest.ServerName, name)
	older := newest.Clone()
	older.MaxVersion = tls.VersionTLS12
	return []*tls.Config{newest, newest, newest, older}
}

// dial connects, by TLS if there are configurations for it, from an address unless that is nil, sends the upgrade request and reads the response.
// timeout is that of each write from then on.
func (c *client) dial(ctx context.Context, from net.IP, address string, secure []*tls.Config, request string, timeout time.Duration) error {
	dialing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var dialer net.Dialer
	if from != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: from}
	}
	conn, err := dialer.DialContext(dialing, "tcp", address)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	c.nc, c.tcp = conn, conn.(*net.TCPConn)
	if len(secure) > 0 {
		c.nc = tls.Client(conn, secure[c.dice.IntN(len(secure))])
	}
	defer context.AfterFunc(dialing, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // the response may take as long as a queue
	if _, err := io.WriteString(c.nc, request); err != nil {
		return err
	}
	in := bufio.NewReader(c.nc)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return httpError(response.StatusCode)
	}
	early, err := in.Peek(in.Buffered())
	c.Conn = speaker.NewConn(handshake.Established{Conn: c.nc, Early: early}, timeout)
	return err
}

// send sends a message, sometimes in fragments.
func (c *client) send(m Message) error {
	if len(m.Payload) < 2 || c.dice.IntN(8) > 0 {
		return c.Send(m)
	}
	cut := 1 + c.dice.IntN(len(m.Payload)-1)
	c.out = frame.AppendMessage(c.out[:0], m.Opcode, false, m.Payload[:cut], true)
	c.out = frame.AppendMessage(c.out, frame.Continuation, true, m.Payload[cut:], true)
	return c.write(c.out)
}

// sendPart sends the beginning of a message's frame.
func (c *client) sendPart(m Message) error {
	whole := frame.AppendMessage(c.out[:0], m.Opcode, true, m.Payload, true)
	return c.write(whole[:1+c.dice.IntN(len(whole)-1)])
}

func (c *client) write(b []byte) error {
	_, err := c.nc.Write(b)
	return err
}

// drop ends the connection: with RST on request or if the socket has unread bytes, otherwise with FIN. TLS says goodbye before every
// other FIN.
func (c *client) drop(reset bool) {
	if c.nc == nil {
		return
	}
	if reset {
		_ = c.tcp.SetLinger(0)
	} else if c.nc != net.Conn(c.tcp) && c.dice.IntN(2) == 0 {
		_ = c.nc.Close()
	}
	_ = c.tcp.Close()
	c.nc, c.tcp = nil, nil
}
