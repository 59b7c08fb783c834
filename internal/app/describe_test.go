package app

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// TestDescribe has settings said in words, a line for each.
func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Settings)
		lines  []string
	}{
		"defaults": {func(*Settings) {}, []string{
			"listen 127.0.0.1:8080, path / and every other path",
			"admin off",
			"profile " + profile.Names()[0] + ": .*",
			"reuse none: .*",
			"failover off",
			"backend ws://127.0.0.1:9001, at most 100 connections, 100 kept warm, weight 1, enabled",
			"balance least-loaded",
			"queue at most 1000 clients, for 10s each",
			`handshake passes nothing; drops clients' query, Authorization, subprotocols \(--pass query,header:Authorization,subprotocol passes them as well\)`,
			"sessions at most 100 at once",
		}},
		"everything": {func(s *Settings) {
			s.Listen, s.Admin, s.Path = []string{"127.0.0.1:8080", "[::1]:8080"}, "127.0.0.1:9090", "/v1/stt"
			s.Connections, s.Warm, s.Balance, s.Queue, s.QueueTimeout = 32, 8, "round-robin", 5, 1500*time.Millisecond
			s.Subprotocol, s.Pass = "audio.v1", []string{"path", "query:model", "header:authorization", "subprotocol"}
			s.Backends = append(
				s.Backends, "ws://127.0.0.1:9002/b,connections=4,weight=0.25", "ws://127.0.0.1:9003,state=draining",
				"ws://127.0.0.1:9004,state=disabled", "ws://127.0.0.1:9005,weight=0", "ws://127.0.0.1:9006,warm=0",
			)
		}, []string{
			"listen 127.0.0.1:8080, path /v1/stt",
			`listen \[::1\]:8080, path /v1/stt`,
			"admin 127.0.0.1:9090",
			"profile one-shot: .*",
			"reuse none: .*",
			"failover off",
			"backend ws://127.0.0.1:9001, at most 32 connections, 8 kept warm, weight 1, enabled",
			"backend ws://127.0.0.1:9002/b, at most 4 connections, 4 kept warm, weight 0.25, enabled",
			"backend ws://127.0.0.1:9003, at most 32 connections, 8 kept warm, weight 1, draining",
			"backend ws://127.0.0.1:9004, at most 32 connections, 8 kept warm, weight 1, disabled",
			"backend ws://127.0.0.1:9005, at most 32 connections, 8 kept warm, weight 0, enabled",
			"backend ws://127.0.0.1:9006, at most 32 connections, 0 kept warm, weight 1, enabled",
			"balance round-robin",
			"queue at most 5 clients, for 1.5s each",
			"subprotocol audio.v1",
			"handshake passes path,query:model,header:Authorization,subprotocol; connections dialed before clients arrive carry none of it: use --warm 0 if the server requires a key",
			"sessions at most 68 at once", // the three that get clients
		}},
		"discovered servers": {func(s *Settings) { s.Backends = []string{"ws://stt.svc:2700,connections=16,discover=dns"} }, []string{
			"listen 127.0.0.1:8080, path / and every other path", "admin off", "profile one-shot: .*", "reuse none: .*", "failover off",
			"backend ws://stt.svc:2700, at most 16 connections, 16 kept warm, weight 1, enabled, for each discovered server",
			"balance least-loaded", "queue at most 1000 clients, for 10s each", "handshake .*",
			"sessions at most 16 at once, if each DNS name stands for one server",
		}},
		"nothing dialed ahead": {func(s *Settings) { s.Warm, s.Pass = 0, []string{"query"} }, []string{
			`handshake passes query; drops clients' Authorization, subprotocols \(--pass query,header:Authorization,subprotocol passes them as well\)`,
		}},
		"a key is wanted": {func(s *Settings) { s.Profile = "speechmatics" }, []string{
			"backend ws://127.0.0.1:9001, at most 100 connections, 0 kept warm, weight 1, enabled",
		}},
		"reuse":    {func(s *Settings) { s.Profile = "vosk" }, []string{"reuse lockstep"}},
		"failover": {func(s *Settings) { s.Profile, s.Service.Failover = "vosk", "replay" }, []string{"failover replay, full: clients see none of it"}},
		"no queue": {func(s *Settings) { s.Queue = 0 }, []string{"queue none: clients are refused when no connection is idle"}},
	} {
		s := validSettings()
		c.change(&s)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		got := s.Describe()
		for _, want := range c.lines {
			if !regexp.MustCompile("(?m)^" + strings.Replace(want, " ", " +", 1) + "$").MatchString(got) {
				t.Errorf("%s: no line %q in:\n%s", name, want, got)
			}
		}
		if n := strings.Count(got, "\n"); len(c.lines) > 1 && n != len(c.lines) {
			t.Errorf("%s: %d lines, want %d:\n%s", name, n, len(c.lines), got)
		}
	}
}
