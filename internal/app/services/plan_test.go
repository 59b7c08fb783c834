package services

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

func TestBalance(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]servicePlan{
		"least-loaded": {balance: pool.LeastLoaded}, "hash:client": {balance: pool.Hash}, "hash": {balance: pool.Hash},
		"hash:header:X-Device": {balance: pool.Hash, hashBy: route.HashBy{Header: "X-Device"}},
		"hash:query:a:b":       {balance: pool.Hash, hashBy: route.HashBy{Query: "a:b"}},
	} {
		settings := config.DefaultService()
		settings.Balance = text
		content := config.NewContent()
		content.Services["stt"] = settings
		p := planOf(t, &content, nil)
		if got := p.services["stt"]; got.balance != want.balance || got.hashBy != want.hashBy {
			t.Errorf("%q is %v by %+v; want %v by %+v", text, got.balance, got.hashBy, want.balance, want.hashBy)
		}
	}
}

// A server whose system acknowledges nothing is given up when a ping would show that it is gone.
func TestUserTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ interval, timeout, want time.Duration }{
		{20 * time.Second, 10 * time.Second, 30 * time.Second}, {time.Minute, time.Second, 61 * time.Second}, {0, time.Hour, 30 * time.Second},
	} {
		if got := userTimeout(&config.Service{PingInterval: c.interval, PingTimeout: c.timeout}); got != c.want {
			t.Errorf("with pings each %v within %v it is %v; want %v", c.interval, c.timeout, got, c.want)
		}
	}
}

// What the text for all backends leaves out is the backend's own.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ probe, backend, url string }{
		{"upgrade", "ws://h:9001/stt", ""},
		{"/health", "ws://h:9001/stt?a=b", "http://h:9001/health"},
		{"/health?deep=1", "ws://h/stt", "http://h:80/health?deep=1"},
		{"/", "ws://[::1]:9001", "http://[::1]:9001/"},
		{"http://other:8000/health", "ws://h:9001", "http://other:8000/health"},
		{"https://other/health", "ws://h:9001", "https://other/health"},
		{"http://:8000/health", "ws://h:9001", "http://h:8000/health"},
		{"https://:8443", "ws://[::1]:9001", "https://[::1]:8443"},
	} {
		target, err := handshake.ParseTarget(c.backend)
		if err != nil {
			t.Fatal(err)
		}
		b := backendPlan{service: config.DefaultService(), target: target}
		b.service.Probe = c.probe
		probe, got := b.probe(), ""
		if probe.URL != nil {
			got = probe.URL.String()
		}
		s := &b.service
		if got != c.url || probe.Interval != s.ProbeInterval || probe.Timeout != s.ProbeTimeout || probe.Fall != s.ProbeFall || probe.Rise != s.ProbeRise {
			t.Errorf("%s of %s is %q, %+v; want %q", c.probe, c.backend, got, probe, c.url)
		}
	}
	if probe := (&backendPlan{service: config.DefaultService()}).probe(); probe != nil {
		t.Errorf("without a probe: %+v", probe)
	}
}
