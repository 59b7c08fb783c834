package admission

import (
	"bytes"
	"errors"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A service may tell its clients how they fare (Service.TellClients), in messages of its profile. A client that must wait for a connection
// is accepted while it waits then: it gets its 101 and its place in the queue, and what it sends is kept for its session, up to maxEarly
// bytes. It is a client in the queue like all others, and counts in the same limits. A client that offers subprotocols waits for its 101
// as without that, since the server's choice belongs in it.

// tellTimeout is how long a waiting client may take to accept a message. One that does not is taken to have left.
const tellTimeout = time.Second

// telling is a client that was accepted while it waits. It is owned by the goroutine of the handshake. While an earlyReader runs, that owns
// scanner, controls, kept, rest, close and broke.
type telling struct {
	nc      net.Conn        // static
	service *route.Service  // static
	last    int             // the place that it was told last
	sent    int             // messages that it was sent
	code    frame.CloseCode // for a client that is refused; 0 while that is open

	wake  chan struct{} // of size one: there is something to tell
	mu    sync.Mutex
	place *place // guarded by mu: the latest from the board; nil for none
	pong  []byte // guarded by mu: the payload of the last ping, which is to be answered; nil for none

	scanner  frame.Scanner
	controls limits.Controls
	kept     []byte // data frames
	rest     []byte // the incomplete frame behind them
	close    []byte // the payload of the client's close frame; nil if none has come
	broke    error  // how it broke the protocol; nil if it has not
}

// place is a client's place in the queue, and how many seconds it waits there; -1 if unknown.
type place struct{ number, wait int }

// newTelling returns what a client is told while it waits; nil for a client that is not to be told anything.
func newTelling(service *route.Service, nc net.Conn, req *handshake.Request, arrival *arrival) *telling {
	if !service.TellsQueue() || len(req.Subprotocols()) > 0 {
		return nil
	}
	maxMessage, _ := arrival.Hold.MaxMessage(service.MaxMessage)
	return &telling{
		nc: nc, service: service, wake: make(chan struct{}, 1), scanner: frame.NewClientScanner(maxMessage),
	}
}

// accept accepts a client that begins to wait, and tells it its place. It returns false if the client has left.
func (t *telling) accept(req *handshake.Request, arrival *arrival, wait int) bool {
	protocol := ""
	if arrival.Messages {
		protocol = resume.Subprotocol
	}
	b := req.AppendAccept(make([]byte, 0, 256), protocol, arrival.AcceptFields()...)
	early := req.Early
	req.Early = nil
	return t.write(t.appendPlace(b, place{arrival.Position, wait})) && t.take(early)
}

// appendPlace appends the message with the client's place.
func (t *telling) appendPlace(b []byte, p place) []byte {
	t.last = p.number
	t.sent++
	return frame.AppendMessage(b, frame.Text, true, []byte(t.service.Profile.Tell().Queue(t.service.Name, p.number, p.wait)), false)
}

// write reports whether the client has accepted what is written.
func (t *telling) write(b []byte) bool {
	_ = t.nc.SetWriteDeadline(time.Now().Add(tellTimeout))
	_, err := t.nc.Write(b)
	_ = t.nc.SetWriteDeadline(time.Time{})
	return err == nil
}

// offer takes the client's place from the board, which is one goroutine. It never blocks.
func (t *telling) offer(number, wait int) { t.later(func() { t.place = &place{number, wait} }) }

// later changes what is to be told, and wakes the goroutine that tells it.
func (t *telling) later(change func()) {
	t.mu.Lock()
	change()
	t.mu.Unlock()
	tasks.Wake(t.wake)
}

// news returns what a waiting client is to be told; nil for a client that is told nothing.
func (t *telling) news() *route.News {
	if t == nil {
		return nil
	}
	return &route.News{Ready: t.wake, Tell: t.tell}
}

// tell tells the client its place, if that has changed, and answers its ping. It returns false if the client has left.
func (t *telling) tell() bool {
	t.mu.Lock()
	p, pong := t.place, t.pong
	t.place, t.pong = nil, nil
	t.mu.Unlock()
	var b []byte
	if p != nil && p.number != t.last && p.number != 0 {
		b = t.appendPlace(b, *p)
	}
	if pong != nil {
		b = frame.AppendControl(b, frame.Pong, pong, false)
	}
	return len(b) == 0 || t.write(b)
}

// take takes what the client sends. It returns false if the client has closed or broken the protocol.
func (t *telling) take(b []byte) bool {
	b = append(t.rest, b...)
	pos := 0
	for {
		run, err := t.scanner.Next(b[pos:])
		t.kept = append(t.kept, b[pos:pos+run.Data]...)
		pos += run.Consumed
		if err != nil {
			t.broke = err
			return false
		}
		if !run.HasControl() {
			break
		}
		if !t.control(run.Control, run.Payload) {
			return false
		}
	}
	t.rest = append(t.rest[:0], b[pos:]...)
	return true
}

// errControls is how a waiting client breaks the rules that sends too many control frames.
var errControls = &frame.Error{Code: frame.PolicyViolation, Reason: "too many control frames"}

func (t *telling) control(op frame.Opcode, payload []byte) bool {
	switch {
	case op == frame.Close:
		t.close = append([]byte{}, payload...)
		return false
	case t.controls.Exceeded(route.Now):
		t.broke = errControls
		return false
	case op == frame.Ping:
		t.later(func() { t.pong = append([]byte{}, payload...) }) // only the last ping needs an answer (RFC 6455, section 5.5.3)
	}
	return true
}

// received returns what the client has sent for its session.
func (t *telling) received() []byte { return append(bytes.Clone(t.kept), t.rest...) }

// full reports whether no more can be kept.
func (t *telling) full() bool { return len(t.kept)+len(t.rest) >= maxEarly }

// leave answers a client that has closed or broken the protocol, and closes its connection.
func (t *telling) leave() {
	switch broken := (*frame.Error)(nil); {
	case t.close != nil:
		code, _, err := frame.ParseClose(t.close)
		payload := t.close
		if err != nil {
			payload = frame.ClosePayload(frame.ProtocolError, err.Error())
		} else if code.Sendable() {
			payload = frame.ClosePayload(code, "")
		}
		t.write(frame.AppendControl(nil, frame.Close, payload, false))
	case errors.As(t.broke, &broken):
		t.end(broken.Code, broken.Reason)
		return
	}
	_ = t.nc.Close()
}

// end sends a client a close frame, waits for its own for as long as its service allows, and closes its connection.
func (t *telling) end(code frame.CloseCode, reason string) {
	defer t.nc.Close()
	_ = t.nc.SetDeadline(time.Now().Add(t.service.CloseTimeout))
	if _, err := t.nc.Write(frame.AppendControl(nil, frame.Close, frame.ClosePayload(code, reason), false)); err != nil || t.broke != nil {
		return
	}
	t.kept = nil // no longer of use
	var buf [4 << 10]byte
	for total := 0; total < maxEarly; {
		n, err := t.nc.Read(buf[:])
		if err != nil || !t.take(buf[:n]) {
			return
		}
		total += n
	}
}

// acceptRefused accepts a client that comes back and reads no answers but messages, so that a close frame can say why it does not get its session.
func (g *Gate) acceptRefused(service *route.Service, nc net.Conn, req *handshake.Request, arrival *arrival, refusal *handshake.Refusal) {
	arrival.told = &telling{
		nc: nc, service: service, wake: make(chan struct{}, 1), scanner: frame.NewClientScanner(maxEarly), code: closeCodeOfReturn(refusal),
	}
	arrival.told.write(req.AppendAccept(make([]byte, 0, 256), resume.Subprotocol, handshake.Field{Name: record.IDHeader, Value: arrival.ID.String()}))
}

// closeCodeOf returns the close code for a client that was accepted, and that gets no connection for this reason.
func closeCodeOf(err error, refusal *handshake.Refusal) frame.CloseCode {
	if ended := (*route.WaitEnded)(nil); errors.As(err, &ended) {
		return ended.Code
	}
	if refusal.Status == http.StatusServiceUnavailable {
		return frame.TryAgainLater
	}
	return frame.PolicyViolation
}

// closeCodeOfReturn is closeCodeOf for a client that comes back. The proxy itself has refused it, so that a status has one meaning.
func closeCodeOfReturn(refusal *handshake.Refusal) frame.CloseCode {
	switch refusal.Status {
	case http.StatusTemporaryRedirect:
		return resume.Elsewhere
	case http.StatusGone:
		return resume.Gone
	case http.StatusBadRequest:
		return resume.TooMany
	}
	return closeCodeOf(refusal, refusal)
}

// board tells waiting clients their places, and clients in sessions that these are degraded, of services that want that. One goroutine
// looks at the queues once a second; it begins with the first such service, and ends with the server.
type board struct {
	mu      sync.Mutex
	started bool                                     // guarded by mu
	rates   map[*pool.Group[*backend.Conn]]*waitRate // guarded by mu
}

// boardPeriod is how often a waiting client is told its place at most.
const boardPeriod = time.Second

// startBoard starts the board when a service needs it.
func (g *Gate) startBoard(services []*route.Service) {
	for _, service := range services {
		if !service.TellsQueue() && !service.TellsState() {
			continue
		}
		g.board.mu.Lock()
		if !g.board.started {
			g.board.started = g.pending.Go(g.runBoard)
		}
		g.board.mu.Unlock()
		return
	}
}

func (g *Gate) runBoard() {
	tick := time.NewTicker(boardPeriod)
	defer tick.Stop()
	for {
		g.lookOnce()
		select {
		case <-tick.C:
		case <-g.closing.Done():
			return
		}
	}
}

// lookOnce looks at all queues once. After a panic, the next second tries again.
func (g *Gate) lookOnce() {
	defer g.shared.Guard.Recover("board", func() {})
	g.updateBoard(time.Now())
}

// updateBoard samples the rates, and tells clients what has changed. One goroutine calls it.
func (g *Gate) updateBoard(now time.Time) {
	routes := g.routes.Load()
	g.board.sample(now, routes)
	g.sessions.TellStates()
	clients := g.sessions.AllWaiting()
	told := false
	for _, w := range clients {
		told = told || w.Tell != nil
	}
	if !told {
		return
	}
	places := record.PlacesOf(clients)
	for _, w := range clients {
		if w.Tell != nil {
			w.Tell(places[w], g.board.wait(w.Service, places[w]))
		}
	}
}

// sample counts the leases that have ended, and forgets services that are gone.
func (b *board) sample(now time.Time, r *route.Routes) {
	ended := make(map[*pool.Group[*backend.Conn]]uint64)
	for _, service := range r.Services {
		if service.TellsQueue() {
			ended[service.Group] = service.Group.LeasesEnded()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rates := make(map[*pool.Group[*backend.Conn]]*waitRate, len(ended))
	for group, n := range ended {
		rate := b.rates[group]
		if rate == nil {
			rate = new(waitRate)
		}
		rate.sample(now, n)
		rates[group] = rate
	}
	b.rates = rates
}

// wait returns how many seconds a client waits at this place of a service's queue; -1 if unknown.
func (b *board) wait(service *route.Service, place int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rate := b.rates[service.Group]; rate != nil {
		return rate.wait(place)
	}
	return -1
}

// waitRate expects how long clients wait in a service's queue, from how many leases ended lately: each serves the next client. It is a value
// without a clock; the goroutine that samples the leases owns it.
type waitRate struct {
	at    time.Time // of the last sample; zero for none
	ended uint64    // leases that had ended by then
	seen  uint64    // leases whose ends were seen, up to enoughEnds
	// The leases that ended and the seconds in which they did, both weighted: what was a halfLife ago counts a half.
	leases, seconds float64
}

const (
	halfLife   = 20 * time.Second
	enoughEnds = 3               // before them, nothing is expected
	maxGap     = 2 * time.Minute // after a longer time without samples, what was seen before says nothing
	maxWait    = 24 * time.Hour  // a longer time means that it is unknown
)

// sample takes the number of leases that have ended since the service began. It may have become smaller, if backends were removed.
func (r *waitRate) sample(now time.Time, ended uint64) {
	gap := now.Sub(r.at)
	if r.at.IsZero() || gap > maxGap || ended < r.ended {
		*r = waitRate{at: now, ended: ended}
		return
	}
	if gap <= 0 {
		return
	}
	kept := math.Exp2(-float64(gap) / float64(halfLife))
	n := ended - r.ended
	r.leases, r.seconds = r.leases*kept+float64(n), r.seconds*kept+gap.Seconds()
	r.seen = min(r.seen+n, enoughEnds)
	r.at, r.ended = now, ended
}

// wait returns how many seconds a client at this place of the queue waits; -1 if unknown.
func (r *waitRate) wait(place int) int {
	if r.seen < enoughEnds || r.leases <= 0 {
		return -1
	}
	wait := math.Ceil(float64(place) * r.seconds / r.leases)
	if wait > maxWait.Seconds() {
		return -1
	}
	return int(wait)
}
