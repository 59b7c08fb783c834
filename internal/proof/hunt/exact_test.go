package hunt

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// exact are the protocols whose results can be counted.
func exact(t *testing.T) (all []*Dialogue) {
	t.Helper()
	for _, name := range Dialogues() {
		d, err := DialogueNamed(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if d.Final != nil {
			all = append(all, d)
		}
	}
	return all
}

// copying runs a simulated server, and a relay with a connection to it for each client, for the time of the test. Of each message
// of the server it passes on as many copies as it is told.
func copying(t *testing.T, protocol string, copies func(Message) int) (url string) {
	t.Helper()
	server := serve(t, protocol, sim.NastyOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tasks.Add(1)
		defer tasks.Done()
		client, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			return
		}
		defer client.CloseNow()
		conn, _, err := websocket.Dial(ctx, server.URL()+r.URL.RequestURI(), &websocket.DialOptions{
			Subprotocols: r.Header.Values("Sec-WebSocket-Protocol"),
		})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		tasks.Go(func() {
			for {
				kind, message, err := client.Read(ctx)
				if err != nil {
					_ = conn.Close(websocket.StatusNormalClosure, "")
					return
				}
				_ = conn.Write(ctx, kind, message)
			}
		})
		for {
			kind, message, err := conn.Read(ctx)
			if err != nil {
				_ = client.Close(websocket.StatusNormalClosure, "")
				return
			}
			for range copies(Message{Opcode: frame.Opcode(kind), Payload: message}) {
				_ = client.Write(ctx, kind, message)
			}
		}
	}))
	t.Cleanup(func() {
		cancel()
		front.CloseClientConnections()
		front.Close()
		tasks.Wait()
	})
	return strings.Replace(front.URL, "http", "ws", 1)
}

// Results that arrive twice, or not at all, are counted, and their sessions have not succeeded.
func TestExact(t *testing.T) {
	for _, d := range exact(t) {
		t.Run(d.Name, func(t *testing.T) {
			hold := func(every int64, instead int) (Report, int) {
				var finals, bad atomic.Int64
				url := copying(t, d.Name, func(m Message) int {
					if d.Final(m) != nil && every > 0 && finals.Add(1)%every == 0 {
						return instead
					}
					return 1
				})
				timeout := 10 * time.Second
				if instead == 0 {
					timeout = shortTimeout // for an answer that does not come
				}
				report := run(t, Options{
					URL: url, Protocol: d.Name, Sessions: 60, Seed: 3, Exact: true, Manners: Manners{CleanEnd: 1}, Concurrency: 4,
					Timeout: timeout,
					Outcome: func(o Outcome) {
						if !o.Succeeded() && strings.Contains(o.Trace(), "manner clean-end") {
							bad.Add(1)
						}
					},
				})
				return report, int(bad.Load())
			}
			if r, bad := hold(0, 1); r.Lost+r.Twice+bad > 0 || r.Completed != r.Sessions {
				t.Errorf("passing all on: %d bad sessions: %s", bad, r.String())
			}
			if r, bad := hold(7, 2); r.Twice == 0 || r.Lost > 0 && !d.Lockstep() || bad == 0 { // in lockstep the client leaves one result too early
				t.Errorf("passing each seventh final result on twice: %d bad sessions: %s", bad, r.String())
			}
			if r, bad := hold(7, 0); r.Lost+r.Failed() == 0 || r.Twice > 0 || bad == 0 {
				t.Errorf("keeping each seventh final result back: %d bad sessions: %s", bad, r.String())
			}
		})
	}
}

func TestTally(t *testing.T) {
	words := func(d *Dialogue, results ...string) tally {
		var got tally
		for _, r := range results {
			got.take(d, 9, text(`{"text" : "%s"}`, r))
		}
		return got
	}
	plain := &Dialogue{Final: from(`"text" : `, "")}
	overlapping := &Dialogue{Final: plain.Final, Overlap: 1}
	for _, test := range []struct {
		dialogue    *Dialogue
		results     string
		lost, twice int
	}{
		{plain, "s9:1-2|s9:3", 0, 0},
		{plain, "s9:1-2 s9:0|s9:3-4 s9:0", 0, 0},
		{plain, "s9:1-2|s9:1-2|s9:3", 0, 2},
		{plain, "s9:1-2|s9:2-3", 0, 1},
		{plain, "s9:1-2|s9:5", 2, 0},
		{plain, "s9:2", 1, 0},
		{plain, "s9:1 s7:1-9|s9:2", 0, 0}, // foreign results are counted elsewhere
		{overlapping, "s9:1-2|s9:2-3|s9:3-5", 0, 0},
		{overlapping, "s9:1-2|s9:1-3", 0, 1},
		{overlapping, "s9:1-2|s9:2", 0, 1},
	} {
		if got := words(test.dialogue, strings.Split(test.results, "|")...); got.lost != test.lost || got.twice != test.twice {
			t.Errorf("%s: lost %d, twice %d; want %d and %d", test.results, got.lost, got.twice, test.lost, test.twice)
		}
	}
}

// When told to finish, a hunt begins no new session, and those under way run to their end.
func TestFinish(t *testing.T) {
	s := serve(t, sim.Vosk, sim.NastyOptions{})
	finish := make(chan struct{})
	var once sync.Once
	var ended atomic.Int64
	report := run(t, Options{
		URL: s.URL(), Protocol: sim.Vosk, Sessions: 1 << 30, Concurrency: 8, Finish: finish, Manners: Manners{CleanEnd: 1},
		Pace: time.Millisecond, Exact: true,
		Outcome: func(o Outcome) {
			ended.Add(1)
			once.Do(func() { close(finish) })
		},
	})
	if report.Completed != report.Sessions || int(ended.Load()) != report.Sessions || report.Sessions > 16 {
		t.Errorf("%d sessions told of: %s", ended.Load(), report.String())
	}
}
