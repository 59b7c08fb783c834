//go:build unix

package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// returning is a proxy to which clients with keys come back: a and b are of one tenant, other is of another.
type returning struct {
	*proxy
	t    testing.TB
	d    *database
	keys map[string]string
}

func newReturning(t testing.TB, service ...string) *returning {
	t.Helper()
	server, r := startSim(t, "--protocol", "echo"), &returning{t: t, d: sqliteDatabase(t), keys: make(map[string]string)}
	r.d.command(append([]string{"service", "add", "echo", "--path", "/v1", "--profile", "echo", "--auth", "keys", "--reconnect", "1h"}, service...)...)
	r.d.command("backend", "add", "gpu-1", server.url, "--connections", "8")
	for name, tenant := range map[string]string{"a": "acme", "b": "acme", "other": "umbrella"} {
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(r.d.command("key", "add", name, "--tenant", tenant, "-o", "json").stdout), &made); err != nil {
			t.Fatal(err)
		}
		r.keys[name] = made.Key
	}
	r.proxy = r.d.serve("--replay-memory", "8MiB")
	r.awaitReady()
	return r
}

// comes connects with a key, and with a token unless that is empty. It returns the connection and its answer.
func (r *returning) comes(key, token string) (*wstest.Peer, *http.Response) {
	r.t.Helper()
	lines := []string{"Authorization: Bearer " + r.keys[key]}
	if token != "" {
		lines = append(lines, "Wsbouncer-Resume: "+token)
	}
	p := wstest.Dial(r.t, r.address, wstest.UpgradeRequest("/v1", lines...))
	return p, p.Response()
}

// begins begins a session, or continues that of a token, and returns its connection and the next token.
func (r *returning) begins(key, token string) (*wstest.Peer, string) {
	r.t.Helper()
	p, answer := r.comes(key, token)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("status %d", answer.StatusCode)
	}
	p.Send(frame.Text, "hello") // it has got the token
	r.expect(p, frame.Text, "hello")
	return p, answer.Header.Get("Wsbouncer-Resume")
}

// expect expects a frame behind pings, which a client gets that is slow to say what it has got.
func (r *returning) expect(p *wstest.Peer, op frame.Opcode, payload string) {
	r.t.Helper()
	for {
		h, got, err := p.Next()
		if err != nil || h.Opcode != frame.Ping && (h.Opcode != op || string(got) != payload) {
			r.t.Fatalf("%v %q, %v; want %v %q", h.Opcode, got, err, op, payload)
		}
		if h.Opcode != frame.Ping {
			return
		}
	}
}

// parked waits until so many sessions wait for their clients.
func (r *returning) parked(n int) {
	r.t.Helper()
	wstest.Eventually(r.t, "sessions wait for their clients", func() bool { return r.stats().Sessions.Reconnects.Parked == n })
}

// refusedTokens returns requests with tokens that are good for nothing, by what is wrong: the key and the token of each.
func (r *returning) refusedTokens() map[string][2]string {
	r.t.Helper()
	p, used := r.begins("a", "")
	p.Reset()
	r.parked(1)
	p, good := r.begins("a", used)
	p.Reset()
	r.parked(1)
	ended, last := r.begins("a", "")
	ended.SendClose(frame.NormalClosure, "")
	r.expect(ended, frame.Close, string(frame.ClosePayload(frame.NormalClosure, "")))
	_ = ended.Close()
	live, taken := r.begins("a", "")
	r.t.Cleanup(func() { _ = live.Close() })
	random := good[:strings.IndexByte(good, '.')+1] + strings.Repeat("x", 22)
	return map[string][2]string{
		"another tenant's": {"other", good}, "another key's": {"b", good}, "another tenant's, carried": {"other", taken}, "used": {"a", used},
		"ended": {"a", last}, "random": {"a", random}, "another proxy's": {"a", "12345678" + good[strings.IndexByte(good, '.'):]}, "no token": {"a", "x"},
	}
}

