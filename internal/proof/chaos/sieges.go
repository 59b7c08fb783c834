package chaos

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// sieges are the attacks by many clients at once.
var sieges = []scenario{
	{name: "siege-of-nobody", about: "no hostile client: what the others are compared with", siege: &siege{}},
	{
		name: "slow-handshakes", about: "thousands of clients that send a byte of their request each second",
		siege: &siege{clients: 3000, pause: 100 * time.Millisecond, visit: slowHandshake, dropped: true},
	},
	{
		name: "silent-connections", about: "thousands of clients that connect and say nothing",
		siege: &siege{clients: 3000, pause: 100 * time.Millisecond, visit: saysNothing, dropped: true},
	},
	{
		name: "primed-handshakes", about: "clients that say nothing, beside a few whose handshakes are slow but come to their end",
		siege: &siege{clients: 1500, from: 1, pause: 100 * time.Millisecond, visit: primes, dropped: true},
	},
	{
		name: "primed-networks", about: "the same from seven addresses",
		siege: &siege{clients: 1500, from: 7, pause: 100 * time.Millisecond, visit: primes, dropped: true},
	},
	{
		name: "silent-networks", about: "clients that connect from a hundred addresses and say nothing",
		siege: &siege{clients: 3000, from: 100, pause: 100 * time.Millisecond, visit: saysNothing, dropped: true},
	},
	{
		name: "anonymous-checks", about: "clients without a credential where another server is asked about each",
		siege: &siege{clients: 300, from: 1, pause: 100 * time.Millisecond, visit: asks(""), checked: true, judge: refusedWith(401)},
	},
	{
		name: "check-floods", about: "clients of one address that keep the server busy which is asked about them",
		siege: &siege{clients: 300, from: 1, pause: 100 * time.Millisecond, visit: asks(goodToken), checked: true, effect: someEnter},
	},
	{
		name: "check-networks", about: "clients of a hundred addresses that keep it busy, some with credentials that it does not accept",
		siege: &siege{clients: 300, from: 100, pause: 100 * time.Millisecond, visit: asks("", "bad", goodToken, goodToken, goodToken), checked: true, effect: someEnter, judge: someRefused},
	},
	{name: "header-floods", about: "clients that send headers without end", siege: &siege{clients: 50, pause: 50 * time.Millisecond, visit: headerFlood, judge: refusedWith(431)}},
	{name: "refusal-storms", about: "clients that are refused, and do not go away", siege: &siege{clients: 1500, pause: 10 * time.Millisecond, visit: refusedAndStays, judge: refusedWith(404)}},
	{name: "connect-floods", about: "clients that connect and leave at once", siege: &siege{clients: 50, pause: 5 * time.Millisecond, visit: func(*attack) error { return nil }}},
	{name: "reconnect-storms", about: "clients that begin a session and leave at once", siege: &siege{clients: 50, pause: 10 * time.Millisecond, visit: upgraded(reconnects), effect: enters}},
	{name: "ping-floods", about: "clients that send pings without end", siege: &siege{clients: 20, pause: 50 * time.Millisecond, visit: controlFlood(frame.Ping), effect: enters, judge: endedWith(1008)}},
	{name: "pong-floods", about: "clients that send pongs without end", siege: &siege{clients: 20, pause: 50 * time.Millisecond, visit: controlFlood(frame.Pong), effect: enters, judge: endedWith(1008)}},
	{name: "empty-fragments", about: "messages of empty frames without end", siege: &siege{clients: 20, pause: 50 * time.Millisecond, visit: fragments(0), effect: enters, judge: endedWith(1008)}},
	{name: "endless-fragments", about: "messages of small frames without end", siege: &siege{clients: 4, pause: 50 * time.Millisecond, visit: fragments(1), effect: enters}},
	{name: "slow-frames", about: "clients that send one byte of a large frame at a time", siege: &siege{clients: 500, visit: upgraded(slowFrames), effect: enters}},
	{name: "huge-lengths", about: "clients that announce frames of an exbibyte", siege: &siege{clients: 50, pause: 10 * time.Millisecond, visit: upgraded(hugeLength), effect: endsRight, judge: endedWith(1009)}},
	{name: "never-reads", about: "clients that send without end, and read nothing", siege: &siege{clients: 50, visit: upgraded(neverReads), effect: enters, memory: 128}},
	{
		name: "poison", about: "two networks whose messages servers end sessions for, among sessions that last",
		siege: &siege{clients: 4, pause: 20 * time.Millisecond, visit: upgraded(poisons), effect: endsRight, poison: true, from: 2, judge: endedWith(1011)},
	},
	{
		name: "poison-newcomers", about: "the same from three networks, among sessions that come and go",
		siege: &siege{clients: 6, pause: 20 * time.Millisecond, visit: upgraded(poisons), effect: endsRight, poison: true, from: 3, session: 2 * time.Second, judge: endedWith(1011)},
	},
	{
		name: "slow-tls", about: "thousands of clients that send a byte of their TLS handshake each second",
		siege: &siege{clients: 3000, pause: 100 * time.Millisecond, visit: slowTLS, tls: true, dropped: true},
	},
	{
		name: "half-tls", about: "clients that begin TLS handshakes and do not end them",
		siege: &siege{clients: 1000, pause: 500 * time.Millisecond, visit: halfTLS, tls: true, dropped: true},
	},
	{
		name: "silent-tls", about: "clients that say nothing after their TLS handshake",
		siege: &siege{clients: 1000, pause: 500 * time.Millisecond, visit: silentAfterTLS, tls: true, dropped: true},
	},
	{name: "tls-floods", about: "clients that carry out TLS handshakes and leave", siege: &siege{clients: 50, pause: 100 * time.Millisecond, visit: handshakesOnly, effect: endsRight, tls: true}},
	{name: "http-to-tls", about: "clients that speak HTTP where TLS is spoken", siege: &siege{clients: 50, pause: 50 * time.Millisecond, visit: speaksHTTP, tls: true, judge: refusedWith(400)}},
	{name: "restart", about: "no hostile client, but one of three servers dies and comes back", siege: &siege{restart: true, judge: cameBack}},
	{name: "replay-hogs", about: "clients whose unanswered messages fill the memory for failover, while a server dies", siege: &replayHogs},
}

