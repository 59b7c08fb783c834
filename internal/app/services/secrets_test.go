package services

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A parameter of a backend's URL is read for each dial, and neither shown nor part of what tells the server from others. What a client says in
// its own query is passed on as it is.
func TestSecretInQuery(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RawQuery
		http.NotFound(w, r)
	}))
	defer server.Close()
	directory := t.TempDir()
	file := filepath.Join(directory, "key")
	b := config.DefaultBackend()
	b.URL = strings.Replace(server.URL, "http", "ws", 1) + "/stt?model=en&api_key=file:" + file
	target, err := handshake.ParseTarget(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	readSecrets(target, &b, &secret.Source{Directories: []string{directory}})
	before := target.Server()
	for _, value := range []string{"hush", "hush+&2"} {
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		client := handshake.ClientPart{Query: "token=file:" + file}
		_, err := target.With(client).Dial(t.Context())
		want := "model=en&api_key=" + map[string]string{"hush": "hush", "hush+&2": "hush%2B%262"}[value] + "&" + client.Query
		if got := <-asked; got != want {
			t.Errorf("asked for %s; want %s", got, want)
		}
		if err == nil || strings.Contains(err.Error(), "hush") || target.Server() != before || strings.Contains(before+target.URL, "hush") {
			t.Errorf("%v; %s, %s", err, target.Server(), target.URL)
		}
	}
	if target, err = handshake.ParseTarget(b.URL); err != nil {
		t.Fatal(err)
	}
	readSecrets(target, &b, &secret.Source{Directories: []string{"/elsewhere"}})
	if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "URL: api_key: file:"+file+": the configuration may not refer to it: the setting secret-directory") {
		t.Errorf("%v", err)
	}
}

func TestSecretWarnings(t *testing.T) {
	t.Parallel()
	content := config.NewContent()
	content.Services["stt"] = config.DefaultService()
	for name, address := range map[string]string{"a": "ws://h/?key=hush", "b": "ws://h/?key=env:WSBOUNCER_SECRET_A", "c": "ws://h/?key=env:ADMIN_TOKEN", "d": "ws://h/?model=en"} {
		b := config.DefaultBackend()
		b.Service, b.URL = "stt", address
		if name == "d" {
			b.Headers = map[string]string{"Authorization": "Bearer file:/etc/shadow"}
		}
		content.Backends[name] = b
	}
	snapshot, err := config.NewSnapshot("1", &content, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := SecretWarnings(snapshot, &secret.Source{Variables: []string{"WSBOUNCER_SECRET_*"}, Directories: []string{"/etc/wsbouncer/secrets"}})
	if want := []string{
		"the URL of the backend a has a secret, in the parameter key: use key=env:NAME or key=file:/path, or a header",
		"the backend c cannot be dialed: env:ADMIN_TOKEN: the configuration may not refer to it: the setting secret-env of the process does not name it",
		"the backend d cannot be dialed: file:/etc/shadow: the configuration may not refer to it: the setting secret-directory of the process does not name it",
	}; !slices.Equal(got, want) {
		t.Errorf("warnings %q", got)
	}
}
