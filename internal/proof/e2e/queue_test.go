//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// waiting is a client in the queue.
type waiting struct {
	t  testing.TB
	nc *net.TCPConn
}

// queue returns the state of the queue.
func (p *proxy) queue() queueStats {
	p.t.Helper()
	return p.stats().Services[0].Queue
}

// enqueue connects a client for whom there is no connection, and returns when it is in the queue.
func (p *proxy) enqueue() *waiting {
	p.t.Helper()
	before := p.queue().Totals.Queued
	nc, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(wstest.Deadline())
	if _, err := nc.Write([]byte(upgrade("/"))); err != nil {
		p.t.Fatal(err)
	}
	wstest.Eventually(p.t, "the client waits", func() bool { return p.queue().Totals.Queued == before+1 })
	return &waiting{p.t, nc.(*net.TCPConn)}
}

// begin waits until the client's session begins.
func (w *waiting) begin() *rawClient {
	w.t.Helper()
	return &rawClient{t: w.t, nc: w.nc, r: readAnswer(w.t, w.nc)}
}

// expectUnavailable waits until the client is told that there is no connection for it.
func (w *waiting) expectUnavailable() {
	w.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(w.nc), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		w.t.Errorf("%s, Retry-After %q; want 503 with it", resp.Status, resp.Header.Get("Retry-After"))
	}
	_ = w.nc.Close()
}

// TestQueue has more clients than connections: they wait, and are served one after the other as sessions end, in the order
// in which they came. One that leaves makes room.
func TestQueue(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t, "--sessions", "2")
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "2", "--queue", "3", "--queue-timeout", "1h")
			p.settle()
			served := []*rawClient{dialRaw(t, p.url("/")), dialRaw(t, p.url("/"))}
			served[0].echo("first")
			served[1].echo("second")
			queue := []*waiting{p.enqueue(), p.enqueue(), p.enqueue()}
			if status, header := httpExchange(t, p.address, upgrade("/")); status != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" {
				t.Errorf("status %d, Retry-After %q with a full queue; want 503 and 1", status, header.Get("Retry-After"))
			}
			if q := p.queue(); q.Limit != 3 || q.Waiting != 3 || q.OldestSeconds <= 0 || q.Totals.Full != 1 {
				t.Errorf("queue: %+v", q)
			}
			if status, body := p.get("/readyz"); status != http.StatusOK { // busy is not broken
				t.Errorf("/readyz: %d %s", status, body)
			}
			_ = queue[1].nc.Close()
			wstest.Eventually(t, "its place is free", func() bool { return p.queue().Waiting == 2 })
			queue = []*waiting{queue[0], queue[2], p.enqueue()}
			for i, w := range queue {
				served[i].close(1000, "")
				c := w.begin()
				c.echo(fmt.Sprint("served at last, as number ", i))
				served = append(served, c)
				if q := p.queue(); q.Waiting != 2-i {
					t.Errorf("%d clients wait; want %d", q.Waiting, 2-i)
				}
			}
			served[3].close(1000, "")
			served[4].close(1000, "")
			p.settle()
			if q := p.queue().Totals; q.Queued != 4 || q.Served != 3 || q.Left != 1 || q.Full != 1 || q.WaitedSeconds <= 0 {
				t.Errorf("queue: %+v", q)
			}
			var ended []record
			wstest.Eventually(t, "all sessions are in the log", func() bool { ended = p.logged("session ended"); return len(ended) == 5 })
			var positions []int
			for _, r := range ended {
				positions = append(positions, r.number("queue_position"))
				if waited, _ := r["waited_seconds"].(float64); waited <= 0 {
					t.Errorf("session: %v", r)
				}
			}
			slices.Sort(positions) // a session is logged when its sockets are closed, which may be later than the next one's
			if got := fmt.Sprint(positions); got != "[0 0 1 3 3]" {
				t.Errorf("positions in the queue: %s", got)
			}
			sim.stopAndCheckPeak(2)
		})
	}
}

// TestQueueTimeout has clients wait without success.
func TestQueueTimeout(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "1", "--queue-timeout", "200ms")
	p.settle()
	holder := dialRaw(t, p.url("/"))
	holder.echo("hello")
	begun := time.Now()
	p.enqueue().expectUnavailable()
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("refused after %v", took)
	}
	if q := p.queue(); q.Waiting != 0 || q.Totals.TimedOut != 1 {
		t.Errorf("queue: %+v", q)
	}
	holder.echo("still here")
	holder.close(1000, "")
	p.settle()
}

// TestQueueWhileDraining ends the proxy while clients wait: they are told so at once, and the session may finish.
func TestQueueWhileDraining(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "1", "--queue-timeout", "1h", "--drain-timeout", "1m")
	p.settle()
	holder := dialRaw(t, p.url("/"))
	holder.echo("hello")
	queue := []*waiting{p.enqueue(), p.enqueue()}
	p.signal(syscall.SIGTERM)
	for _, w := range queue {
		w.expectUnavailable()
	}
	if q := p.queue(); q.Totals.TurnedAway != 2 {
		t.Errorf("queue: %+v", q)
	}
	holder.echo("still here")
	holder.close(1000, "")
	p.wait(0)
}

// TestOnDemand keeps no connection warm: each client's is dialed when it comes.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t, "--sessions", "2")
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "2", "--warm", "0", "--connection-max-idle", "50ms")
			if b := p.stats().Backends[0]; b.Totals.Dialed != 0 {
				t.Errorf("dialed without a client: %+v", b)
			}
			for range 3 {
				one, two := dialRaw(t, p.url("/")), dialRaw(t, p.url("/"))
				one.echo("one")
				two.echo("two")
				third := p.enqueue()
				one.close(1000, "")
				three := third.begin()
				three.echo("three")
				two.close(1000, "")
				three.close(1000, "")
				p.settle() // none is left when no client needs them
			}
			sim.stopAndCheckPeak(2)
		})
	}
}
