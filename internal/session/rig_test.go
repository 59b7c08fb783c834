package session

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// rig is a proxy between clients and a server that the test plays. Unless the test asks for more, there is one connection
// to the server, so that the test knows which one a client gets.
type rig struct {
	t       testing.TB
	script  *script
	loops   *loop.Group
	backend *backend.Backend
	server  *Server
	address string
	log     *capture
}

// setup is what a test wants to be different.
type setup struct {
	profile string // default one-shot
	cap     int    // default 1, all of them warm
	loops   int    // default 1
	script  *script
	options func(*Options)
	backend func(*backend.Options)
}

func newRig(t testing.TB, o setup) *rig {
	t.Helper()
	if o.script == nil {
		o.script = new(script)
	}
	r := &rig{t: t, script: o.script, log: &capture{lines: make(chan logged, 4096)}}
	r.script.t = t
	r.script.start()
	var err error
	// The governor would have nothing to decide, and its looks allocate.
	loops := loop.Options{Min: max(o.loops, 1), Max: max(o.loops, 1), Interval: time.Hour}
	if r.loops, err = loop.NewGroup(loops); err != nil {
		t.Fatal(err)
	}
	log := slog.New(r.log)
	p, err := profile.Named(or(o.profile, "one-shot"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget(r.script.url())
	if err != nil {
		t.Fatal(err)
	}
	target.Protocol = r.script.protocol
	backendOptions := backend.Options{
		Target: target, Profile: p, Cap: max(o.cap, 1), Warm: max(o.cap, 1), Loops: r.loops, Log: log,
		ResetTimeout: testTimeout, CloseTimeout: testTimeout,
	}
	if o.backend != nil {
		o.backend(&backendOptions)
	}
	r.backend = backend.New(backendOptions)
	options := Options{
		Services: []*Service{{Name: "test", Path: "/v1/test", Backends: []*backend.Backend{r.backend}}},
		Loops:    r.loops, MaxMessage: 64 << 20, MaxHead: 4 << 10, HandshakeTimeout: testTimeout,
		CloseTimeout: testTimeout, Log: log,
	}
	if o.options != nil {
		o.options(&options)
	}
	r.server = NewServer(options)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	r.server.Serve(listener)
	t.Cleanup(r.close)
	return r
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// close takes the proxy down, after the test's clients, and checks that every lease has ended in one of the two ways.
func (r *rig) close() {
	r.server.StopAccepting()
	r.server.Close()
	eventually(r.t, "all sessions end", func() bool {
		r.server.EndAll(frame.GoingAway, "test over")
		return r.server.Active() == 0
	})
	r.script.close()
	eventually(r.t, "all leases end", func() bool {
		s := r.backend.Stats()
		return s.Leased == 0 && s.Resetting == 0
	})
	if s := r.backend.Stats(); s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded {
		r.t.Errorf("the books do not balance: %+v", s.Totals)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	r.backend.Close(ctx)
	if s := r.backend.Stats(); s.Used() != 0 {
		r.t.Errorf("connections are left after Close: %+v", s)
	}
	for i := range r.server.shards {
		if n := len(r.server.shards[i].sessions); n != 0 {
			r.t.Errorf("%d sessions are left on loop %d", n, i)
		}
	}
	r.loops.Close()
}

// upgradeRequest is what a proper client sends; further header lines go in between.
func upgradeRequest(path string, header ...string) string {
	text := "GET " + path + " HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for _, line := range header {
		text += line + "\r\n"
	}
	return text + "\r\n"
}

// connect connects and sends some bytes.
func (r *rig) connect(bytes string) *peer {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = nc.Close() })
	p := newPeer(r.t, nc, bufio.NewReaderSize(nc, 64<<10), false)
	p.write([]byte(bytes))
	return p
}

// request connects, sends some bytes and reads the head of the HTTP answer.
func (r *rig) request(bytes string) (*peer, *http.Response) {
	r.t.Helper()
	p := r.connect(bytes)
	response, err := http.ReadResponse(p.in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, response
}

// join begins a session when a connection is idle, with further lines in the header.
func (r *rig) join(header ...string) *peer {
	r.t.Helper()
	r.ready(1)
	p, response := r.request(upgradeRequest("/v1/test", header...))
	if response.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("got %s", response.Status)
	}
	return p
}

// ready waits until so many connections are idle.
func (r *rig) ready(n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d connections are idle", n), func() bool { return r.backend.Stats().Idle >= n })
}

// accepted returns the server's side of the next connection that the proxy made.
func (r *rig) accepted() *peer {
	r.t.Helper()
	select {
	case p := <-r.script.accepted:
		return p
	case <-time.After(testTimeout):
		r.t.Fatal("no connection to the server")
		return nil
	}
}

// session begins a session and returns both ends, of a rig with one connection that was not used before.
func (r *rig) session(header ...string) (client, server *peer) {
	r.t.Helper()
	client = r.join(header...)
	return client, r.accepted()
}

// on calls f with the only session there is, on its loop.
func (r *rig) on(f func(*Session)) {
	r.t.Helper()
	eventually(r.t, "there is a session", func() bool {
		found := false
		for i, l := range r.loops.Loops() {
			l.Call(func() {
				for s := range r.server.shards[i].sessions {
					if !found {
						found = true
						f(s)
					}
				}
			})
		}
		return found
	})
}

// fate is how a session ended, according to its record.
type fate struct {
	by         string
	code       frame.CloseCode
	reason     string
	connection string
}

// record waits for the record of the next session that ends.
func (r *rig) record() map[string]slog.Value {
	r.t.Helper()
	for {
		select {
		case line := <-r.log.lines:
			if line.message == "session ended" {
				return line.attrs
			}
		case <-time.After(testTimeout):
			r.t.Fatal("no session ended")
		}
	}
}

// expectRecord waits for the record of the next session that ends, and checks how it did.
func (r *rig) expectRecord(want fate) {
	r.t.Helper()
	a := r.record()
	got := fate{a["by"].String(), frame.CloseCode(a["code"].Int64()), a["reason"].String(), a["connection"].String()}
	if got != want {
		r.t.Errorf("session ended with %+v; want %+v", got, want)
	}
}

// logged is a line of the log.
type logged struct {
	level   slog.Level
	message string
	attrs   map[string]slog.Value
}

// capture keeps the log.
type capture struct{ lines chan logged }

func (c *capture) Enabled(context.Context, slog.Level) bool { return true }
func (c *capture) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *capture) WithGroup(string) slog.Handler            { return c }

func (c *capture) Handle(_ context.Context, r slog.Record) error {
	line := logged{r.Level, r.Message, make(map[string]slog.Value)}
	r.Attrs(func(a slog.Attr) bool { line.attrs[a.Key] = a.Value; return true })
	select {
	case c.lines <- line:
	default: // a test that makes so many does not read them
	}
	return nil
}