// A token that is good for nothing is refused alike whatever is wrong with it, and the session that it may be of waits on.
func TestTokensRefusedAlike(t *testing.T) {
	t.Parallel()
	r := newReturning(t)
	var first, firstName string
	for name, c := range r.refusedTokens() {
		for range 2 { // replayed
			p, answer := r.comes(c[0], c[1])
			body, err := io.ReadAll(answer.Body)
			_ = p.Close()
			answer.Header.Del("X-Wsbouncer-Session-Id")
			var got strings.Builder
			_ = answer.Header.Write(&got) // a builder never fails
			got.WriteString(answer.Status + "\n" + string(body))
			if first == "" {
				first, firstName = got.String(), name
			}
			if err != nil || answer.StatusCode != http.StatusGone || got.String() != first {
				t.Errorf("%s: %v\n%s\nwhich is not what is said of %s:\n%s", name, err, got.String(), firstName, first)
			}
		}
	}
	r.parked(1)
}

// The session of a client that is lost ends when its key is revoked, and its token is refused as any other: no one else can come back to it. The
// client that is there stays, unless the service ends that, too.
func TestParkedOfRevokedKey(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"sessions stay": nil, "sessions end": {"--end-unauthorized"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReturning(t, flags...)
			lost, token := r.begins("a", "")
			there, later := r.begins("a", "")
			_, _ = r.begins("b", "")
			lost.Reset()
			r.parked(1)
			r.d.command("key", "revoke", "a", "--why", "lost")
			left := 2
			if flags != nil {
				r.expect(there, frame.Close, string(frame.ClosePayload(frame.PolicyViolation, "the API key was revoked")))
				left = 1
			}
			wstest.Eventually(t, "the session of the lost client ends", func() bool { return r.stats().Sessions.Active == left })
			if flags == nil {
				there.Send(frame.Text, "are you there?")
				r.expect(there, frame.Text, "are you there?")
				there.Reset()
				wstest.Eventually(t, "it does not wait for its client", func() bool { return r.stats().Sessions.Active == 1 })
			}
			for _, token := range []string{token, later, "x"} {
				for _, key := range []string{"a", "b"} {
					want := http.StatusGone
					if key == "a" && token != "x" { // there was such a session
						want = http.StatusUnauthorized
					}
					if _, answer := r.comes(key, token); answer.StatusCode != want {
						t.Errorf("with the key %s: status %d; want %d", key, answer.StatusCode, want)
					}
				}
			}
		})
	}
}

// When replay-memory is used up by what is kept for lost clients, the sessions of the tenant that has most of it make room, not another tenant's.
func TestParkedMemory(t *testing.T) {
	t.Parallel()
	r := newReturning(t, "--max-message", "1MiB")
	r.d.command("backend", "set", "gpu-1", "--connections", "40")
	wstest.Eventually(t, "there are more connections", func() bool { b := r.stats().Backends; return len(b) == 1 && b[0].Cap == 40 })
	say := func(key string, size int) string {
		p, token := r.begins(key, "")
		p.Send(frame.Binary, strings.Repeat("x", size))
		// It has come, and has been answered perhaps.
		p.Send(frame.Text, "done")
		for op := frame.Binary; op != frame.Text; {
			h, _, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			op = h.Opcode
		}
		p.Reset()
		return token
	}
	modest := say("other", 100_000)
	r.parked(1)
	before := residentMemory(t, r.PID())
	for range 30 {
		say("a", 900_000)
	}
	wstest.Eventually(t, "all are lost", func() bool { return r.stats().Sessions.Reconnects.Lost == 31 })
	after, parked := residentMemory(t, r.PID()), r.stats().Sessions.Reconnects.Parked
	if parked == 31 {
		t.Error("no session made room")
	}
	t.Logf("%d sessions wait; %d MB before, %d MB after", parked, before>>20, after>>20)
	p, answer := r.comes("other", modest)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", answer.StatusCode)
	}
	r.expect(p, frame.Text, "hello")
	r.expect(p, frame.Binary, strings.Repeat("x", 100_000))
	r.expect(p, frame.Text, "done")
}