// endedWith returns a judge that wants most sessions of hostile clients to have ended with a close code.
func endedWith(code uint16) func(o *outcome) error {
	return func(o *outcome) error {
		if o.fewOf(o.ended[code]) {
			return fmt.Errorf("of %d visits, %d ended with %d: %s", o.visits.Came, o.ended[code], code, kit.Tallied(o.ended))
		}
		return nil
	}
}

// refusedWith returns a judge that wants most hostile clients to have been refused with an HTTP status.
func refusedWith(status int) func(o *outcome) error {
	return func(o *outcome) error {
		if o.fewOf(o.refused[status]) {
			return fmt.Errorf("of %d visits, %d were refused with %d: %s", o.visits.Came, o.refused[status], status, kit.Tallied(o.refused))
		}
		return nil
	}
}

// fewOf reports whether n is none, or less than half of the visits that came to their end: not the last one of each client, and not those that were dropped.
// While the siege lasts, the number of visits is not known yet.
func (o *outcome) fewOf(n uint64) bool {
	return n == 0 || o.visits.Came-int64(o.hostile)-int64(o.handshakes) > 2*int64(n)
}

// someRefused wants hostile clients whose credentials were not accepted.
func someRefused(o *outcome) error {
	if o.refused[http.StatusUnauthorized] == 0 {
		return fmt.Errorf("no client was refused with 401, but: %s", kit.Tallied(o.refused))
	}
	return nil
}

