package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// queueRig is a gate and a backend with one connection, which the test leases.
type queueRig struct {
	t       *testing.T
	gate    *Gate
	group   *pool.Group[*backend.Conn]
	backend *backend.Backend
	service *route.Service
}

// noWaiting has no sessions, and forgets who waits for one.
type noWaiting struct{ Sessions }

func (noWaiting) AddWaiting(*record.Waiting)    {}
func (noWaiting) RemoveWaiting(uint64)          {}
func (noWaiting) AllWaiting() []*record.Waiting { return nil }

func newQueueRig(t *testing.T, name string, timeout time.Duration) *queueRig {
	t.Helper()
	script := new(wstest.Server)
	script.Listen(t, false)
	script.Start()
	loops, err := loop.NewGroup(loop.Options{Min: 1, Max: 1, IOURing: loop.IOURingAuto, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loops.Close)
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	group := pool.NewGroup[*backend.Conn](pool.Options{Queue: 1})
	r := &queueRig{t: t, group: group, gate: New(record.Shared{Log: log}, Options{}, noWaiting{})}
	r.service = &route.Service{Name: "test", Group: group, Profile: p, QueueTimeout: timeout, Variants: new(backend.Variants), CloseTimeout: wstest.Timeout}
	meters := meter.NewRegistry(1)
	held := meters.Backend("test", script.Target().URL)
	r.backend = backend.New(backend.Options{
		Target: script.Target(), Profile: p, Variants: r.service.Variants, Peers: new(backend.Peers), Group: group, Loops: loops, Meter: held, Log: log,
		Settings: pool.Settings{Cap: 1, Warm: 1, Weight: 1}, CloseTimeout: wstest.Timeout, MaxIdle: time.Hour,
	})
	t.Cleanup(func() {
		r.gate.StopAccepting()
		r.gate.Close()
		script.HangUpAll()
		defer script.Close() // after the backend, which may dial it until it is closed
		ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
		defer cancel()
		r.backend.Close(ctx)
		held.Release()
	})
	return r
}

// ready waits until the connection is idle.
func (r *queueRig) ready() {
	r.t.Helper()
	wstest.Eventually(r.t, "the connection is idle", func() bool { return r.backend.Stats().Idle == 1 })
}

// hooked is a client's connection that tells when the proxy is about to wait with it: then it takes away the deadline of
// the handshake.
type hooked struct {
	net.Conn
	waits func()
}

func (h hooked) SetDeadline(t time.Time) error {
	h.waits()
	return h.Conn.SetDeadline(t)
}

// acquire leases a connection for a client that has sent its request, as the server does. meanwhile is called when the
// client is in the queue.
func (r *queueRig) acquire(nc net.Conn, request *handshake.Request, at time.Time, meanwhile func()) (*backend.Conn, error) {
	return r.gate.acquire(r.service, hooked{nc, meanwhile}, request, &arrival{Client: record.Client{Arrived: at}, opening: &opening{set: &r.gate.openings}})
}

// A connection that is handed over at the moment in which its client is seen to leave, or in which the proxy begins to
// drain, goes back unused, even if it is good for one session only. One whose time is up at that moment gets it all the
// same, if it is still there.
func TestHandedOverAtTheLastMoment(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		then    func(r *queueRig, client net.Conn)
		leased  string
	}{
		{"the client leaves", time.Hour, func(_ *queueRig, client net.Conn) { _ = client.Close() }, "no"},
		{"the proxy drains", time.Hour, func(r *queueRig, _ net.Conn) { r.gate.drain() }, "perhaps"},
		{"its time is up", 0, func(*queueRig, net.Conn) {}, "yes"},
		{"its time is up, and it leaves", 0, func(_ *queueRig, client net.Conn) { _ = client.Close() }, "no"},
	} {
		for _, profile := range []string{"one-shot", "echo"} {
			t.Run(c.name+", "+profile, func(t *testing.T) {
				for range 10 { // what is seen first is chance
					r := newQueueRig(t, profile, c.timeout)
					held := r.hold()
					client, nc := net.Pipe()
					conn, err := r.acquire(nc, new(handshake.Request), time.Now(), func() {
						c.then(r, client)
						r.handOver(held)
					})
					if leased := err == nil; c.leased != "perhaps" && leased != (c.leased == "yes") {
						t.Fatalf("leased: %v, %v; want %s", leased, err, c.leased)
					}
					if err == nil {
						conn.ReturnUnused()
					}
					_, _ = nc.Close(), client.Close()
					r.ready()
					if s := r.backend.Stats().Totals; s.Dialed != 1 || s.Leased != 2 || s.Returned != 2 {
						t.Errorf("totals: %+v; want one connection, given back twice", s)
					}
					if c.leased != "perhaps" { // it still serves
						r.hold().ReturnUnused()
					}
				}
			})
		}
	}
}

