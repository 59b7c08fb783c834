//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// client is a WebSocket client whose steps are separate, so that each can be timed. It is for one goroutine.
type client struct {
	*speaker.Conn // nil until upgraded
	nc            net.Conn
}

// ask connects, and sends the upgrade request. The key is always the same, and the answer to it is not checked: that is for other tests. The caller
// closes the client.
func ask(ctx context.Context, address, subprotocol string) (*client, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	var lines []string
	if subprotocol != "" {
		lines = []string{"Sec-WebSocket-Protocol: " + subprotocol}
	}
	_ = nc.SetDeadline(time.Now().Add(answerTimeout))
	_, err = io.WriteString(nc, wstest.UpgradeRequest("/", lines...))
	return &client{nc: nc}, err
}

// upgraded waits for the answer to the upgrade request.
func (c *client) upgraded() error {
	in := bufio.NewReader(c.nc)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the answer to the upgrade request is %s", response.Status)
	}
	early, err := in.Peek(in.Buffered())
	c.Conn = speaker.NewConn(handshake.Established{Conn: c.nc, Early: early}, answerTimeout)
	return err
}

// send sends messages in one write, and a close frame behind them if the client leaves.
func (c *client) send(leaves bool, messages ...speaker.Message) error {
	var b []byte
	for _, m := range messages {
		b = frame.AppendMessage(b, m.Opcode, true, m.Payload, true)
	}
	if leaves {
		b = frame.AppendControl(b, frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""), true)
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(answerTimeout))
	_, err := c.nc.Write(b)
	return err
}

// await receives messages until one is this.
func (c *client) await(what string, is func(speaker.Message) bool) error {
	for until := time.Now().Add(answerTimeout); ; {
		m, err := c.Receive(until)
		if err != nil {
			return fmt.Errorf("waiting for the %s: %w", what, err)
		}
		if is(m) {
			return nil
		}
	}
}

// drain receives what is still to come until the server ends the connection, and closes it.
func (c *client) drain() {
	_ = c.nc.SetReadDeadline(time.Now().Add(answerTimeout))
	_, _ = io.Copy(io.Discard, c.nc)
	_ = c.nc.Close()
}
