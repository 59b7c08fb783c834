//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// proxy is a running wsbouncer serve.
type proxy struct {
	*child
	address string // for clients, host:port
	admin   string // URL of the admin API
}

// startProxy runs wsbouncer serve for the time of the test. The flags come after those that tests commonly need.
func startProxy(t testing.TB, flags ...string) *proxy {
	t.Helper()
	p := &proxy{child: startChild(t, append(serving(flags), flags...)...)}
	p.address = p.awaitLog("listening").text("address")
	p.admin = p.awaitLog("admin API").text("address")
	return p
}

// serving returns the arguments of wsbouncer serve that tests commonly need, before the flags of one.
func serving(flags []string) []string {
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--drain-timeout", "1s"}
	if slices.Contains(flags, "--backend") { // without it, the configuration has the services
		args = append(args, "--close-timeout", "1m") // on a busy machine servers close late, and would see more connections than their cap
	}
	return args
}

// startReady runs wsbouncer serve for the time of the test, and returns when all backends have a connection.
func startReady(t testing.TB, flags ...string) *proxy {
	t.Helper()
	p := startProxy(t, flags...)
	p.awaitReady()
	return p
}

// url returns the WebSocket URL of a path.
func (p *proxy) url(path string) string { return "ws://" + p.address + path }

// get asks the admin API.
func (p *proxy) get(path string) (status int, body string) {
	p.t.Helper()
	return p.request(http.MethodGet, path)
}

// change has the admin API do something, over the proxy's socket.
func (p *proxy) change(path string) {
	p.t.Helper()
	if status, body := p.request(http.MethodPost, path); status != http.StatusOK {
		p.t.Fatalf("POST %s: %d %s", path, status, body)
	}
}

func (p *proxy) request(method, path string) (status int, body string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.admin+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Wsbouncer-Change", "test")
	req.Close = true
	client := http.DefaultClient
	if method != http.MethodGet {
		path := strings.TrimPrefix(p.socket(), "unix:")
		client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	}
	resp, err := client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func (p *proxy) awaitReady() {
	p.t.Helper()
	wstest.Eventually(p.t, "/readyz is 200", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })
}

// awaitUnready waits until /readyz is 503 and says why with these words.
func (p *proxy) awaitUnready(words ...string) {
	p.t.Helper()
	status, body := 0, ""
	defer func() {
		if p.t.Failed() {
			p.t.Logf("/readyz: %d %s", status, body)
		}
	}()
	wstest.Eventually(p.t, fmt.Sprintf("/readyz is 503 and says %q", words), func() bool {
		status, body = p.get("/readyz")
		return status == http.StatusServiceUnavailable && containsAll(body, words...)
	})
}

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// stats is what /api/v1/stats says, as far as tests look at it.
type stats struct {
	Draining  bool
	Shortages []string
	Drain     struct {
		Accepting bool
		Deadline  time.Time
	}
	Services []struct {
		Name, Path, Profile, Balance string
		Queue                        queueStats
	}
	Backends      []backendStats
	Leaving       []struct{ Name, URL string }
	Configuration struct {
		Source, Version, State, Reason string
		Since                          time.Time
		Changes, Failures              uint64
	}
	Sessions struct {
		Active  int
		Total   uint64
		Refused map[string]uint64
		Ended   map[string]uint64
		// Reconnects has how many sessions wait for their clients, and how many ever did.
		Reconnects struct{ Parked, Lost int }
	}
	Relayed relayed
	Loops   struct {
		Awake int
		Moved uint64
		Loops []struct{ Busy float64 }
	}
}

type queueStats struct {
	Limit, Waiting int
	OldestSeconds  float64 `json:"oldest_seconds"`
	Totals         struct {
		Queued, Served, Left, Full uint64
		TimedOut                   uint64  `json:"timed_out"`
		TurnedAway                 uint64  `json:"turned_away"`
		WaitedSeconds              float64 `json:"waited_seconds"`
	}
}

type backendStats struct {
	Name, Service, URL                         string
	Reachable                                  bool
	Reason                                     string
	Circuit                                    string
	CircuitOpened                              uint64 `json:"circuit_opened"`
	Probe                                      string
	ProbeReason                                string `json:"probe_reason"`
	Broken                                     uint64 `json:"broken_sessions"`
	State                                      string
	Usable                                     bool
	Cap, Ceiling, Warm                         int
	CeilingCause                               string `json:"ceiling_cause"`
	Weight                                     float64
	Retired                                    uint64
	Dialing, Idle, Leased, Resetting, Retiring int
	Totals                                     totals
}