// The time that a client takes for its request is not taken from its time in the queue.
func TestPatienceBeginsInQueue(t *testing.T) {
	r := newQueueRig(t, "one-shot", time.Hour)
	held := r.hold()
	client, nc := net.Pipe()
	defer client.Close()
	defer nc.Close()
	conn, err := r.acquire(nc, new(handshake.Request), time.Now().Add(-2*r.service.QueueTimeout), func() { r.handOver(held) })
	if err != nil {
		t.Fatal(err)
	}
	conn.ReturnUnused()
}

// hold leases the only connection.
func (r *queueRig) hold() *backend.Conn {
	r.t.Helper()
	r.ready()
	conn, ok, err := r.group.Acquire(&pool.Waiter[*backend.Conn]{})
	if !ok || err != nil {
		r.t.Fatalf("not leased: %v", err)
	}
	return conn
}

// handOver ends the lease of hold, so that the connection is handed to the client that waits.
func (r *queueRig) handOver(conn *backend.Conn) {
	r.t.Helper()
	served := r.group.Queue().Totals.Served
	conn.ReturnUnused()
	wstest.Eventually(r.t, "the connection is handed over", func() bool { return r.group.Queue().Totals.Served == served+1 })
}

// The proxy reads what a waiting client sends, to see whether it leaves, but no more than it may keep; the rest stays where
// it is. What was read is the beginning of the frames.
func TestWaitingClientIsReadToALimit(t *testing.T) {
	const piece = 512
	request := []byte("behind the request")
	for _, size := range []int{0, piece, maxEarly - piece, maxEarly, maxEarly + piece, 4 * maxEarly} {
		r := newQueueRig(t, "one-shot", time.Hour)
		held := r.hold()
		client, nc := net.Pipe() // what is written is what is read
		data, limit := wstest.Noise(1, size), min(size, maxEarly)
		enough, written := make(chan struct{}), make(chan int, 1)
		go func() {
			n := 0
			for n < size {
				if n == limit {
					close(enough)
				}
				if _, err := client.Write(data[n : n+piece]); err != nil {
					break
				}
				n += piece
			}
			if n == limit {
				close(enough)
			}
			written <- n
		}()
		req := &handshake.Request{Early: bytes.Clone(request)}
		conn, err := r.acquire(nc, req, time.Now(), func() {
			go func() {
				<-enough
				held.ReturnUnused()
			}()
		})
		if err != nil {
			t.Fatal(err)
		}
		conn.ReturnUnused()
		if want := slices.Concat(request, data[:limit]); !bytes.Equal(req.Early, want) {
			t.Errorf("%d bytes of %d were read; want the first %d", len(req.Early)-len(request), size, limit)
		}
		rest := make([]byte, size-limit)
		if _, err := io.ReadFull(nc, rest); err != nil || !bytes.Equal(rest, data[limit:]) {
			t.Errorf("not left of %d bytes were the %d last: %v", size, len(rest), err)
		}
		if n := <-written; n != size {
			t.Errorf("%d of %d bytes were written", n, size)
		}
		_, _ = nc.Close(), client.Close()
	}
}

// What records hold, and messages that tell of new keys (RFC 8446, sections 5.1 and 4.6.3).
const (
	handshakeRecord, dataRecord = 22, 23
	updated, update             = "\x18\x00\x00\x01\x00", "\x18\x00\x00\x01\x01" // the latter wants an answer
)

