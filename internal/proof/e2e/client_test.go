//go:build unix

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"

	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// rawClient is a client that speaks in frames.
type rawClient struct {
	t  testing.TB
	nc *net.TCPConn
	r  *bufio.Reader
}

// tryRaw connects, and returns the error when the server does not upgrade.
func tryRaw(t testing.TB, url string) (*rawClient, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	nc, early, _, err := ws.Dial(ctx, url)
	if err != nil {
		return nil, err
	}
	c := &rawClient{t: t, nc: nc.(*net.TCPConn), r: bufio.NewReader(nc)}
	if early != nil {
		c.r = early
	}
	_ = nc.SetDeadline(wstest.Deadline())
	t.Cleanup(func() { _ = nc.Close() })
	return c, nil
}

// dialRaw connects for the time of the test.
func dialRaw(t testing.TB, url string) *rawClient {
	t.Helper()
	c, err := tryRaw(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dialFree connects as soon as there is a free connection.
func dialFree(t testing.TB, url string) *rawClient {
	t.Helper()
	var c *rawClient
	wstest.Eventually(t, "a connection comes free", func() bool {
		var err error
		c, err = tryRaw(t, url)
		if err != nil && refusedWith(err) != http.StatusServiceUnavailable {
			t.Fatal(err)
		}
		return err == nil
	})
	return c
}

// refusedWith returns the HTTP status that a dial was refused with.
func refusedWith(err error) int {
	status, _ := errors.AsType[ws.StatusError](err)
	return int(status)
}

// send sends frames.
func (c *rawClient) send(frames ...ws.Frame) {
	c.t.Helper()
	if err := c.trySend(frames...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) trySend(frames ...ws.Frame) error {
	var wire []byte
	for _, f := range frames {
		wire = append(wire, masked(f)...)
	}
	_, err := c.nc.Write(wire)
	return err
}

// masked returns a client's frame as it is on the wire.
func masked(f ws.Frame) []byte { return ws.MustCompileFrame(ws.MaskFrame(f)) }

// sendRaw sends bytes as they are.
func (c *rawClient) sendRaw(wire []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(wire); err != nil {
		c.t.Fatal(err)
	}
}

// receive receives a frame.
func (c *rawClient) receive() ws.Frame {
	c.t.Helper()
	f, err := c.tryReceive()
	if err != nil {
		c.t.Fatalf("receiving a frame: %v", err)
	}
	return f
}

func (c *rawClient) tryReceive() (ws.Frame, error) {
	h, err := ws.ReadHeader(c.r)
	if err != nil {
		return ws.Frame{}, err
	}
	if h.Length > 16<<20 {
		return ws.Frame{}, fmt.Errorf("a frame of %d bytes, which was never sent", h.Length)
	}
	f := ws.Frame{Header: h, Payload: make([]byte, h.Length)}
	_, err = io.ReadFull(c.r, f.Payload)
	return f, err
}

// expect receives a frame that must be this one.
func (c *rawClient) expect(want ws.Frame) {
	c.t.Helper()
	got := c.receive()
	if got.Header != want.Header || string(got.Payload) != string(want.Payload) {
		c.t.Fatalf("received %+v %.40q; want %+v %.40q", got.Header, got.Payload, want.Header, want.Payload)
	}
}

// echo sends a message and receives its echo.
func (c *rawClient) echo(text string) {
	c.t.Helper()
	c.send(ws.NewTextFrame([]byte(text)))
	c.expect(ws.NewTextFrame([]byte(text)))
}

// expectClose receives what still comes up to a close frame, which must have this code and reason, and the end of the
// stream after it.
func (c *rawClient) expectClose(code int, reason string) {
	c.t.Helper()
	if got := c.expectCode(code); got != reason {
		c.t.Errorf("closed with the reason %q, want %q", got, reason)
	}
}

// expectCode is expectClose with any reason, which it returns. The close frame is answered, as it should be.
func (c *rawClient) expectCode(code int) (reason string) {
	c.t.Helper()
	for {
		f, err := c.tryReceive()
		if err != nil {
			c.t.Fatalf("no close frame with code %d: %v", code, err)
		}
		if f.Header.OpCode != ws.OpClose {
			continue
		}
		got, reason := ws.ParseCloseFrameData(f.Payload)
		if int(got) != code {
			c.t.Errorf("closed with %d %q, want %d", got, reason, code)
		}
		_ = c.trySend(ws.NewCloseFrame(f.Payload)) // it may be over already, when it was an answer to ours
		c.expectEnd()
		_ = c.nc.Close()
		return reason
	}
}

// expectEnd waits for the end of the stream, and checks that nothing comes before it.
func (c *rawClient) expectEnd() {
	c.t.Helper()
	n, err := io.Copy(io.Discard, c.r)
	if n > 0 || isTimeout(err) {
		c.t.Errorf("%d bytes instead of the end of the stream: %v", n, err)
	}
}

func isTimeout(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

// close closes the session in order.
func (c *rawClient) close(code int, reason string) {
	c.t.Helper()
	c.send(closeFrame(code, reason))
	c.expectClose(code, reason)
}

func closeFrame(code int, reason string) ws.Frame {
	return ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusCode(code), reason))
}

// reset ends the connection with TCP's RST.
func (c *rawClient) reset() {
	c.t.Helper()
	if err := errors.Join(c.nc.SetLinger(0), c.nc.Close()); err != nil {
		c.t.Fatal(err)
	}
}

// message returns a message that tells which it is, of the given size if that is larger.
func message(client, number, size int) []byte {
	m := fmt.Appendf(nil, "client %d, message %d: ", client, number)
	random := rand.New(rand.NewPCG(uint64(client), uint64(number)))
	for len(m) < size {
		m = append(m, byte(' '+random.IntN('~'-' ')))
	}
	return m
}

// httpExchange sends bytes and returns the status and header of the HTTP answer; status 0 means that there was none.
func httpExchange(t testing.TB, address, request string) (int, http.Header) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(wstest.Deadline())
	if _, err := io.WriteString(nc, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if isTimeout(err) {
		t.Fatal("neither an answer nor the end of the connection")
	}
	if err != nil {
		return 0, nil
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.Close { // the library takes the line out
		resp.Header.Set("Connection", "close")
	}
	return resp.StatusCode, resp.Header
}

// readAnswer reads the answer to an upgrade request, which must be 101, and returns what follows it.
func readAnswer(t testing.TB, nc net.Conn) *bufio.Reader {
	t.Helper()
	r := bufio.NewReader(nc)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", resp.StatusCode)
	}
	return r
}