type totals struct {
	Dialed      uint64
	DialFailed  uint64 `json:"dial_failed"`
	Leased      uint64
	Returned    uint64
	Discarded   uint64
	RetiredIdle uint64 `json:"retired_idle"`
	Reasons     map[string]uint64
}

type relayed struct {
	FramesFromClients  uint64 `json:"frames_from_clients"`
	BytesFromClients   uint64 `json:"bytes_from_clients"`
	FramesFromBackends uint64 `json:"frames_from_backends"`
	BytesFromBackends  uint64 `json:"bytes_from_backends"`
}

func (p *proxy) stats() stats {
	p.t.Helper()
	status, body := p.get("/api/v1/stats")
	var s stats
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		p.t.Fatalf("statistics: %d %v\n%s", status, err, body)
	}
	return s
}

// full reports whether a pool is as it should be when no client uses it.
func (b backendStats) full() bool {
	return (b.Idle == b.Warm || b.State != "enabled") && b.Dialing+b.Leased+b.Resetting+b.Retiring == 0
}

// settle waits until no session is left and all pools are full again, checks that the books add up, and returns the
// statistics.
func (p *proxy) settle() stats {
	p.t.Helper()
	var s stats
	defer func() {
		if p.t.Failed() {
			p.t.Logf("statistics: %+v", s)
		}
	}()
	wstest.Eventually(p.t, "all sessions are over and the pools are full", func() bool {
		s = p.stats()
		full := s.Sessions.Active == 0
		for _, b := range s.Backends {
			full = full && b.full()
		}
		return full
	})
	p.checkBooks(s)
	return s
}

// checkBooks checks what must add up when no session is left and all connections are idle.
func (p *proxy) checkBooks(s stats) {
	p.t.Helper()
	if leased := p.checkPools(s); leased < s.Sessions.Total {
		p.t.Errorf("%d sessions with %d leases", s.Sessions.Total, leased)
	}
}

// checkPools is checkBooks for a proxy whose backends may have been replaced: what those counted who are gone is not known. It
// returns how many leases there were.
func (p *proxy) checkPools(s stats) (leased uint64) {
	p.t.Helper()
	for _, b := range s.Backends {
		t := b.Totals
		leased += t.Leased
		if t.Leased != t.Returned+t.Discarded {
			p.t.Errorf("%s: %d leased, but %d returned and %d discarded", b.URL, t.Leased, t.Returned, t.Discarded)
		}
		if t.Dialed != uint64(b.Idle)+t.Discarded+t.RetiredIdle {
			p.t.Errorf("%s: %d dialed, but %d idle, %d discarded and %d retired idle", b.URL, t.Dialed, b.Idle, t.Discarded, t.RetiredIdle)
		}
		if b.Retired != t.Discarded+t.RetiredIdle {
			p.t.Errorf("%s: %d retired, but %d discarded and %d retired idle", b.URL, b.Retired, t.Discarded, t.RetiredIdle)
		}
	}
	var ended uint64
	for _, n := range s.Sessions.Ended {
		ended += n
	}
	if s.Sessions.Total != ended {
		p.t.Errorf("%d sessions in total, but %d ended and none is active", s.Sessions.Total, ended)
	}
	return leased
}

// awaitSession waits for the log line of the only session so far, and returns it.
func (p *proxy) awaitSession() record {
	p.t.Helper()
	r := p.awaitLog("session ended")
	if n := len(p.logged("session ended")); n != 1 {
		p.t.Errorf("%d sessions logged, want one", n)
	}
	return r
}

// simulator is a running wsbouncer sim.
type simulator struct {
	*child
	url string
}

// startSim runs wsbouncer sim for the time of the test.
func startSim(t testing.TB, flags ...string) *simulator {
	t.Helper()
	s := &simulator{child: startChild(t, append([]string{"sim", "--listen", "127.0.0.1:0"}, flags...)...)}
	wstest.Eventually(t, "the simulated server prints its URL", func() bool { return len(s.stdout.Lines()) > 0 })
	s.url = s.stdout.Lines()[0]
	return s
}

// address returns where the server listens, host:port.
func (s *simulator) address() string { return strings.TrimPrefix(s.url, "ws://") }

var peakField = regexp.MustCompile(`simulated server ends.* peak=(\d+)`)

// peak returns how many connections were open at once at most. The server must have ended.
func (s *simulator) peak() int {
	s.t.Helper()
	m := peakField.FindStringSubmatch(strings.Join(s.stderr.Lines(), "\n"))
	if m == nil {
		s.t.Fatalf("the simulated server did not report its peak")
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