// rawClient returns the proxy's side of a TLS connection, and a client that speaks records itself.
func rawClient(t *testing.T, authority *securetest.Authority, certificate tls.Certificate, now time.Time) (nc net.Conn, far net.Conn, ours, theirs *securetest.Keys) {
	t.Helper()
	var log bytes.Buffer
	far, near := net.Pipe()
	t.Cleanup(func() { _, _ = far.Close(), near.Close() })
	server := secure.Server(near, &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true}, nil)
	client := tls.Client(far, &tls.Config{RootCAs: authority.Pool(), ServerName: "proxy.example", Time: func() time.Time { return now }, KeyLogWriter: &log})
	failed := make(chan error, 1)
	go func() { failed <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if suite := client.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("without AES in hardware, %s is used", tls.CipherSuiteName(suite))
	}
	return server, far, securetest.NewKeys(t, securetest.SecretOf(t, log.String(), "CLIENT_TRAFFIC_SECRET_0")),
		securetest.NewKeys(t, securetest.SecretOf(t, log.String(), "SERVER_TRAFFIC_SECRET_0"))
}

// A client in the queue that asks for new keys without end, and takes no answer or few, keeps no goroutine and no server.
func TestKeyUpdateFloodInQueue(t *testing.T) {
	authority := securetest.NewAuthority(t)
	certificate, now := authority.Issue(nil, "proxy.example"), time.Now() // the clock in the bubble is many years late
	for name, pause := range map[string]time.Duration{"it reads nothing": 0, "it reads an answer now and then": tellTimeout * 9 / 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, far, ours, _ := rawClient(t, authority, certificate, now)
				var flood []byte
				for range 80 { // as many as fit into what is read at once
					flood = append(flood, ours.Record(handshakeRecord, update)...)
					ours = ours.Updated()
					flood = append(flood, ours.Record(dataRecord, "x")...)
				}
				reader := readEarly(nc, nil)
				if _, err := far.Write(flood); err != nil {
					t.Fatal(err)
				}
				if pause == 0 {
					synctest.Wait()
					time.Sleep(tellTimeout)
					synctest.Wait()
					if !reader.hasLeft() {
						t.Error("a client that takes no answers still waits in the queue")
					}
				} else {
					var reading sync.WaitGroup
					defer reading.Wait()
					reading.Go(func() {
						for {
							time.Sleep(pause)
							if _, err := far.Read(make([]byte, 27)); err != nil {
								return
							}
						}
					})
					defer far.Close()
					time.Sleep(2 * tellTimeout)
				}
				begun := time.Now()
				_ = reader.stop()
				if took := time.Since(begun); took > tellTimeout || !reader.hasLeft() {
					t.Errorf("the client was waited for for %v, and has left: %v", took, reader.hasLeft())
				}
			})
		})
	}
}

// A client in the queue that asks for new keys gets them, whenever it does, and the connection is as it was afterwards.
func TestKeyUpdateInQueue(t *testing.T) {
	authority := securetest.NewAuthority(t)
	certificate, now := authority.Issue(nil, "proxy.example"), time.Now()
	synctest.Test(t, func(t *testing.T) {
		nc, far, ours, theirs := rawClient(t, authority, certificate, now)
		reader := readEarly(nc, nil)
		for range 2 {
			time.Sleep(10 * tellTimeout)
			_, _ = far.Write(ours.Record(handshakeRecord, update))
			ours = ours.Updated()
			theirs.Expect(far, handshakeRecord, updated)
			theirs = theirs.Updated()
			_, _ = far.Write(ours.Record(dataRecord, "ab"))
		}
		synctest.Wait()
		if early := reader.stop(); string(early) != "abab" || reader.hasLeft() {
			t.Errorf("got %q, and the client has left: %v", early, reader.hasLeft())
		}
		time.Sleep(10 * tellTimeout)
		go func() { _, _ = nc.Write([]byte("cd")) }()
		theirs.Expect(far, dataRecord, "cd")
		if _, bounded := nc.(*tls.Conn).NetConn().(*secure.Line).Conn.(*boundedAnswers); bounded {
			t.Error("the connection has not got its transport back")
		}
	})
}
