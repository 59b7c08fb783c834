//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

var profiles = []string{"one-shot", "echo"}

// client is a WebSocket client as an application has it. Text and binary have the numbers of their opcodes.
type client interface {
	write(kind int, message []byte) error
	read() (kind int, message []byte, err error)
	// close does the closing handshake with code 1000, and fails when the server does not answer with the same.
	close() error
}

type coderClient struct {
	ctx context.Context
	c   *websocket.Conn
}

func dialCoder(t testing.TB, url string) client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	t.Cleanup(cancel)
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &coderClient{ctx, c}
}

func (c *coderClient) write(kind int, m []byte) error {
	return c.c.Write(c.ctx, websocket.MessageType(kind), m)
}

func (c *coderClient) read() (int, []byte, error) {
	kind, m, err := c.c.Read(c.ctx)
	return int(kind), m, err
}

func (c *coderClient) close() error { return c.c.Close(websocket.StatusNormalClosure, "") }

type gorillaClient struct{ c *gorilla.Conn }

func dialGorilla(t testing.TB, url string) client {
	t.Helper()
	c, resp, err := gorilla.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	deadline := wstest.Deadline()
	_, _ = c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline)
	t.Cleanup(func() { _ = c.Close() })
	return &gorillaClient{c}
}

func (c *gorillaClient) write(kind int, m []byte) error { return c.c.WriteMessage(kind, m) }

func (c *gorillaClient) read() (int, []byte, error) { return c.c.ReadMessage() }

func (c *gorillaClient) close() error {
	defer c.c.Close() // resets the connection when something was not read
	if err := c.c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, "")); err != nil {
		return err
	}
	_, _, err := c.c.ReadMessage()
	if gorilla.IsCloseError(err, 1000) {
		return nil
	}
	return fmt.Errorf("instead of a close frame: %w", err)
}

var libraries = map[string]func(testing.TB, string) client{"coder": dialCoder, "gorilla": dialGorilla}

// TestRealClients sends messages of all interesting sizes through the proxy with the WebSocket libraries that are used
// most, and closes in order.
func TestRealClients(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20, 8 << 20}
	for _, profile := range profiles {
		for library, dial := range libraries {
			t.Run(profile+"/"+library, func(t *testing.T) {
				t.Parallel()
				sim := startSim(t)
				p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "2")
				c := dial(t, p.url("/"))
				for _, size := range sizes {
					for _, kind := range []int{gorilla.TextMessage, gorilla.BinaryMessage} {
						roundTrip(t, c, kind, content(kind, size))
					}
				}
				if err := c.close(); err != nil {
					t.Errorf("closing: %v", err)
				}
				p.settle()
				if r := p.awaitSession(); r.number("code") != 1000 || r.text("by") != "client" {
					t.Errorf("session: %v", r)
				}
			})
		}
	}
}

// content returns a message of exactly that size: text with characters of one to four bytes, or all kinds of bytes.
func content(kind, size int) []byte {
	if kind == gorilla.BinaryMessage {
		m := make([]byte, size)
		for i := range m {
			m[i] = byte(i*7 + i>>8)
		}
		return m
	}
	const some = "aä€😀 the quick brown fox "
	text := strings.Repeat(some, size/len(some))
	return []byte(text + strings.Repeat("x", size-len(text)))
}

// roundTrip sends a message, and receives its echo meanwhile.
func roundTrip(t *testing.T, c client, kind int, m []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- c.write(kind, m) }()
	gotKind, got, err := c.read()
	if err != nil {
		t.Fatalf("%d bytes: %v", len(m), err)
	}
	if gotKind != kind || !bytes.Equal(got, m) {
		t.Fatalf("%d bytes of kind %d came back as %d of kind %d, or with another content", len(m), kind, len(got), gotKind)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// TestFragments sends a fragmented message with control frames between the fragments: its frames come back as they were,
// and pings are answered.
func TestFragments(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t)
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "1")
			c := dialRaw(t, p.url("/"))
			const euro = "€" // its bytes are spread over the fragments
			fragments := []ws.Frame{
				ws.NewFrame(ws.OpText, false, []byte("price: 5 "+euro[:1])),
				ws.NewFrame(ws.OpContinuation, false, []byte(euro[1:2])),
				ws.NewFrame(ws.OpContinuation, false, nil),
				ws.NewFrame(ws.OpContinuation, true, []byte(euro[2:]+" net")),
			}
			for i, f := range fragments {
				ping := ws.NewPingFrame(fmt.Append(nil, "ping ", i))
				c.send(f)
				c.expect(f)
				c.send(ws.NewPongFrame([]byte("unasked")), ping)
				c.expect(ws.NewPongFrame(ping.Payload))
			}
			// All at once, in one write: the echoes come in order, and the last ping is answered.
			last := []byte("last")
			var all []ws.Frame
			for _, f := range fragments {
				all = append(all, f, ws.NewPingFrame([]byte("not the last")))
			}
			c.send(append(all, ws.NewPingFrame(last))...)
			for next, ponged := 0, false; next < len(fragments) || !ponged; {
				got := c.receive()
				switch {
				case got.Header.OpCode == ws.OpPong:
					ponged = ponged || string(got.Payload) == string(last)
				case next == len(fragments) || got.Header != fragments[next].Header || string(got.Payload) != string(fragments[next].Payload):
					t.Fatalf("got %+v %q behind %d fragments", got.Header, got.Payload, next)
				default:
					next++
				}
			}
			// A frame byte by byte, too.
			for _, b := range masked(ws.NewTextFrame([]byte("slow"))) {
				c.sendRaw([]byte{b})
			}
			c.expect(ws.NewTextFrame([]byte("slow")))
			c.close(1000, "")
			s := p.settle()
			if want := uint64(2*len(fragments) + 1); s.Relayed.FramesFromClients != want || s.Relayed.FramesFromBackends != want {
				t.Errorf("relayed %+v, want %d frames each way", s.Relayed, want)
			}
		})
	}
}

