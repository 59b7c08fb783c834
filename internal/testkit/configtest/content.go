package configtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

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
	config.KindProfile: {"yaml": "# a comment: with a colon\nfrom: echo\nreset:\n  send: '{\"reset\" : 1}'\n\n  until: {json: {text: \"*\"}}\ncapacity: {total: {url: /x, json: slots}}\n"},
	config.KindService: {
		"path": "/v1/stt%20x", "host": "stt.example.org", "profile": "own-1", "subprotocol": "binary",
		"pass":         `["path","query","header:X-Key","subprotocol"]`,
		"allow-origin": `["https://a.example","null"]`, "balance": "random-two", "queue": "7",
		"queue-timeout": "1h2m3.5s", "max-message": "1025", "idle-timeout": "90s", "max-session": "2h",
		"connection-max-age": "0s", "connection-max-idle": "1ms", "connection-max-sessions": "2147483647",
		"dial-timeout": "1ms", "close-timeout": "1.5ms",
		"ping-interval": "0s", "ping-timeout": "11s",
		"probe": "http://:8000/health?a=b&c=%23", "probe-interval": "10ms", "probe-timeout": "1m", "probe-fall": "1000", "probe-rise": "1",
		"circuit-failures": "1000000", "slow-start": "0s",
		"canary": "/etc/wsbouncer/own canary.wav", "canary-text": "Hello: \"wörld\" # 1", "canary-model": "org/Model-1",
		"verified": "2026-11-22 own-1 reset=holds move=fails busy=untried version=Own: \"s\" # 1.0",
		"auth":     `["jwt","keys","external"]`, "auth-from": `["header","query:key","cookie:session","subprotocol:bearer"]`,
		"jwt-keys": "https://id.example.org/jwks.json?a=b", "jwt-issuer": "https://id.example.org/", "jwt-audience": `["stt","tts, too"]`,
		"jwt-algorithms": `["ES256"]`, "jwt-claims": `{"session-limit":"limits","tenant":"https://example.org/org"}`,
		"auth-url": "http://127.0.0.1:8000/auth?x=1", "certificate-tenant": "ou",
		"set-header": `{"X-Tenant":"{tenant}","X-Who":"{method}/{subject}, {key}"}`, "set-query": `{"tenant":"{tenant}"}`,
		"session-rate": "10/s", "byte-rate": "64KiB/m", "session-age": "10m",
		"client-session-rate": "10/s", "client-byte-rate": "10MiB/s", "client-message-rate": "1/s",
	},
	config.KindTenant: {
		"share": "2.5", "guaranteed": `{"all-1":"10","bare":"1"}`, "session-rate": "10/s", "byte-rate": "1KiB/s", "audio-quota": "10h/day",
	},
	config.KindKey: {
		"tenant": "acme", "hash": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "expires": "2027-01-31T00:00:00Z",
		"services": `["all-1","bare"]`, "session-rate": "10/s", "byte-rate": "1KiB/s", "message-rate": "1/m", "audio-quota": "300h/month",
	},
	config.KindBackend: {
		"service": "all-1", "url": "wss://gpu-1.example.org/asr?model=en&x=1", "connections": "auto", "connections-max": "100000", "warm": "0", "weight": "0.1",
		"state": "draining", "labels": `{"a.b/c-d":"x: y # z","on":"yes","quote":"\"'\\","rack":"03","tilde":"~","umlaut":"ü\u2028"}`,
		"calibrated": "2026-11-27 own-1 streams=24 lag-p95=1s version=Own: \"s\" # 1.0",
		"tls-ca":     "/etc/ssl/own ca.pem", "tls-server-name": "gpu.internal", "tls-insecure-skip-verify": "true",
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
	hashing := c.Services["stt"]
	hashing.Balance = "hash:header:X-User"
	c.Services["stt"] = hashing
	c.Services["bare"] = config.DefaultService()
	return c
}
