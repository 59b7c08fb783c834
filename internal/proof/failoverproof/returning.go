package failoverproof

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

const (
	// askEvery is how often a client pings the proxy, and deadAfter how long it waits for anything from it before it comes back.
	askEvery  = 500 * time.Millisecond
	deadAfter = 2 * time.Second
	// answerWithin is how long an upgrade may take when the client comes back.
	answerWithin = 3 * time.Second
	// takenOver is the close code of a connection whose session goes on over another.
	takenOver frame.CloseCode = 4409
)

// returning is a client that comes back to its session when its connection breaks, as docs/reconnect.md says. Its talk owns it.
type returning struct {
	// Static.
	ctx      context.Context
	o        *Options
	session  uint64
	url      *url.URL
	protocol string // to offer
	messages bool   // it reads no header fields
	trace    *kit.Trace
	dice     *rand.Rand

	conn        *speaker.Conn
	token       string
	former      string // the one before, until the proxy has shown that it has heard something since; empty for none
	kept        []hunt.Message
	taken       int // messages before those that are kept: they were acknowledged
	got         int // messages
	skip        int // messages that come again
	overcounted int
	asked       time.Time
	heard       time.Time
	returns     returns
	goneAfter   time.Duration // from the moment when the connection broke until the client knew that its session was gone

	redirected atomic.Int64 // answers that sent the client to another proxy

	mu    sync.Mutex
	wire  *wire  // guarded by mu: nil while the client is away
	kind  Cut    // guarded by mu: how the connection was or will be cut; empty for not at all
	next  limits // guarded by mu: of the next connection
	ended bool   // guarded by mu: the client does not come back
}

// returns are the returns of clients.
type returns struct {
	times               map[Cut][]time.Duration // from the cut until all was sent again
	unforced            int                     // without a cut
	refused             int
	begun               []time.Duration // new sessions, since the old one was gone: from the cut until the client knew
	sentAgain, gotAgain int
}

func (r *returns) add(more *returns) {
	if r.times == nil {
		r.times = make(map[Cut][]time.Duration)
	}
	for kind, times := range more.times {
		r.times[kind] = append(r.times[kind], times...)
	}
	r.unforced += more.unforced
	r.refused += more.refused
	r.begun = append(r.begun, more.begun...)
	r.sentAgain += more.sentAgain
	r.gotAgain += more.gotAgain
}

// connectReturning connects a session whose client comes back. A third of them read no header fields.
func (r *proof) connectReturning(ctx context.Context, t *talk) error {
	u, err := url.Parse(r.scene.url(t.session) + r.p.Path(&t.progress))
	if err != nil {
		return err
	}
	c := &returning{
		ctx: ctx, o: t.o, session: t.session, url: u, protocol: r.p.Subprotocol(), messages: t.session%3 == 0, trace: &t.trace,
		dice: rand.New(rand.NewPCG(t.o.Seed, ^t.session)), next: limits{unlimited, unlimited, false},
	}
	a, err := c.dial(c.next, "", -1, t.o.Patience)
	for until := time.Now().Add(t.o.Patience); err != nil && t.o.Outside != nil && time.Now().Before(until) && kit.Wait(ctx, 50*time.Millisecond) == nil; {
		a, err = c.dial(c.next, "", -1, t.o.Patience) // a load balancer may not know yet that a proxy was killed
	}
	if err != nil {
		return fmt.Errorf("dialing: %w", err)
	}
	if a.token == "" {
		a.conn.Abort()
		return errors.New("dialing: the proxy gave no token")
	}
	t.conn = c
	t.trace.Add("begins as %v", a.wire.LocalAddr())
	r.mu.Lock()
	r.clients = append(r.clients, c)
	r.mu.Unlock()
	return c.adopt(a, 0)
}

// arrival is a connection over which a client has come.
type arrival struct {
	conn           *speaker.Conn
	wire           *wire
	token          string
	received, sent int
}

