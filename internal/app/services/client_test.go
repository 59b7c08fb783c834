package services

import (
	"errors"
	"net/http"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// client is a client of the proxy.
type client struct {
	*rig
	*websocket.Conn
}

// ask tries to begin a session, and returns the HTTP status if the proxy does not want it.
func (r *rig) ask(path, host string, fields ...string) (*client, int) {
	r.t.Helper()
	header := http.Header{}
	if host != "" {
		header.Set("Host", host)
	}
	for i := 0; i < len(fields); i += 2 {
		header.Set(fields[i], fields[i+1])
	}
	dialer := websocket.Dialer{HandshakeTimeout: wstest.Timeout}
	conn, response, err := dialer.Dial("ws://"+r.address+path, header)
	if errors.Is(err, websocket.ErrBadHandshake) {
		return nil, response.StatusCode
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(wstest.Deadline())
	return &client{r, conn}, http.StatusSwitchingProtocols
}

// join begins a session.
func (r *rig) join(path string) *client {
	r.t.Helper()
	c, status := r.ask(path, "")
	if c == nil {
		r.t.Fatalf("%s: status %d", path, status)
	}
	return c
}

// echo sends a text, which must come back.
func (c *client) echo(text string) {
	c.t.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
	if _, got, err := c.ReadMessage(); err != nil || string(got) != text {
		c.t.Fatalf("got %q, %v; want %q", got, err, text)
	}
}

// leave ends the session in order.
func (c *client) leave() {
	c.t.Helper()
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if err := c.WriteControl(websocket.CloseMessage, bye, wstest.Deadline()); err != nil {
		c.t.Fatal(err)
	}
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		c.t.Fatalf("left, and got %v", err)
	}
	_ = c.Close()
}

// waiting begins to wait for a session in the queue of a service, and returns what comes of it.
func (r *rig) waiting(service string) (answer <-chan int) {
	r.t.Helper()
	queued := func() (n uint64) {
		for _, s := range r.stats().Services {
			if s.Name == service {
				n = s.Queue.Totals.Queued
			}
		}
		return n
	}
	before := queued()
	answers := make(chan int, 1)
	go func() {
		dialer := websocket.Dialer{HandshakeTimeout: wstest.Timeout}
		conn, response, err := dialer.Dial("ws://"+r.address+"/"+service, nil)
		switch {
		case err == nil:
			_ = conn.Close()
			answers <- http.StatusSwitchingProtocols
		case errors.Is(err, websocket.ErrBadHandshake):
			answers <- response.StatusCode
		default:
			answers <- 0
		}
	}()
	wstest.Eventually(r.t, "the client waits", func() bool { return queued() == before+1 })
	return answers
}
