// Package configtest has the contract of [config.Store] as tests, which every store must pass.
package configtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Place is where the stores of one test keep their configuration, empty at first.
type Place struct {
	// Open returns a store for the place. All stores of one place see the same configuration, as if each belonged to another
	// process. The test closes them.
	Open func(t testing.TB, options config.Options) config.Store
	// Single says that a place can have only one open store.
	Single bool
}

// Run tests the stores of new places.
func Run(t *testing.T, place func(t *testing.T) Place) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Place)
		both bool // needs two stores in one place
	}{
		{"empty", testEmpty, false},
		{"round trip", testRoundTrip, false},
		{"back to defaults", testDefaults, false},
		{"mutations", testMutations, false},
		{"refused", testRefused, false},
		{"profiles are checked", testProfileCheck, false},
		{"nothing to change", testNoChange, false},
		{"conflict", testConflict, false},
		{"one writer wins", testWriters, false},
		{"no update is lost", testLostUpdate, false},
		{"history", testHistory, false},
		{"many versions", testManyVersions, false},
		{"secrets", testSecrets, false},
		{"roll back", testRollBack, false},
		{"watch oneself", testWatchOneself, false},
		{"watch others", testWatchOthers, true},
		{"watch is coalesced", testCoalesced, false},
		{"cancelled", testCancelled, false},
		{"closed", testClosed, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := place(t)
			if test.both && p.Single {
				t.Skip("only one store can be open here")
			}
			test.run(t, p)
		})
	}
}

