package token

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestURLSource(t *testing.T) {
	document := tokentest.KeySet(tokentest.NewSigner(t, "a", "ES256").JWK())
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(document) }))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/jwks.json", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key") != "s3cret" || r.Header.Get("Accept") == "" {
			t.Errorf("the request is %s %v", r.URL, r.Header)
		}
		w.Header().Set("Cache-Control", "public, max-age=120")
		_, _ = w.Write(document)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/jwks.json?key=s3cret", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat(" ", 4096))); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/jwks.json?key=s3cret": "", "/moved": "",
		"/away": "redirects to another one", "/file": "redirects to another one", "/round": "redirects more than 3 times",
		"/gone": "answers 410 Gone", "/endless": "larger than 524288 bytes", "/nothing": "answers 404 Not Found",
	} {
		from := newSource(server.URL + path)
		got, fresh, err := from.read(context.Background())
		switch {
		case want == "" && (err != nil || string(got) != string(document) || fresh != 2*time.Minute):
			t.Errorf("%s: %v, holds for %v", path, err, fresh)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), server.URL)):
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if strings.Contains(from.String(), "s3cret") {
			t.Errorf("%s shows a secret", from)
		}
	}
	_, _, err := newSource("http://" + wstest.FreeAddress(t) + "/jwks.json?key=s3cret").read(context.Background())
	if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a server that is unreachable: %v", err)
	}
}

func TestFreshness(t *testing.T) {
	for control, want := range map[string]time.Duration{
		"": freshFor, "no-store": freshFor, "max-age=600": 10 * time.Minute, "public, Max-Age=120, must-revalidate": 2 * time.Minute,
		"max-age=0": leastFresh, "max-age=86400": mostFresh, "max-age=-1": freshFor, "max-age=x": freshFor, "max-age=99999999999999999999": freshFor,
	} {
		if got := freshness(http.Header{"Cache-Control": {control}}); got != want {
			t.Errorf("%q: %v, want %v", control, got, want)
		}
	}
}

func TestFileSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	from := newSource("file:" + path)
	if from.String() != "file:"+path {
		t.Errorf("it is called %s", from)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := from.read(context.Background()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
	document := tokentest.KeySet(tokentest.NewSigner(t, "a", "ES256").JWK())
	write(document)
	if got, fresh, err := from.read(context.Background()); err != nil || string(got) != string(document) || fresh != fileInterval {
		t.Errorf("%s, %v, %v", got, fresh, err)
	}
	write(make([]byte, maxDocument+1))
	if _, _, err := from.read(context.Background()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge file: %v", err)
	}
	if _, _, err := newSource("file:" + filepath.Dir(path)).read(context.Background()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// A token with a key that the file does not have yet has it read at once.
func TestNewKeyInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	first, second := tokentest.NewSigner(t, "first", "ES256"), tokentest.NewSigner(t, "second", "ES256")
	write := func(document []byte) {
		t.Helper()
		if err := os.WriteFile(path, document, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokentest.KeySet(first.JWK()))
	synctest.Test(t, func(t *testing.T) {
		k, _ := started(t, newSource("file:"+path))
		if err := has(k, "first"); err != nil {
			t.Fatal(err)
		}
		write(tokentest.KeySet(second.JWK()))
		time.Sleep(minFilePause)
		if err := has(k, "second"); err != nil {
			t.Error(err)
		}
	})
}

// A file on a mount that hangs holds up its key set no longer than others may take.
func TestFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/run/keys/hangs.json"
		mount := make(chan struct{})
		go func() { _, _ = timedread.Do(path, func() (any, error) { <-mount; return nil, nil }) }()
		synctest.Wait()
		if _, _, err := fileSource(path).read(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		close(mount)
	})
}
