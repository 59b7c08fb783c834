package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// TakeOver asks the proxy at a unix socket for a connection on which its successor talks to it (internal/fleet/takeover). It returns an
// [*UnreachableError] if nothing answers there, and an [*Error] if the proxy refuses.
func (c *Client) TakeOver(ctx context.Context) (*net.UnixConn, error) {
	if c.target.socket == "" {
		return nil, fmt.Errorf("the address %s is no unix socket: a take-over needs the admin socket of the running proxy", c.address)
	}
	nc, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", c.target.socket)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	conn := nc.(*net.UnixConn)
	_ = conn.SetDeadline(time.Now().Add(Timeout))
	response, body, err := c.askTakeOver(conn)
	switch {
	case err != nil:
		err = c.unanswered(ctx, err)
	case response.StatusCode != http.StatusSwitchingProtocols:
		err = c.refused(response, body)
	default:
		_ = conn.SetDeadline(time.Time{})
		return conn, nil
	}
	_ = conn.Close()
	return nil, err
}

// askTakeOver sends the request and reads the answer, and not a byte more: what follows it may have descriptors.
func (c *Client) askTakeOver(conn net.Conn) (*http.Response, []byte, error) {
	request, err := http.NewRequest(http.MethodPost, c.target.base+api.TakeOverPath, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", api.TakeOverProtocol)
	request.Header.Set(api.ChangeHeader, "1")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if err := request.Write(conn); err != nil {
		return nil, nil, err
	}
	// The proxy says nothing after its 101 before it is asked.
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it closed the connection")
		}
		return nil, nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response, nil, nil
	}
	var body bytes.Buffer
	_, err = io.Copy(&body, io.LimitReader(response.Body, maxAnswer))
	_ = response.Body.Close()
	return response, body.Bytes(), err
}
