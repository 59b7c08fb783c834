package config

import (
	"slices"
	"testing"
)

func TestTenantWarnings(t *testing.T) {
	content := NewContent()
	service := func(name, path string, auth ...string) {
		s := DefaultService()
		s.Path, s.Profile, s.Auth = path, "echo", auth
		content.Services[name] = s
	}
	backend := func(name, service, state string, connections int) {
		b := DefaultBackend()
		b.Service, b.URL, b.Connections, b.State = service, "ws://"+name, connections, state
		content.Backends[name] = b
	}
	service("stt", "/stt", "keys")
	service("open", "/open")
	service("mt", "/mt", "jwt")
	backend("gpu-1", "stt", "enabled", 8)
	backend("gpu-2", "stt", "draining", 8)
	backend("gpu-3", "mt", "enabled", 8)
	content.Services["mt"] = func() Service { s := content.Services["mt"]; s.JWTKeys = "file:/keys.json"; return s }()
	tenant := func(name string, guaranteed map[string]string) {
		c := NewTenant()
		c.Guaranteed = guaranteed
		content.Tenants[name] = c
	}
	tenant("a", map[string]string{"stt": "6", "mt": "8"})
	tenant("b", map[string]string{"stt": "3", "open": "2", "gone": "1"})
	snapshot, err := NewSnapshot("1", &content, CheckProfiles)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"the service gone, in which places are guaranteed to b, does not exist",
		"the service open does not authenticate clients (auth: none), so no client can use the 2 places that are guaranteed to b",
		"the service stt guarantees 9 places to a, b, and its enabled backends have 8 connections: each guarantee is scaled down to its part of them",
	}
	if got := snapshot.TenantWarnings(); !slices.Equal(got, want) {
		t.Errorf("%q;\nwant %q", got, want)
	}
}