// open opens a store, and closes it when the test ends.
func (p Place) open(t testing.TB) config.Store {
	t.Helper()
	s := p.Open(t, config.Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// other opens a second store if the place allows it; otherwise it returns the first.
func (p Place) other(t testing.TB, first config.Store) config.Store {
	if p.Single {
		return first
	}
	return p.open(t)
}

func load(t testing.TB, s config.Store) *config.Snapshot {
	t.Helper()
	snapshot, err := s.Load(t.Context())
	if err != nil {
		t.Fatalf("loading: %v", err)
	}
	return snapshot
}

// apply applies a change that must succeed.
func apply(t testing.TB, s config.Store, change config.Change) *config.Snapshot {
	t.Helper()
	if change.Who == "" {
		change.Who = "tester"
	}
	snapshot, err := s.Apply(t.Context(), change)
	if err != nil {
		t.Fatalf("applying: %v", err)
	}
	return snapshot
}

// replace replaces the configuration with a content.
func replace(t testing.TB, s config.Store, content config.Content) *config.Snapshot {
	t.Helper()
	return apply(t, s, config.Change{Expect: load(t, s).Version(), Content: &content})
}

// set returns the mutation of some fields of a backend.
func set(backend string, values config.Values) []config.Mutation {
	return []config.Mutation{{Verb: config.Set, Kind: config.KindBackend, Name: backend, Values: values}}
}

// same fails the test unless two contents are equal, and says what is different.
func same(t testing.TB, what string, got, want config.Content) {
	t.Helper()
	if edits := config.Diff(&want, &got); len(edits) > 0 {
		t.Errorf("%s: it differs from what it should be:\n%v", what, edits)
	}
}

func history(t testing.TB, s config.Store, limit int) []config.Revision {
	t.Helper()
	revisions, err := s.History(t.Context(), limit)
	if err != nil {
		t.Fatalf("history: %v", err)
	}
	return revisions
}

// Bench loads, validates and compares a configuration of 5,000 backends.
func Bench(b *testing.B, s config.Store) {
	content := Sized(5000)
	before, err := s.Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if before, err = s.Apply(b.Context(), config.Change{Who: "bench", Expect: before.Version(), Content: &content}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		now, err := s.Load(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if edits := before.Diff(now); len(edits) > 0 {
			b.Fatal(edits)
		}
	}
}

// Small returns a valid content: a service with two backends.
func Small() config.Content { return Sized(2) }

// Sized returns a valid content with that many backends, each with labels.
func Sized(backends int) config.Content {
	c := config.NewContent()
	service := config.DefaultService()
	service.Path = "/v1/stt"
	c.Services["stt"] = service
	for i := range backends {
		b := config.DefaultBackend()
		b.Service, b.URL, b.Connections = "stt", fmt.Sprintf("ws://10.%d.%d.%d:2700/", i>>16, i>>8&255, i&255), 32
		b.Labels = map[string]string{"zone": "a"}
		c.Backends[fmt.Sprintf("gpu-%d", i+1)] = b
	}
	return c
}

// unusual has texts of fields that differ from the defaults, and are hard to encode where the field allows it. The function other
// returns texts for numbers, durations, sizes, flags and choices that are missing here.
var unusual = map[config.Kind]config.Values{
	config.KindProfile: {"yaml": "# a comment: with a colon\nfrom: echo\nreset:\n  send: '{\"reset\" : 1}'\n\n  until: {json: {text: \"*\"}}\n"},
	config.KindService: {
		"path": "/v1/stt%20x", "host": "stt.example.org", "profile": "own-1", "subprotocol": "binary",
		"pass":         `["path","query","header:X-Key","subprotocol"]`,
		"allow-origin": `["https://a.example","null"]`, "balance": "random-two", "hash-by": "header:X-User", "queue": "7",
		"queue-timeout": "1h2m3.5s", "max-message": "1025", "idle-timeout": "90s", "max-session": "2h",
		"connection-max-age": "0s", "connection-max-idle": "1ms", "connection-max-sessions": "2147483647",
		"dial-parallel": "10000", "dial-timeout": "1ms", "reset-timeout": "720h", "close-timeout": "1.5ms",
		"ping-interval": "0s", "ping-timeout": "11s", "tcp-user-timeout": "0s",
		"probe": "http://:8000/health?a=b&c=%23", "probe-interval": "10ms", "probe-timeout": "1m", "probe-fall": "1000", "probe-rise": "1",
		"circuit-failures": "1000000", "slow-start": "0s",
		"canary": "/etc/wsbouncer/own canary.wav", "canary-text": "Hello: \"wörld\" # 1", "canary-model": "org/Model-1",
		"verified": "2026-11-22 own-1 reset=holds move=fails busy=untried version=Own: \"s\" # 1.0",
		"auth":     `["jwt","keys","external"]`, "auth-from": `["header","query:key","cookie:session","subprotocol:bearer"]`,
		"jwt-keys": "https://id.example.org/jwks.json?a=b", "jwt-issuer": "https://id.example.org/", "jwt-audience": `["stt","tts, too"]`,
		"jwt-algorithms": `["ES256"]`, "jwt-claims": `{"session-limit":"limits","tenant":"https://example.org/org"}`,
		"auth-url": "http://127.0.0.1:8000/auth?x=1", "certificate-tenant": "ou",
		"set-header": `{"X-Tenant":"{tenant}","X-Who":"{method}/{subject}, {key}"}`, "set-query": `{"tenant":"{tenant}"}`,
		"session-rate": "10/s", "byte-rate": "64KiB/m", "message-rate": "100/h",
		"client-session-rate": "10/s", "client-byte-rate": "10MiB/s", "client-message-rate": "1/s",
	},
	config.KindTenant: {
		"share": "2.5", "guaranteed": `{"all-1":"10","bare":"1"}`, "session-rate": "10/s", "byte-rate": "1KiB/s", "message-rate": "1/m",
	},
	config.KindKey: {
		"tenant": "acme", "hash": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "expires": "2027-01-31T00:00:00Z",
		"services": `["all-1","bare"]`, "session-rate": "10/s", "byte-rate": "1KiB/s", "message-rate": "1/m",
	},
	config.KindBackend: {
		"service": "all-1", "url": "wss://gpu-1.example.org/asr?model=en&x=1", "connections": "100000", "warm": "0", "weight": "0.1",
		"state": "draining", "labels": `{"a.b/c-d":"x: y # z","on":"yes","quote":"\"'\\","rack":"03","tilde":"~","umlaut":"ü\u2028"}`,
		"tls-ca": "/etc/ssl/own ca.pem", "tls-server-name": "gpu.internal", "tls-insecure-skip-verify": "true",
		"tls-certificate": `C:\certificates\client.pem`, "tls-key": "/etc/ssl/client.key",
		"headers": `{"Authorization":"Token env:STT_TOKEN","X-Key":"file:/run/secrets/key","X-Region":"eu, west"}`,
	},
}

// other returns a text that the field's type allows and that is not its default; the default if it knows no other.
func other(f config.Field) string {
	texts := map[string][]string{"int": {"7", "8"}, "float64": {"0.5", "0.25"}, "bool": {"true", "false"}, "size": {"1025", "1026"}, "duration": {"7s", "8s"}}[f.Type]
	if f.Type == "string" {
		texts = strings.Split(f.Allowed, ", ") // of a choice
	}
	for _, text := range texts {
		if text != f.Default {
			return text
		}
	}
	return f.Default
}

// Unusual returns a valid content: some entities have no field with its default, and others have only defaults.
func Unusual(t testing.TB) config.Content {
	c := Small()
	for kind, name := range map[config.Kind]string{config.KindProfile: "own-1", config.KindService: "all-1", config.KindBackend: "all.fields_1", config.KindTenant: "acme", config.KindKey: "mobile-app"} {
		values := make(config.Values)
		for _, f := range config.Fields(kind) {
			text, ok := unusual[kind][f.Name]
			if !ok {
				text = other(f)
			}
			if text == f.Default {
				t.Errorf("the contract's test has the default for the field %s of a %s: add a text to unusual", f.Name, kind)
			}
			values[f.Name] = text
		}
		if problems := c.Set(kind, name, values); len(problems) > 0 {
			t.Fatalf("the contract's test has wrong texts: %v", problems)
		}
	}
	c.Services["bare"] = config.DefaultService()
	return c
}