// slowHandshake sends a request as slowly as it may.
func slowHandshake(a *attack) error {
	request := []byte(a.request("?" + strings.Repeat("x", 1000)))
	for i := range request {
		if err := a.write(request[i : i+1]); err != nil {
			return err
		}
		if err := kit.Wait(a.ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// saysNothing waits until the proxy ends the connection.
func saysNothing(a *attack) error {
	_, err := io.Copy(io.Discard, a.conn)
	return err
}

// headerFlood sends fields without end.
func headerFlood(a *attack) error {
	if err := a.write([]byte(strings.TrimSuffix(a.request(""), "\r\n"))); err != nil {
		return err
	}
	return a.sendForEver([]byte(strings.Repeat("X: "+strings.Repeat("x", 95)+"\r\n", 20)))
}

// sendForEver sends the bytes again and again until the proxy ends the connection. It leaves the processors to others in between, which
// share them with thousands of hostile clients.
func (a *attack) sendForEver(b []byte) error {
	for {
		if err := a.write(b); err != nil {
			return err
		}
		if err := kit.Wait(a.ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// refusedAndStays asks for a service that does not exist, and reads nothing until the proxy ends the connection.
func refusedAndStays(a *attack) error {
	if err := a.write([]byte("GET /nowhere HTTP/1.1\r\nHost: chaos\r\n\r\n")); err != nil {
		return err
	}
	if err := kit.Wait(a.ctx, 500*time.Millisecond); err != nil {
		return err
	}
	return saysNothing(a)
}

// reconnects begins a session and resets the connection.
func reconnects(a *attack) error {
	return a.conn.SetLinger(0)
}

// controlFlood returns an attack that sends control frames without end, and reads what comes back.
func controlFlood(op frame.Opcode) func(a *attack) error {
	return upgraded(func(a *attack) error {
		return a.flood(bytes.Repeat(a.clientFrame(true, op, []byte("are you there?")), 100), time.Millisecond)
	})
}

// flood writes the bytes again and again, with a pause, and reads what comes back, until the proxy ends the connection.
func (a *attack) flood(b []byte, pause time.Duration) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, a.conn)
		_ = a.conn.SetWriteDeadline(time.Unix(1, 0))
	}()
	defer func() { <-done }()
	for {
		err := a.write(b)
		if err == nil {
			err = kit.Wait(a.ctx, pause)
		}
		if err != nil {
			_ = a.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			return err
		}
	}
}

// fragments returns an attack that sends a message which never ends, in frames of that size.
func fragments(size int) func(a *attack) error {
	return upgraded(func(a *attack) error {
		if err := a.write(a.clientFrame(false, frame.Binary, []byte("x"))); err != nil {
			return err
		}
		return a.flood(bytes.Repeat(a.clientFrame(false, frame.Continuation, make([]byte, size)), 1000), time.Millisecond)
	})
}

// slowFrames sends a frame byte by byte.
func slowFrames(a *attack) error {
	if err := a.write(a.clientFrame(true, frame.Binary, make([]byte, 1<<20))[:20]); err != nil {
		return err
	}
	return a.flood([]byte{0}, 200*time.Millisecond)
}

// hugeLength announces a frame that is larger than any memory.
func hugeLength(a *attack) error {
	if err := a.write(frame.AppendHeader(nil, frame.Header{Fin: true, Opcode: frame.Binary, Masked: true, Mask: 1, Length: 1 << 60})); err != nil {
		return err
	}
	return a.expect(frame.MessageTooBig)
}

// neverReads asks for echoes and reads none of them.
func neverReads(a *attack) error {
	_ = a.conn.SetReadBuffer(4 << 10)
	return a.sendForEver(a.clientFrame(true, frame.Binary, make([]byte, 16<<10)))
}

// goodToken is the credential that the server accepts which is asked about clients.
const goodToken = "good"

// checkTime is how long that server takes for an answer, so that a few hundred clients keep it busy.
const checkTime = 100 * time.Millisecond

// startCheck starts a server that is asked about clients.
func startCheck() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = kit.Wait(r.Context(), checkTime)
		if r.Header.Get("Authorization") != "Bearer "+goodToken {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
}

// asks returns an attack that asks for a service with a credential, and leaves when it has an answer.
func asks(credentials ...string) func(a *attack) error {
	return func(a *attack) error {
		request := a.request("")
		if c := credentials[a.dice.IntN(len(credentials))]; c != "" {
			request = strings.Replace(request, "\r\n\r\n", "\r\nAuthorization: Bearer "+c+"\r\n\r\n", 1)
		}
		if err := a.write([]byte(request)); err != nil {
			return err
		}
		return a.answer()
	}
}

// primes has the proxy see handshakes that are slow but come to their end, and says nothing after that.
func primes(a *attack) error {
	if a.dice.IntN(50) > 0 {
		return saysNothing(a)
	}
	request := a.request("")
	if err := a.write([]byte(request[:20])); err != nil {
		return err
	}
	if err := kit.Wait(a.ctx, 2*time.Second); err != nil {
		return err
	}
	if err := a.write([]byte(request[20:])); err != nil {
		return err
	}
	return a.answer()
}

// poisonServers is how many servers well-behaved clients share with those who poison them: servers that end a session whose client says poison with
// 1011, and serve all others well.
const poisonServers = 3

// poisons says poison, and waits for the end.
func poisons(a *attack) error {
	if err := a.write(a.clientFrame(true, frame.Text, []byte("poison"))); err != nil {
		return err
	}
	return a.expect(frame.InternalError)
}

// takenOut returns the servers that got no new sessions for a while, and why.
func takenOut(stats *api.Stats) (all []string) {
	for i := range stats.Backends {
		switch b := &stats.Backends[i]; {
		case b.CircuitOpened > 0:
			all = append(all, fmt.Sprintf("the circuit of %s opened %d times: %s", b.Name, b.CircuitOpened, b.CircuitReason))
		case b.Outliers > 0:
			all = append(all, fmt.Sprintf("%s was left out %d times: %s", b.Name, b.Outliers, b.OutlierReason))
		}
	}
	return all
}

// In a siege with replay, both services keep what clients send, so that sessions outlive their servers. The besieged one has a server that
// answers nothing, so that all of it is kept. Of the crowd's two servers, one dies in the middle.

// replays are the settings of services that keep what clients send.
const replays = ", failover: replay, replay-window: 5m"

// replayedMessage is the size of the crowd's messages in bytes: each needs memory that its session does not have yet.
const replayedMessage = 8 << 10

// swallower is the server of the besieged service: it reads everything, and answers nothing.
var swallower = scenario{name: "swallows", behave: func(v *visit) {
	if v.upgrade() {
		v.drain()
	}
}}

// replayHogs are clients of which three fill the memory. They come from another address than the crowd.
var replayHogs = siege{clients: 8, from: 1, pause: 10 * time.Millisecond, visit: upgraded(hogsReplay), effect: enters, replay: true, judge: movedAll}

// hogsReplay sends six megabytes within a second, in text and binary messages.
func hogsReplay(a *attack) error {
	for i := range 100 {
		if err := a.write(a.clientFrame(true, []frame.Opcode{frame.Text, frame.Binary}[i%2], make([]byte, 64_000))); err != nil {
			return err
		}
		if err := kit.Wait(a.ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// movedAll wants the crowd's sessions to have stayed recoverable, and those of the server that died to have moved.
func movedAll(o *outcome) error {
	if o.hogs.Unassured["memory"] == 0 {
		return fmt.Errorf("the memory for failover was never used up: %v", o.hogs.Unassured)
	}
	if c := o.crowd; c.Moved == 0 || c.NotMoved > 0 || len(c.Unassured) > 0 {
		return fmt.Errorf("of the well-behaved sessions, %d moved and %d did not; no longer recoverable: %v", c.Moved, c.NotMoved, c.Unassured)
	}
	return nil
}

// secured returns the client's side of a TLS connection, without resumption.
func (a *attack) secured() *tls.Conn {
	return tls.Client(a.conn, &tls.Config{InsecureSkipVerify: true}) // it is the proxy's own certificate
}

// slowTLS sends the beginning of its first message, one byte each second.
func slowTLS(a *attack) error {
	hello := []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
	for i := range 1000 {
		if err := a.write([]byte{hello[min(i, len(hello)-1)]}); err != nil {
			return err
		}
		if err := kit.Wait(a.ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// handshakesOnly carries out a whole TLS handshake, and leaves.
func handshakesOnly(a *attack) error { return a.secured().Handshake() }

// silentAfterTLS carries out a whole TLS handshake, and says nothing more.
func silentAfterTLS(a *attack) error {
	if err := a.secured().Handshake(); err != nil {
		return err
	}
	return saysNothing(a)
}

// halfTLS has the proxy compute its part of a TLS handshake, and then stops.
func halfTLS(a *attack) error {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _ = tls.Client(far, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	hello := make([]byte, 8<<10)
	n, err := near.Read(hello)
	if err != nil {
		return err
	}
	if err := a.write(hello[:n]); err != nil {
		return err
	}
	return saysNothing(a)
}

// speaksHTTP sends its request without TLS.
func speaksHTTP(a *attack) error {
	if err := a.write([]byte(a.request(""))); err != nil {
		return err
	}
	return saysNothing(a)
}
