package hunt

import (
	"crypto/tls"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// Over TLS, sessions go as they do without it; some of their connections use TLS 1.2, and the others 1.3.
func TestTLS(t *testing.T) {
	server, client := securetest.NewAuthority(t).Loopback()
	var mu sync.Mutex
	seen := make(map[uint16]int)
	server.VerifyConnection = func(state tls.ConnectionState) error {
		mu.Lock()
		defer mu.Unlock()
		seen[state.Version]++
		return nil
	}
	s, err := sim.Start(sim.Options{Protocol: sim.Vosk, TLS: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	report := run(t, Options{URL: s.URL(), TLS: client, Protocol: sim.Vosk, Sessions: 200})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Completed != report.ByManner[CleanEnd] || report.Failed() > 0 {
		t.Error("not all sessions went as they should:", report.String())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 2 || seen[tls.VersionTLS12] == 0 || seen[tls.VersionTLS12] > seen[tls.VersionTLS13] {
		t.Errorf("connections by version: %v", seen)
	}
	// Without the authority no session begins.
	if report := run(t, Options{URL: s.URL(), Protocol: sim.Vosk, Sessions: 5}); report.Failed() != 5 {
		t.Errorf("without the authority: %s", report.String())
	}
}