// TestBackendControlFrames has a backend ping between the fragments of a message: the proxy answers, and the client sees
// nothing but data.
func TestBackendControlFrames(t *testing.T) {
	t.Parallel()
	pongs := make(chan string, 10)
	backend := wstest.StartLibraryServer(t, func(c *gorilla.Conn) error {
		c.SetPongHandler(func(text string) error { pongs <- text; return nil })
		for {
			kind, m, err := c.ReadMessage()
			if err != nil {
				return err
			}
			w, err := c.NextWriter(kind)
			if err != nil {
				return err
			}
			for i := range 3 { // larger than the library's buffer, so that fragments are on their way
				if _, err := io.WriteString(w, strings.Repeat(string(m), 6000)); err != nil {
					return err
				}
				if err := c.WriteControl(gorilla.PingMessage, fmt.Append(nil, i), wstest.Deadline()); err != nil {
					return err
				}
			}
			if err := w.Close(); err != nil {
				return err
			}
		}
	})
	p := startReady(t, "--backend", backend.URL, "--connections", "1")
	c := dialGorilla(t, p.url("/"))
	c.(*gorillaClient).c.SetPingHandler(func(string) error { t.Error("the client got the backend's ping"); return nil })
	if err := c.write(gorilla.TextMessage, []byte("z")); err != nil {
		t.Fatal(err)
	}
	if _, m, err := c.read(); err != nil || string(m) != strings.Repeat("z", 18000) {
		t.Fatalf("%d bytes, %v", len(m), err)
	}
	if err := c.close(); err != nil { // the server sees the pongs while it waits for this
		t.Error(err)
	}
	p.settle()
	var got []string
	for len(pongs) > 0 {
		got = append(got, <-pongs)
	}
	// Only the last of several pings needs an answer (RFC 6455, section 5.5.3).
	if len(got) == 0 || got[len(got)-1] != "2" {
		t.Errorf("pongs: %q", got)
	}
}

// TestNothingMixedUp has many clients send messages of their own, all at once, over few servers and over connections
// that others have used before and left in the middle of an exchange.
func TestNothingMixedUp(t *testing.T) {
	t.Parallel()
	clients, messages := 200, 50
	if wstest.Race { // with it everything takes several times as long, and the libraries have limits of their own
		clients = 100
	}
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			one, two := startSim(t), startSim(t) // their logs say why a connection ends, if the test fails
			p := startReady(t, "--backend", one.url, "--backend", two.url, "--profile", profile,
				"--connections", strconv.Itoa(clients/2), "--path", "/v1/echo")
			p.settle()
			for round := range 2 {
				var all sync.WaitGroup
				for i := range clients {
					dial := dialCoder
					if i%2 == 1 {
						dial = dialGorilla
					}
					all.Go(func() { converse(t, dial(t, p.url("/v1/echo")), round*clients+i, messages) })
				}
				all.Wait()
				if t.Failed() {
					return
				}
				p.settle() // in the second round all connections are free again
			}
			s := p.settle()
			if want := uint64(2 * clients); s.Sessions.Total != want || len(s.Sessions.Refused) > 0 {
				t.Errorf("%d sessions, refused %v; want %d and none", s.Sessions.Total, s.Sessions.Refused, want)
			}
			for _, b := range s.Backends {
				if profile == "echo" && b.Totals.Returned == 0 || profile == "one-shot" && b.Totals.Returned > 0 {
					t.Errorf("%s: %d connections were reused", b.URL, b.Totals.Returned)
				}
			}
		})
	}
}

// converse sends messages ahead of their echoes and checks all echoes; every third client leaves before it has them all.
func converse(t *testing.T, c client, number, messages int) {
	sent := make(chan error, 1)
	go func() {
		for i := range messages {
			if err := c.write(gorilla.TextMessage, message(number, i, i*i)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	leaving := number%3 == 0
	for i := range messages {
		if leaving && i == messages/2 {
			break
		}
		_, got, err := c.read()
		if err != nil {
			t.Errorf("client %d, message %d: %v", number, i, err)
			break
		}
		if want := message(number, i, i*i); !bytes.Equal(got, want) {
			t.Errorf("client %d, message %d: got %.60q", number, i, got)
			break
		}
	}
	if err := <-sent; err != nil {
		t.Errorf("client %d: %v", number, err)
	}
	if err := c.close(); err != nil && !leaving {
		t.Errorf("client %d, closing: %v", number, err)
	}
}