// refusal is an answer that is not the one hoped for.
type refusal struct {
	status int // of HTTP, or a close code
	text   string
}

func (e *refusal) Error() string { return fmt.Sprintf("refused with %d %.100s", e.status, e.text) }

// later reports whether the client is to come again.
func (e *refusal) later() bool {
	return e.status == http.StatusServiceUnavailable || e.status == int(frame.TryAgainLater)
}

// gone reports whether the token is good for nothing.
func (e *refusal) gone() bool { return e.status == http.StatusGone || e.status == 4410 }

// wasOf reports whether the client's session was one of a process, which is nil for none. Tokens begin with the process's part of session ids.
func (c *returning) wasOf(process *string) bool {
	return process != nil && strings.HasPrefix(c.token, *process+".")
}

// dial connects, also to where the proxy says. With a token, it asks for the session, and says how many messages it has got unless got is negative.
func (c *returning) dial(l limits, token string, got int, within time.Duration) (arrival, error) {
	a, err := c.dialAt(c.url.Host, l, token, got, within)
	if refused, ok := errors.AsType[*refusal](err); ok && (refused.status == http.StatusTemporaryRedirect || refused.status == 4307) {
		u, err := url.Parse(refused.text)
		if err != nil {
			return a, wrong{err}
		}
		c.redirected.Add(1)
		return c.dialAt(u.Host, l, token, got, within)
	}
	return a, err
}

// dialAt is dial to an address.
func (c *returning) dialAt(host string, l limits, token string, got int, within time.Duration) (a arrival, err error) {
	until := time.Now().Add(within)
	nc, err := (&net.Dialer{Deadline: until}).DialContext(c.ctx, "tcp", host)
	if err != nil {
		return a, err
	}
	a.wire = &wire{TCPConn: nc.(*net.TCPConn), limits: l}
	stop := context.AfterFunc(c.ctx, func() { _ = nc.Close() })
	defer stop()
	defer func() {
		if err != nil {
			_ = nc.Close()
		}
	}()
	_ = nc.SetDeadline(until)
	if _, err = a.wire.Write(c.request(token, got)); err != nil {
		return a, err
	}
	in := bufio.NewReader(a.wire)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return a, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return a, &refusal{response.StatusCode, cmp.Or(response.Header.Get("Location"), string(text))}
	}
	early, _ := in.Peek(in.Buffered())
	a.conn = speaker.NewConn(handshake.Established{Conn: a.wire, Early: bytes.Clone(early)}, c.o.Patience)
	a.conn.OnPong = c.pong
	if !c.messages {
		number := func(name string) int { n, _ := strconv.Atoi(cmp.Or(response.Header.Get(name), "0")); return n }
		a.token, a.received, a.sent = response.Header.Get("Wsbouncer-Resume"), number("Wsbouncer-Received"), number("Wsbouncer-Sent")
		return a, nil
	}
	m, err := a.conn.Receive(until)
	if closed, ok := errors.AsType[*speaker.CloseError](err); ok {
		return a, &refusal{int(closed.Code), closed.Reason}
	}
	said := saysOf(m)
	if err == nil && said == nil {
		err = wrong{fmt.Errorf("the first message is %.100q", m.Payload)}
	}
	if err == nil && said.Go != "" {
		err = &refusal{4307, said.Go}
	}
	if err == nil {
		a.token, a.received, a.sent = said.Resume, said.Received, said.Sent
	}
	return a, err
}

// request returns an upgrade request.
func (c *returning) request(token string, got int) []byte {
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", c.url.RequestURI(), c.url.Host)
	var offers []string
	if c.protocol != "" {
		offers = append(offers, c.protocol)
	}
	field := func(name, value string) {
		if c.messages {
			offers = append(offers, strings.ToLower(name)+"."+value)
		} else {
			request = fmt.Appendf(request, "%s: %s\r\n", name, value)
		}
	}
	if c.messages {
		offers = append(offers, "wsbouncer.v1")
	}
	if token != "" {
		field("Wsbouncer-Resume", token)
	}
	if token != "" && got >= 0 {
		field("Wsbouncer-Received", strconv.Itoa(got))
	}
	if len(offers) > 0 {
		request = fmt.Appendf(request, "Sec-WebSocket-Protocol: %s\r\n", strings.Join(offers, ", "))
	}
	return append(request, "\r\n"...)
}

