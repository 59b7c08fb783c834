package load

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// quick are options for a short load of 40 messages from each of four clients.
func quick(url string) Options {
	return Options{
		URLs: []string{url}, Connections: 4, Rate: 200, Size: 100, Text: true,
		Duration: 200 * time.Millisecond, Drain: 20 * time.Second, Loops: 2,
	}
}

func mustRun(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	return r
}

// What is reported of a server, and passed on, has no secret.
func TestNoSecretIsReported(t *testing.T) {
	var r Result
	r.targets([]string{"ws://a.example/?token=s3cret"})
	if url := r.Targets[0].URL; !strings.HasPrefix(url, "ws://a.example/?token=") || strings.Contains(url, "s3cret") {
		t.Error(url)
	}
}

func TestRunCountsEveryEcho(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"text":        func(*Options) {},
		"binary":      func(o *Options) { o.Text = false },
		"unicode":     func(o *Options) { o.Unicode = true; o.Size = 1001 },
		"smallest":    func(o *Options) { o.Size = MinSize },
		"odd size":    func(o *Options) { o.Size = MinSize + 7 },
		"16 bit size": func(o *Options) { o.Size = 5000 },
		"64 bit size": func(o *Options) { o.Size = 70_000; o.Rate = 50 },
		"ramp":        func(o *Options) { o.Ramp = 20 * time.Millisecond },
		"dials":       func(o *Options) { o.DialParallel = 1 },
		"window":      func(o *Options) { o.Window = 1 },
		"idle":        func(o *Options) { o.Rate = 0 },
		"low rate":    func(o *Options) { o.Rate = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL)
			change(&o)
			r := mustRun(t, o)
			want := int64(o.Rate*o.Duration.Seconds()) * int64(o.Connections)
			if r.Sent != want || r.Received != want || r.Latency.Count() != want {
				t.Errorf("sent %d, received %d, latencies %d; want %d of each", r.Sent, r.Received, r.Latency.Count(), want)
			}
			if r.Connected != o.Connections || r.FirstEcho.Count() != int64(o.Connections) || r.Connect.Count() != int64(o.Connections) {
				t.Errorf("connected %d, first echoes %d, connect times %d", r.Connected, r.FirstEcho.Count(), r.Connect.Count())
			}
			if r.Lost+r.Mixed+r.Failed+r.Unsent != 0 || len(r.Errors) != 0 || r.Err() != nil {
				t.Errorf("trouble: %v, %v", r.Err(), r.Errors)
			}
		})
	}
}

// A server may send fragments, with pings between them, and the network may cut them anywhere.
func TestRunUnderstandsFragmentsAndPings(t *testing.T) {
	s := wstest.StartLibraryServer(t, func(c *websocket.Conn) error {
		pings, pongs := 0, 0
		c.SetPongHandler(func(text string) error {
			if text == "are you there?" {
				pongs++
			}
			return nil
		})
		err := wstest.Answering(func(c *websocket.Conn, _, kind int, message []byte) error {
			var b []byte
			opcode := frame.Opcode(kind)
			for len(message) > 0 {
				n := min(30, len(message))
				b = frame.Append(b, frame.Header{Opcode: opcode}, message[:n])
				b = frame.Append(b, frame.Header{Fin: true, Opcode: frame.Ping}, []byte("are you there?"))
				message, opcode = message[n:], frame.Continuation
				pings++
			}
			b = frame.Append(b, frame.Header{Fin: true, Opcode: opcode}, nil)
			for len(b) > 0 {
				n := min(33, len(b))
				if _, err := c.NetConn().Write(b[:n]); err != nil {
					return err
				}
				b = b[n:]
			}
			return nil
		})(c)
		if pings == 0 || pongs != pings {
			t.Errorf("%d pings, but %d pongs", pings, pongs)
		}
		return err
	})
	r := mustRun(t, quick(s.URL))
	if err := r.Err(); err != nil || r.Received != 160 {
		t.Errorf("received %d, %v, %v", r.Received, err, r.Errors)
	}
}

func TestRunClosesInOrder(t *testing.T) {
	codes := make(chan error, 4)
	s := wstest.StartLibraryServer(t, func(c *websocket.Conn) error {
		err := wstest.LibraryEcho(c)
		codes <- err
		return err
	})
	mustRun(t, quick(s.URL))
	for range 4 {
		if err := <-codes; !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("the server saw %v; want a close with 1000", err)
		}
	}
}

// Latency counts from when a message was due, so that a server that stalls once makes all messages late that were due
// meanwhile, even those that could not be sent before it continued.
func TestRunDoesNotOmitWhatAStallDelays(t *testing.T) {
	const stall = 300 * time.Millisecond
	s := wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
		if number == 20 {
			time.Sleep(stall)
		}
		return c.WriteMessage(kind, message)
	}))
	o := quick(s.URL)
	o.Duration, o.Window = 800*time.Millisecond, 2
	r := mustRun(t, o)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	// 60 of 160 messages were due during the stall.
	if got := r.Latency.Quantile(0.99); got < stall*9/10 {
		t.Errorf("p99 is %s; the server stalled for %s", got, stall)
	}
	if got := r.Latency.Quantile(0.8); got < stall/4 {
		t.Errorf("p80 is %s; a third of the messages was due during a stall of %s", got, stall)
	}
}