// BenchmarkTokensRefused measures how long refusals take from the request to the answer, in turn: the medians by what is wrong with the token.
func BenchmarkTokensRefused(b *testing.B) {
	r := newReturning(b)
	all := r.refusedTokens()
	names, took := slices.Sorted(maps.Keys(all)), make(map[string][]time.Duration)
	for range b.N {
		for _, name := range names {
			c := all[name]
			p := wstest.Dial(b, r.address, "")
			begun := time.Now()
			p.SendBytes([]byte(wstest.UpgradeRequest("/v1", "Authorization: Bearer "+r.keys[c[0]], "Wsbouncer-Resume: "+c[1])))
			if status := p.Response().StatusCode; status != http.StatusGone {
				b.Fatal(status)
			}
			took[name] = append(took[name], time.Since(begun))
			_ = p.Close()
		}
	}
	for _, name := range names {
		slices.Sort(took[name])
		b.ReportMetric(float64(took[name][len(took[name])/2].Nanoseconds())/1e3, strings.ReplaceAll(name, " ", "-")+"-us")
	}
}

// BenchmarkAllBack has many clients lose their connections at once, and come back at once, from one address: how many, how long each took from
// its connecting to its answer, and the most memory that the proxy had. Over TLS, too.
func BenchmarkAllBack(b *testing.B) {
	for _, over := range []string{"tcp", "tls"} {
		for range b.N {
			b.Run(over, func(b *testing.B) { allBack(b, 5000, over == "tls") })
		}
	}
}

func allBack(b *testing.B, n int, secured bool) {
	authority := securetest.NewAuthority(b)
	certificate, key := securetest.Files(b, authority.Issue(nil, "127.0.0.1"))
	server, d, at := startSim(b, "--protocol", "echo"), sqliteDatabase(b), wstest.FreeAddress(b)
	d.command("service", "add", "echo", "--path", "/v1", "--profile", "echo", "--reconnect", "1h")
	d.command("backend", "add", "gpu-1", server.url, "--connections", strconv.Itoa(n))
	p := d.serve("--tls-listen", at, "--tls-cert", certificate, "--tls-key", key)
	p.awaitReady()
	dial := func(token string) (nc net.Conn, next string, err error) {
		address := p.address
		if secured {
			address = at
		}
		if nc, err = net.Dial("tcp", address); err != nil {
			return nil, "", err
		}
		_ = nc.SetDeadline(time.Now().Add(2 * wstest.Timeout))
		under := nc
		if secured {
			nc = tls.Client(nc, &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1"})
		}
		request := wstest.UpgradeRequest("/v1", "Wsbouncer-Resume: "+token)
		if token == "" {
			request = wstest.UpgradeRequest("/v1")
		}
		if _, err = io.WriteString(nc, request); err == nil {
			var answer *http.Response
			if answer, err = http.ReadResponse(bufio.NewReaderSize(nc, 512), nil); err == nil && answer.StatusCode == http.StatusSwitchingProtocols {
				return under, answer.Header.Get("Wsbouncer-Resume"), nil
			} else if err == nil {
				err = errors.New(answer.Status)
			}
		}
		_ = nc.Close()
		return nil, "", err
	}
	tokens, lost := make([]string, n), make([]net.Conn, n)
	var begun sync.WaitGroup
	turns := make(chan struct{}, 32)
	for i := range n {
		turns <- struct{}{}
		begun.Go(func() {
			defer func() { <-turns }()
			var err error
			if lost[i], tokens[i], err = dial(""); err != nil {
				b.Error(err)
			}
		})
	}
	begun.Wait()
	if b.Failed() {
		b.FailNow()
	}
	for _, nc := range lost {
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
	}
	wstest.Eventually(b, "all are lost", func() bool { return p.stats().Sessions.Reconnects.Parked == n })
	before := residentMemory(b, p.PID())
	var took []time.Duration
	failed := make(map[string]int)
	var mu sync.Mutex
	var back sync.WaitGroup
	start := make(chan struct{})
	for _, token := range tokens {
		back.Go(func() {
			<-start
			begun := time.Now()
			nc, _, err := dial(token)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[err.Error()]++
				return
			}
			took = append(took, time.Since(begun))
			b.Cleanup(func() { _ = nc.Close() })
		})
	}
	at0 := time.Now()
	close(start)
	back.Wait()
	b.Logf("%d of %d are back within %v; not: %v; the proxy had %d MB before, and has %d MB", len(took), n, time.Since(at0), failed, before>>20, residentMemory(b, p.PID())>>20)
	if slices.Sort(took); len(took) > 0 {
		b.ReportMetric(float64(len(took)), "back")
		b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
		b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		b.ReportMetric(took[len(took)-1].Seconds()*1e3, "max-ms")
	}
}