// says is what the proxy says in a message in place of header fields.
type says struct {
	Resume, Go     string
	Received, Sent int
}

// saysOf returns what the proxy says in a message; nil for a message of the server.
func saysOf(m hunt.Message) *says {
	if !bytes.HasPrefix(m.Payload, []byte(`{"wsbouncer":`)) {
		return nil
	}
	return decode[struct{ Wsbouncer *says }](m).Wsbouncer
}

// wrong is an error that is the proxy's fault.
type wrong struct{ error }

// sent returns how many messages the client has sent.
func (c *returning) sent() int { return c.taken + len(c.kept) }

// adopt goes on over another connection, and sends again what the proxy has not got. said is how many messages the client said that it had got;
// negative for nothing.
func (c *returning) adopt(a arrival, said int) (err error) {
	defer func() {
		if err != nil {
			a.conn.Abort()
		}
	}()
	received := a.received + c.overcounted
	if c.o.overcount && received < c.sent() {
		received++
		c.overcounted++
	}
	c.trace.Add("has come as %v: the proxy has %d of %d messages, of which %d were acknowledged, and goes on behind %d of %d",
		a.wire.LocalAddr(), a.received, c.sent(), c.taken, a.sent, c.got)
	switch {
	case received < c.taken || received > c.sent():
		return wrong{fmt.Errorf("the proxy has %d messages: %d were sent, and %d of them acknowledged", received, c.sent(), c.taken)}
	case a.sent > c.got || said >= 0 && a.sent != said:
		return wrong{fmt.Errorf("the proxy goes on behind message %d, and the client has got %d, and said %d", a.sent, c.got, said)}
	}
	c.acknowledged(received)
	c.conn, c.token, c.former, c.skip = a.conn, a.token, c.token, c.got-a.sent
	c.returns.gotAgain += c.skip
	for _, m := range c.kept {
		if err := c.conn.Send(m); err != nil {
			return err
		}
		c.returns.sentAgain++
	}
	c.asked, c.heard = time.Now(), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wire, c.kind, c.next = a.wire, "", limits{unlimited, unlimited, false}
	if c.ended {
		_ = a.wire.Close()
	}
	return nil
}

// acknowledged forgets the first messages of the session.
func (c *returning) acknowledged(n int) {
	if n > c.taken {
		c.kept = c.kept[min(n-c.taken, len(c.kept)):]
		c.taken = n
	}
}

// pong notes what a pong acknowledges.
func (c *returning) pong(payload []byte) {
	c.heard, c.former = time.Now(), ""
	if len(payload) == 8 {
		c.acknowledged(int(binary.BigEndian.Uint64(payload)))
	}
}

