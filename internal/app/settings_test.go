package app

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// validSettings returns settings that are fine.
func validSettings() Settings {
	s := DefaultSettings()
	s.Backends = []string{"ws://127.0.0.1:9001"}
	return s
}

func TestDefaultsNeedABackendOnly(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	if err := s.Check(); err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "--backend: ") {
		t.Errorf("the defaults: %v", err)
	}
	s = validSettings()
	if err := s.Check(); err != nil {
		t.Errorf("with a backend: %v", err)
	}
}

// TestBounds tries each setting at its bounds and beyond them. An error names the flag and the value.
func TestBounds(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for _, c := range []struct {
		change func(*Settings)
		bad    string // how the error begins; empty for none
	}{
		{func(s *Settings) { s.Connections, s.Warm = 1, 1 }, ""},
		{func(s *Settings) { s.Connections = 100_000 }, ""},
		{func(s *Settings) { s.Connections = 0 }, `--connections: invalid number "0": use a whole number from 1 to 100000, or auto`},
		{func(s *Settings) { s.Connections = 100_001 }, `--connections: invalid number "100001"`},
		{func(s *Settings) { s.Connections, s.Warm = 0, 5 }, `--connections: invalid number "0"`}, // and nothing about what follows from it
		{func(s *Settings) { s.Warm = 100 }, ""},
		{func(s *Settings) { s.Warm = 101 }, `--warm: invalid number "101": use a whole number from 0 to the cap of 100 connections`},
		{func(s *Settings) { s.Warm = 0 }, ""}, // there is a queue
		{func(s *Settings) { s.Warm, s.Queue = 1, 0 }, ""},
		{func(s *Settings) { s.Warm, s.Queue = 0, 0 }, "--warm: 0 needs a queue and a queue-timeout, so that clients can wait while their connection is dialed: set both, or use 1 to 100"},
		{func(s *Settings) { s.Warm, s.QueueTimeout = 0, 0 }, "--warm: 0 needs a queue and a queue-timeout"},
		{func(s *Settings) { s.Queue = 1_000_000 }, ""},
		{func(s *Settings) { s.Queue = 1_000_001 }, `--queue: invalid number "1000001": use a whole number from 0 to 1000000`},
		{func(s *Settings) { s.Queue = -1 }, `--queue: invalid number "-1"`},
		{func(s *Settings) { s.Loops = 1024 }, ""},
		{func(s *Settings) { s.Loops = 1025 }, `--loops: invalid number "1025"`},
		{func(s *Settings) { s.Loops = -1 }, `--loops: invalid number "-1"`},
		{func(s *Settings) { s.IOURing = "on" }, ""},
		{func(s *Settings) { s.IOURing = "maybe" }, "--io-uring: unknown way to send \"maybe\""},
		{func(s *Settings) { s.MaxMessage = 0 }, ""},
		{func(s *Settings) { s.MaxMessage = -1 }, `--max-message: invalid size "-1"`},
		{func(s *Settings) { s.MaxHeader = 512 }, ""},
		{func(s *Settings) { s.MaxHeader = 1 << 20 }, ""},
		{func(s *Settings) { s.MaxHeader = 511 }, `--max-header: invalid size "511"`},
		{func(s *Settings) { s.MaxHeader = 1<<20 + 1 }, `--max-header: invalid size "1048577"`},
		{func(s *Settings) { s.HandshakeTimeout = time.Millisecond }, ""},
		{func(s *Settings) { s.HandshakeTimeout = 0 }, `--handshake-timeout: invalid duration "0s"`},
		{func(s *Settings) { s.DialTimeout = -1 }, `--dial-timeout: invalid duration "-1ns"`},
		{func(s *Settings) { s.CloseTimeout = month + 1 }, `--close-timeout: invalid duration "720h0m0.000000001s"`},
		{func(s *Settings) { s.IdleTimeout, s.MaxSession, s.DrainTimeout = 0, 0, 0 }, ""},
		{func(s *Settings) { s.IdleTimeout, s.MaxSession, s.DrainTimeout = month, month, month }, ""},
		{func(s *Settings) { s.IdleTimeout = -1 }, `--idle-timeout: invalid duration "-1ns"`},
		{func(s *Settings) { s.MaxSession = month + 1 }, "--max-session: "},
		{func(s *Settings) { s.DrainTimeout = -time.Second }, `--drain-timeout: invalid duration "-1s"`},
		{func(s *Settings) { s.QueueTimeout = 0 }, ""},
		{func(s *Settings) { s.QueueTimeout = -1 }, `--queue-timeout: invalid duration "-1ns": use a duration from 0s to 720h`},
		{func(s *Settings) { s.QueueTimeout = month + 1 }, "--queue-timeout: "},
		{func(s *Settings) {
			s.ConnectionMaxAge, s.ConnectionMaxIdle, s.PingInterval, s.SlowStart = 0, 0, 0, 0
		}, ""},
		{func(s *Settings) {
			s.ConnectionMaxAge, s.ConnectionMaxIdle, s.PingInterval, s.SlowStart = month, month, month, month
		}, ""},
		{func(s *Settings) { s.ConnectionMaxAge = -time.Second }, `--connection-max-age: invalid duration "-1s"`},
		{func(s *Settings) { s.ConnectionMaxIdle = -time.Second }, `--connection-max-idle: invalid duration "-1s"`},
		{func(s *Settings) { s.PingInterval = -time.Second }, `--ping-interval: invalid duration "-1s"`},
		{func(s *Settings) { s.PingInterval = 1<<63 - 1 }, `--ping-interval: invalid duration "2562047h47m16.854775807s"`},
		{func(s *Settings) { s.PingTimeout = 0 }, `--ping-timeout: invalid duration "0s"`},
		{func(s *Settings) { s.ProbeInterval = time.Millisecond }, `--probe-interval: invalid duration "1ms"`},
		{func(s *Settings) { s.ProbeTimeout = 0 }, `--probe-timeout: invalid duration "0s"`},
		{func(s *Settings) { s.SlowStart = -1 }, `--slow-start: invalid duration "-1ns"`},
		{func(s *Settings) { s.ConnectionMaxSessions = -1 }, `--connection-max-sessions: invalid number "-1": use a whole number from 0 to 2147483647`},
		{func(s *Settings) { s.ProbeFall = 0 }, `--probe-fall: invalid number "0": use a whole number from 1 to 1000`},
		{func(s *Settings) { s.ProbeRise = 1001 }, `--probe-rise: invalid number "1001"`},
		{func(s *Settings) { s.CircuitFailures = 0 }, `--circuit-failures: invalid number "0": use a whole number from 1 to 1000000`},
		{func(s *Settings) { s.Balance = "hash" }, ""},
		{func(s *Settings) { s.Balance = "Hash" }, `--balance: unknown balance "Hash": did you mean "hash:client"? Use one of least-loaded, round-robin, random-two, hash:client, hash:header:NAME, hash:query:NAME`},
		{func(s *Settings) { s.Balance = "" }, `--balance: unknown balance ""`},
		{func(s *Settings) { s.Profile = "" }, `--profile: unknown profile "": use one of `},
		{func(s *Settings) { s.Path = "/" }, ""},
		{func(s *Settings) { s.Path = "x/y" }, `--path: invalid path "x/y"`},
		{func(s *Settings) { s.Subprotocol = "audio.v1" }, ""},
		{func(s *Settings) { s.Subprotocol = "a,b" }, `--subprotocol: invalid subprotocol "a,b"`},
		{func(s *Settings) { s.Subprotocol = "ä" }, `--subprotocol: invalid subprotocol "ä"`},
		{func(s *Settings) { s.Listen = nil }, "--listen: no address"},
		{func(s *Settings) { s.Listen = []string{":0", ":0", "[::1]:8080", "host:8080"} }, ""},
		{func(s *Settings) { s.Listen = []string{"8080"} }, `--listen: invalid address "8080"`},
		{func(s *Settings) { s.Listen = []string{"::1:8080"} }, `--listen: invalid address "::1:8080"`},
		{func(s *Settings) { s.Listen = []string{"host:http"} }, `--listen: invalid address "host:http": use a port from 0 to 65535`},
		{func(s *Settings) { s.Listen = []string{"a:65536"} }, `--listen: invalid address "a:65536"`},
		{func(s *Settings) { s.Listen = []string{"a:1", "a:1"} }, `--listen: "a:1" is listed twice`},
		{func(s *Settings) { s.DNSServer = "consul:8600" }, ""},
		{func(s *Settings) { s.DNSServer = "127.0.0.1" }, `--dns-server: invalid address "127.0.0.1"`},
		{func(s *Settings) { s.DNSServer = ":53" }, `--dns-server: invalid address ":53": use a host and a port from 1 to 65535, such as 127.0.0.1:8600`},
		{func(s *Settings) { s.DNSServer = "127.0.0.1:0" }, `--dns-server: invalid address "127.0.0.1:0"`},
		{func(s *Settings) { s.Admin = "127.0.0.1:0" }, ""},
		{func(s *Settings) { s.Admin = "127.0.0.1" }, `--admin: invalid address "127.0.0.1"`},
		{func(s *Settings) { s.Admin = s.Listen[0] }, `--admin: listen already uses "127.0.0.1:8080"`},
		{func(s *Settings) { s.Listen, s.Admin = []string{"localhost:0"}, "localhost:0" }, ""},
	} {
		s := validSettings()
		c.change(&s)
		err := s.Check()
		switch {
		case c.bad == "" && err != nil:
			t.Errorf("refused: %v", err)
		case c.bad != "" && (err == nil || !strings.HasPrefix(err.Error(), c.bad) || strings.Contains(err.Error(), "\n")):
			t.Errorf("got %q, want only %q", fmt.Sprint(err), c.bad)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"hash", "hash:client", "hash:header:X-Device", "hash:query:device", "hash:query:a:b"} {
		s := validSettings()
		s.Balance = text
		if err := s.Check(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"hash:", "hash:Client", "hash:client:", "hash:address", "hash:header", "hash:header:", "hash:header:a b", "hash:header:ä", "hash:query", "hash:query:",
		"hash:cookie:a", "round-robin:client", "round-robin:header:a",
	} {
		s := validSettings()
		s.Balance = text
		want := fmt.Sprintf("--balance: unknown balance %q: ", text)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAllErrors(t *testing.T) {
	t.Parallel()
	var s Settings
	s.Backends, s.Listen, s.Admin = []string{"http://a", "b"}, []string{"x", "y"}, "z"
	s.Path, s.Profile, s.Subprotocol = "p", "q", "r s"
	err := s.Check()
	if err == nil {
		t.Fatal("no error")
	}
	// Seven above, and at least 26 texts, numbers and durations that need a value.
	if got := strings.Count(err.Error(), "\n") + 1; got < 33 {
		t.Errorf("%d errors, want at least 33:\n%v", got, err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, "--") {
			t.Errorf("%q does not name a flag", line)
		}
	}
	if _, err := Start(t.Context(), s, "", nil); err == nil {
		t.Error("started with these settings")
	}
}

// An address to dial from that the machine does not have ends the start, before anything is opened.
func TestStartChecksDialFrom(t *testing.T) {
	t.Parallel()
	s := validSettings()
	s.DialFrom = []string{"127.0.0.1", "203.0.113.77"} // an address for documentation (RFC 5737)
	_, err := Start(t.Context(), s, "", nil)
	if err == nil || !strings.HasPrefix(err.Error(), "--dial-from: this machine does not have the address 203.0.113.77: it has 127.0.0.1") {
		t.Errorf("%v", err)
	}
}