// Under a load that is too high, what was due but never sent is said to be that, not lost.
func TestRunTellsUnsentFromLost(t *testing.T) {
	t.Parallel()
	s := wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, _, kind int, message []byte) error {
		time.Sleep(20 * time.Millisecond)
		return c.WriteMessage(kind, message)
	}))
	o := quick(s.URL)
	o.Rate, o.Window, o.Drain = 2000, 3, 4*time.Second
	r := mustRun(t, o)
	due := int64(o.Rate*o.Duration.Seconds()) * int64(o.Connections)
	if err := r.Err(); err != nil || r.Sent != r.Received || r.Sent+r.Unsent != due {
		t.Errorf("%d due, %d sent, %d received, %d unsent, %v", due, r.Sent, r.Received, r.Unsent, err)
	}
	if r.Received == 0 || r.Latency.Max() < o.Duration/2 {
		t.Errorf("%d received, the longest latency is %s", r.Received, r.Latency.Max())
	}
}

// Echoes that arrive after the run has stopped waiting for them are lost, once, and not mixed up.
func TestRunTellsLateFromMixed(t *testing.T) {
	s := wstest.StartLibraryServer(t, func(c *websocket.Conn) error {
		var held [][]byte
		c.SetCloseHandler(func(code int, _ string) error {
			for _, message := range held {
				if err := c.WriteMessage(websocket.TextMessage, message); err != nil {
					return err
				}
			}
			return c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Time{})
		})
		for number := 0; ; number++ {
			kind, message, err := c.ReadMessage()
			if err != nil {
				return nil
			}
			if number > 0 {
				held = append(held, message)
			} else if err := c.WriteMessage(kind, message); err != nil {
				return err
			}
		}
	})
	o := quick(s.URL)
	o.Drain = time.Millisecond
	r := mustRun(t, o)
	if r.Sent == 0 || r.Lost != r.Sent || r.Mixed != 0 || r.Received != 0 {
		t.Errorf("%d sent, %d lost, %d mixed up, %d received: %v", r.Sent, r.Lost, r.Mixed, r.Received, r.Errors)
	}
}

func TestRunGivesUpOnAServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := wstest.StartLibraryServer(t, func(c *websocket.Conn) error {
		if kind, message, err := c.ReadMessage(); err == nil {
			_ = c.WriteMessage(kind, message)
		}
		<-release
		return nil
	})
	defer close(release)
	o := quick(s.URL)
	o.Connections, o.Size, o.Rate, o.Drain = 1, 1<<20, 200, 300*time.Millisecond
	start := time.Now()
	r := mustRun(t, o)
	if r.Unsent == 0 || r.Lost == 0 || r.Received != 0 || r.Err() == nil {
		t.Errorf("unsent %d, lost %d, received %d, error %v", r.Unsent, r.Lost, r.Received, r.Err())
	}
	if took := time.Since(start); took > o.Duration+o.Drain+closeTimeout+20*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestRunCountsConnectFailures(t *testing.T) {
	refused := "ws://" + wstest.FreeAddress(t)
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "full", http.StatusServiceUnavailable)
	}))
	defer full.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct{ url, kind string }{
		{refused, "connect: refused"},
		{"ws" + strings.TrimPrefix(full.URL, "http"), "connect: HTTP 503"},
		{"ws://" + silent.Addr().String(), "connect: timeout"},
	} {
		o := quick(c.url)
		if c.kind == "connect: timeout" {
			o.ConnectTimeout = 100 * time.Millisecond
		}
		r := mustRun(t, o)
		if r.Connected != 0 || r.ConnectFailures != 4 || r.Errors[c.kind] != 4 || r.Err() == nil {
			t.Errorf("%s: connected %d, failures %d, %v, %v", c.kind, r.Connected, r.ConnectFailures, r.Errors, r.Err())
		}
	}
}

// One server of two refuses, which is no reason not to measure the other.
func TestRunSpreadsClientsOverURLs(t *testing.T) {
	full := httptest.NewServer(http.NotFoundHandler())
	defer full.Close()
	o := quick(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL)
	o.URLs = append(o.URLs, "ws"+strings.TrimPrefix(full.URL, "http"))
	r := mustRun(t, o)
	if r.Connected != 2 || r.ConnectFailures != 2 || r.Errors["connect: HTTP 404"] != 2 || r.Received != 80 || r.Err() != nil {
		t.Errorf("connected %d, failures %d, received %d, %v, %v", r.Connected, r.ConnectFailures, r.Received, r.Errors, r.Err())
	}
}

func TestRunEndsEarlyWhenCancelled(t *testing.T) {
	s := wstest.StartLibraryServer(t, wstest.LibraryEcho)
	o := quick(s.URL)
	o.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.ProgressInterval = 10 * time.Millisecond
	var phases []Phase
	r, err := Run(ctx, o, func(p Progress) {
		if p.Begins {
			phases = append(phases, p.Phase)
		}
		if p.Phase == Steady && p.Received > 10 {
			cancel()
		}
	})
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if r.Received < 10 || r.Received != r.Sent || r.Duration > time.Minute {
		t.Errorf("sent %d, received %d in %s", r.Sent, r.Received, r.Duration)
	}
	if len(phases) != 4 || phases[0] != Connecting || phases[1] != Steady || phases[2] != Draining || phases[3] != Done {
		t.Errorf("phases %v", phases)
	}
}

func TestRunEndsEarlyWhenCancelledWhileConnecting(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	o := quick("ws://" + silent.Addr().String())
	o.ConnectTimeout = time.Hour
	r, err := Run(ctx, o, func(Progress) { cancel() })
	if err != nil || r.Connected != 0 || r.ConnectFailures != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}
