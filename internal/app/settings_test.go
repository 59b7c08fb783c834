package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// settings returns settings that are fine.
func settings() Settings {
	s := DefaultSettings()
	s.Backends = []string{"ws://127.0.0.1:9001"}
	return s
}

func TestDefaultsNeedABackendOnly(t *testing.T) {
	s := DefaultSettings()
	if err := s.Check(); err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "--backend: ") {
		t.Errorf("the defaults: %v", err)
	}
	s = settings()
	if err := s.Check(); err != nil {
		t.Errorf("with a backend: %v", err)
	}
}

// TestBounds tries each setting at its bounds and beyond them. An error names the flag and the value.
func TestBounds(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, c := range []struct {
		change func(*Settings)
		bad    string // how the error begins; empty for none
	}{
		{func(s *Settings) { s.Connections, s.Warm = 1, 1 }, ""},
		{func(s *Settings) { s.Connections = 100_000 }, ""},
		{func(s *Settings) { s.Connections = 0 }, "--connections: 0 is not between 1 and 100000"},
		{func(s *Settings) { s.Connections = 100_001 }, "--connections: 100001"},
		{func(s *Settings) { s.Connections, s.Warm = 0, 5 }, "--connections: 0"}, // and nothing about what follows from it
		{func(s *Settings) { s.Warm = 100 }, ""},
		{func(s *Settings) { s.Warm = 101 }, "--warm: 101 is not between 1 and the cap of 100 connections"},
		{func(s *Settings) { s.Warm = 0 }, "--warm: 0"},
		{func(s *Settings) { s.Loops = 1024 }, ""},
		{func(s *Settings) { s.Loops = 1025 }, "--loops: 1025"},
		{func(s *Settings) { s.Loops = -1 }, "--loops: -1"},
		{func(s *Settings) { s.MaxMessage = 0 }, ""},
		{func(s *Settings) { s.MaxMessage = -1 }, "--max-message: -1"},
		{func(s *Settings) { s.MaxHead = 512 }, ""},
		{func(s *Settings) { s.MaxHead = 1 << 20 }, ""},
		{func(s *Settings) { s.MaxHead = 511 }, "--max-header: 511"},
		{func(s *Settings) { s.MaxHead = 1<<20 + 1 }, "--max-header: 1048577"},
		{func(s *Settings) { s.HandshakeTimeout = time.Millisecond }, ""},
		{func(s *Settings) { s.HandshakeTimeout = 0 }, "--handshake-timeout: 0s is not between 1ms"},
		{func(s *Settings) { s.DialTimeout = -1 }, "--dial-timeout: -1ns"},
		{func(s *Settings) { s.ResetTimeout = 0 }, "--reset-timeout: 0s"},
		{func(s *Settings) { s.CloseTimeout = month + 1 }, "--close-timeout: 720h0m0.000000001s"},
		{func(s *Settings) { s.IdleTimeout, s.MaxSession, s.DrainTimeout = 0, 0, 0 }, ""},
		{func(s *Settings) { s.IdleTimeout, s.MaxSession, s.DrainTimeout = month, month, month }, ""},
		{func(s *Settings) { s.IdleTimeout = -1 }, "--idle-timeout: -1ns"},
		{func(s *Settings) { s.MaxSession = month + 1 }, "--max-session: "},
		{func(s *Settings) { s.DrainTimeout = -time.Second }, "--drain-timeout: -1s"},
		{func(s *Settings) { s.Profile = "" }, `--profile: there is no profile ""; allowed are `},
		{func(s *Settings) { s.Path = "/" }, ""},
		{func(s *Settings) { s.Path = "x/y" }, `--path: "x/y"`},
		{func(s *Settings) { s.Subprotocol = "audio.v1" }, ""},
		{func(s *Settings) { s.Subprotocol = "a,b" }, `--subprotocol: "a,b"`},
		{func(s *Settings) { s.Subprotocol = "ä" }, `--subprotocol: "ä"`},
		{func(s *Settings) { s.Listen = nil }, "--listen: no address"},
		{func(s *Settings) { s.Listen = []string{":0", ":0", "[::1]:8080", "host:8080"} }, ""},
		{func(s *Settings) { s.Listen = []string{"8080"} }, `--listen: "8080"`},
		{func(s *Settings) { s.Listen = []string{"::1:8080"} }, `--listen: "::1:8080"`},
		{func(s *Settings) { s.Listen = []string{"host:http"} }, `--listen: "host:http" has the port "http"; allowed are 0 to 65535`},
		{func(s *Settings) { s.Listen = []string{"a:65536"} }, `--listen: "a:65536"`},
		{func(s *Settings) { s.Listen = []string{"a:1", "a:1"} }, `--listen: "a:1" is listed twice`},
		{func(s *Settings) { s.Admin = "127.0.0.1:0" }, ""},
		{func(s *Settings) { s.Admin = "127.0.0.1" }, `--admin: "127.0.0.1"`},
		{func(s *Settings) { s.Admin = s.Listen[0] }, `--admin: "127.0.0.1:8080" is an address of --listen`},
		{func(s *Settings) { s.Listen, s.Admin = []string{"a:0"}, "a:0" }, ""},
	} {
		s := settings()
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

// TestSameBackend tells servers apart however they are spelt.
func TestSameBackend(t *testing.T) {
	const first = "ws://host.example:80/a?b=c"
	for second, same := range map[string]bool{
		"ws://host.example:80/a?b=c": true, "ws://host.example/a?b=c": true, "WS://HOST.example/a?b=c": true,
		"ws://host.example:81/a?b=c": false, "ws://host.example/A?b=c": false, "ws://host.example/a": false,
		"ws://other.example/a?b=c": false,
	} {
		s := settings()
		s.Backends = []string{first, second}
		if err := s.Check(); (err != nil) != same {
			t.Errorf("%s and %s: %v", first, second, err)
		}
	}
}

func TestAllMistakes(t *testing.T) {
	s := Settings{Backends: []string{"http://a", "b"}, Listen: []string{"x", "y"}, Admin: "z", Path: "p", Profile: "q", Subprotocol: "r s"}
	err := s.Check()
	if err == nil {
		t.Fatal("no error")
	}
	// Eight above, the cap, the header's size and the four timeouts that need one.
	if got := strings.Count(err.Error(), "\n") + 1; got != 14 {
		t.Errorf("%d mistakes, want 14:\n%v", got, err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, "--") {
			t.Errorf("%q does not name a flag", line)
		}
	}
	if _, err := Start(s, "", nil); err == nil {
		t.Error("started with these settings")
	}
}

func TestDescribe(t *testing.T) {
	s := settings()
	s.Backends = append(s.Backends, "ws://127.0.0.1:9002/b")
	got := s.Describe()
	for _, want := range []string{
		"127.0.0.1:8080, path / and every other path", "off", profile.Names()[0] + ": ",
		"ws://127.0.0.1:9001, at most 100 connections, 100 kept warm", "ws://127.0.0.1:9002/b, ", "at most 200 at once",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
