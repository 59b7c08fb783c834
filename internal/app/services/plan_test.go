package services

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/route"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

func TestHashBy(t *testing.T) {
	for text, want := range map[string]route.HashBy{
		"client": {}, "header:X-Device": {Header: "X-Device"}, "header:x": {Header: "x"}, "query:device": {Query: "device"},
		"query:a:b": {Query: "a:b"},
	} {
		if got := hashBy(text); got != want {
			t.Errorf("%q is %+v; want %+v", text, got, want)
		}
	}
}

// What the text for all backends leaves out is the backend's own.
func TestProbe(t *testing.T) {
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
