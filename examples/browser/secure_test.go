package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/devtools"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// A browser reaches the proxy over TLS with a key in the ways that it has: a subprotocol, the query and a cookie.
func TestKeys(t *testing.T) {
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		t.Skip("`make test-browser` runs this: it takes Chromium")
	}
	server, err := sim.Start(sim.Options{Protocol: sim.Echo})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	key, folder := apikey.New(), t.TempDir()
	file := filepath.Join(folder, "services.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `services:
  echo: {profile: echo, auth: [keys], auth-from: ["subprotocol:token", "query:key", "cookie:session"]}
backends:
  b1: {service: echo, url: %q, connections: 2}
keys:
  page: {hash: %q}
`, server.URL(), apikey.HashOf(key).String()), 0o600); err != nil {
		t.Fatal(err)
	}
	certificate := securetest.NewAuthority(t).Issue(nil, "127.0.0.1")
	settings := app.DefaultSettings()
	settings.Database, settings.StateDirectory, settings.Admin = file, folder, "127.0.0.1:0"
	settings.Listen, settings.TLSListen, settings.DrainTimeout = nil, []string{"127.0.0.1:0"}, 0
	certificateFile, keyFile := securetest.Files(t, certificate)
	settings.TLSCert, settings.TLSKey = []string{certificateFile}, []string{keyFile}
	var logged strings.Builder
	proxy, err := app.Start(t.Context(), settings, "test", slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			proxy.Shutdown()
		}
	})

	parsed, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pin := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	browser := devtools.Start(t, ctx, chromium, "--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(pin[:]))
	host := proxy.Addresses()[0].String()
	page := browser.Open("https://" + host + "/") // an answer that is no page, but has the origin that cookies need
	open := func(query, subprotocols string) string {
		return fmt.Sprintf(`new Promise((resolve) => {
			const socket = new WebSocket("wss://%s/%s", %s);
			socket.onopen = () => socket.send("hello");
			socket.onmessage = (event) => { resolve(event.data + " " + socket.protocol); socket.close(); };
			socket.onclose = (event) => resolve("closed " + event.code);
		})`, host, query, subprotocols)
	}
	for _, c := range []struct{ name, script, want string }{
		{"subprotocol", open("", `["token", "`+key+`"]`), "hello token"},
		{"wrong key", open("", `["token", "`+apikey.New()+`"]`), "closed 1006"},
		{"no key", open("", `[]`), "closed 1006"},
		{"query", open("?key="+key, `[]`), "hello "},
		{"cookie", `document.cookie = "session=` + key + `; Secure", ` + open("", `[]`), "hello "},
	} {
		var got string
		if page.Evaluate(c.script, &got); got != c.want {
			t.Errorf("%s: got %q; want %q", c.name, got, c.want)
		}
	}
	proxy.Shutdown()
	stopped = true
	if said := logged.String(); strings.Contains(said, key) || !strings.Contains(said, "key=page") {
		t.Errorf("the log has the key, or does not name it:\n%s", said)
	}
}
