//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// text returns a text message.
func text(payload string) ws.Frame { return ws.NewTextFrame([]byte(payload)) }

// goodbye is the client's close frame.
func goodbye() ws.Frame { return ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, "")) }

// client is a WebSocket client whose steps are separate, so that each can be timed. It is for one goroutine.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// connect opens the TCP connection and nothing else. The caller closes it.
func connect(ctx context.Context, address string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// ask sends the upgrade request. The key is always the same, and the answer to it is not checked: that is for tests.
func (c *client) ask(subprotocol string) error {
	request := "GET / HTTP/1.1\r\nHost: " + c.conn.RemoteAddr().String() + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bWVhc3VyaW5nIHN0YXJ0cw==\r\n"
	if subprotocol != "" {
		request += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
	}
	return c.write([]byte(request + "\r\n"))
}

// upgraded waits for the answer to the upgrade request.
func (c *client) upgraded() error {
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the answer to the upgrade request is %s", response.Status)
	}
	return nil
}

// send sends frames in one write.
func (c *client) send(frames ...ws.Frame) error {
	var b bytes.Buffer
	for _, f := range frames {
		if err := ws.WriteFrame(&b, ws.MaskFrame(f)); err != nil {
			return err
		}
	}
	return c.write(b.Bytes())
}

// write sends bytes. The answer to them must arrive within answerTimeout.
func (c *client) write(b []byte) error {
	_ = c.conn.SetDeadline(time.Now().Add(answerTimeout))
	_, err := c.conn.Write(b)
	return err
}

// await receives messages until one contains these bytes. Pings are answered on the way.
func (c *client) await(part string) error {
	for {
		payload, _, err := wsutil.ReadServerData(struct {
			io.Reader
			io.Writer
		}{c.in, c.conn})
		if err != nil {
			return fmt.Errorf("waiting for %q: %w", part, err)
		}
		if bytes.Contains(payload, []byte(part)) {
			return nil
		}
	}
}

// drain receives what is still to come until the server ends the connection, and closes it.
func (c *client) drain() {
	_, _ = io.Copy(io.Discard, c.in)
	_ = c.conn.Close()
}