// comeBack comes back after the connection broke.
func (c *returning) comeBack(why error) error {
	c.trace.Add("lost: %v", why)
	old := c.conn
	c.mu.Lock()
	w, kind, next := c.wire, c.kind, c.next
	c.wire = nil
	c.mu.Unlock()
	if w == nil { // the proof is interrupted
		return why
	}
	broke, lost := w.broken(), time.Now()
	if c.dice.IntN(2) == 0 { // otherwise the new connection takes the session over
		old.Abort()
	}
	defer old.Abort()
	for until := time.Now().Add(c.o.Patience); ; {
		err := c.tryBack(kind == TwoAtOnce, next)
		next = limits{unlimited, unlimited, false}
		if err == nil {
			break
		}
		refused := (*refusal)(nil)
		switch {
		case errors.As(err, &refused) && refused.gone() && c.former != "": // an earlier request has arrived after the last one
			c.token, c.former = c.former, ""
			continue
		case refused != nil && !refused.later():
			c.returns.refused++
			c.goneAfter = time.Since(cmp.Or(broke, lost))
			return err
		case errors.As(err, new(wrong)):
			return err
		case time.Now().After(until):
			return fmt.Errorf("coming back: %w", err)
		}
		c.trace.Add("not back: %v", err)
		if err := kit.Wait(c.ctx, kit.Between(c.dice, 10*time.Millisecond, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	if broke.IsZero() || kind == "" { // or the connection after a cut has broken late
		c.returns.unforced++
		return nil
	}
	if c.returns.times == nil {
		c.returns.times = make(map[Cut][]time.Duration)
	}
	c.returns.times[kind] = append(c.returns.times[kind], time.Since(broke))
	return nil
}

// tryBack comes back over a connection, or over one of two at once, of which only the other may have the session.
func (c *returning) tryBack(twice bool, l limits) error {
	said := c.got
	if c.dice.IntN(4) == 0 {
		said = -1
	}
	type outcome struct {
		arrival
		err error
	}
	dialed := make(chan outcome, 2)
	dial := func() {
		a, err := c.dial(l, c.token, said, answerWithin)
		dialed <- outcome{a, err}
	}
	if twice {
		go dial()
	}
	dial()
	first := <-dialed
	if !twice {
		if first.err != nil {
			return first.err
		}
		return c.adopt(first.arrival, said)
	}
	second := <-dialed
	if first.err != nil || c.dice.IntN(2) == 0 && second.err == nil {
		first, second = second, first
	}
	if first.err != nil {
		return first.err
	}
	if refused, ok := errors.AsType[*refusal](second.err); ok && !refused.later() {
		c.returns.refused++
	}
	if second.err == nil {
		defer second.conn.Abort()
	}
	return c.adopt(first.arrival, said)
}

// Send implements [speaker.Line].
func (c *returning) Send(m hunt.Message) error {
	m.Payload = slices.Clone(m.Payload)
	c.kept = append(c.kept, m)
	if err := c.conn.Send(m); err != nil {
		return c.comeBack(err)
	}
	return nil
}

// Receive implements [speaker.Line].
func (c *returning) Receive(until time.Time) (hunt.Message, error) {
	for {
		if time.Since(c.asked) >= askEvery {
			c.asked = time.Now()
			_ = c.conn.Ping(binary.BigEndian.AppendUint64(nil, uint64(c.sent()))) // if it fails, so does what follows
		}
		next := c.asked.Add(askEvery)
		if until.Before(next) {
			next = until
		}
		m, err := c.conn.Receive(next)
		closed, failed := (*speaker.CloseError)(nil), (*net.OpError)(nil)
		switch {
		case err == nil:
			c.heard = time.Now()
			switch said := saysOf(m); {
			case said != nil:
				c.acknowledged(said.Received + c.overcounted)
			case c.skip > 0:
				c.skip--
			default:
				c.got++
				return m, nil
			}
			continue
		case errors.Is(err, speaker.ErrTimeout):
			if time.Since(c.heard) < deadAfter {
				if !time.Now().Before(until) {
					return m, err
				}
				continue
			}
		case errors.As(err, &closed) && closed.Code == takenOver && c.former != "":
		case !errors.Is(err, io.EOF) && !errors.As(err, &failed) || c.ctx.Err() != nil:
			return m, err
		}
		if err := c.comeBack(err); err != nil {
			return m, err
		}
	}
}

// Close implements line. A client that has said goodbye does not come back.
func (c *returning) Close(code frame.CloseCode, until time.Time) {
	if soon := time.Now().Add(deadAfter); soon.Before(until) {
		until = soon
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.conn.Close(code, until)
	c.Abort()
}

// Hang implements line.
func (c *returning) Hang() { c.Abort() }

// Abort implements line.
func (c *returning) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.wire != nil {
		_ = c.wire.Close()
		c.wire = nil
	}
}
