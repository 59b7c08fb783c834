package cli

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

func TestBenchJudgesByThresholds(t *testing.T) {
	url := simulated(t, sim.Options{})
	closing := simulated(t, sim.Options{Fail: sim.FailOptions{Close: 0.1, CloseCode: 1011}})
	for _, c := range []struct {
		url    string
		failIf []string
		status int
		stdout []string
		stderr string
	}{
		{url, []string{"p99>1h", "failures>0", "rate<1"}, 0, []string{"p99>1h", "failures>0", "ok", "rate<1"}, ""},
		{url, []string{"p99>1ns", "failures>0"}, 1, []string{"failed"}, "thresholds: p99>1ns: failed, "},
		{closing, []string{"failures>3"}, 0, []string{"failures>3", "ok", "closed with 1011", "3 with 1011"}, ""},
		{closing, []string{"failure-rate>=100%"}, 1, []string{"100%"}, "thresholds: failure-rate>=100%: failed, 100%"},
		{closing, []string{"p99>1h"}, 1, nil, "3 connections failed"},
	} {
		args := []string{c.url, "-c", "3", "-r", "100", "-d", "200ms", "--quiet"}
		if c.url == closing {
			args[6] = "10s" // it ends when all clients have failed
		}
		for _, threshold := range c.failIf {
			args = append(args, "--fail-if", threshold)
		}
		status, stdout, stderr := bench(args...)
		if status != c.status || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%q: status %d, %s; want %d, %q", c.failIf, status, stderr, c.status, c.stderr)
		}
		for _, part := range c.stdout {
			if !strings.Contains(stdout, part) {
				t.Errorf("%q: no %q in\n%s", c.failIf, part, stdout)
			}
		}
	}
}

func TestBenchWritesSeriesAndReport(t *testing.T) {
	url := simulated(t, sim.Options{})
	dir := t.TempDir()
	series, page := filepath.Join(dir, "series.csv"), filepath.Join(dir, "report.html")
	status, stdout, stderr := bench(url, url+"/other", "-c", "4", "-r", "50", "-d", "300ms", "--session-length", "50ms", "--output", "json",
		"--series", series, "--report", page, "--fail-if", "sessions<1")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got struct {
		Sent, Sessions int
		Targets        []struct{ URL string }
		Thresholds     []struct{ Failed bool }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Sessions == 0 || len(got.Targets) != 2 || len(got.Thresholds) != 1 {
		t.Errorf("%v, %+v", err, got)
	}
	file, err := os.Open(series)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if lines, err := csv.NewReader(file).ReadAll(); err != nil || len(lines) < 2 || !slices.Contains(lines[0], "p99_ms") {
		t.Errorf("%v, %q", err, lines)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "</html>") || !strings.Contains(string(html), url+"/other") {
		t.Errorf("%v: %s", err, html)
	}
}

// A file that cannot be written is told before the load, and none is left behind when there was no load.
func TestBenchLeavesNoFilesWithoutResult(t *testing.T) {
	dir := t.TempDir()
	series := filepath.Join(dir, "series.csv")
	status, stdout, stderr := bench("ws://127.0.0.1:1/", "--series", series, "--report", filepath.Join(dir, "no", "report.html"))
	if status != 1 || stdout != "" || !strings.Contains(stderr, "--report: ") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if _, err := os.Stat(series); !os.IsNotExist(err) {
		t.Errorf("the series is there: %v", err)
	}
}

// Programs get an object with verdicts and trouble, also of a run that could not measure: a server that refuses the session alone, a file that cannot be
// written.
func TestBenchPrintsJSONWithoutResult(t *testing.T) {
	full := simulated(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	for _, c := range []struct {
		args     []string
		failures int
		trouble  string
	}{
		{[]string{full, full + "/b", "--audio", "sample"}, 1, "server answered 503"},
		{[]string{full, full + "/b", "--audio", "sample", "--report", filepath.Join(t.TempDir(), "no", "page.html")}, 0, "--report: open"},
		{[]string{full, full + "/b", "--report", filepath.Join(t.TempDir(), "no", "page.html")}, 0, "--report: open"},
	} {
		status, stdout, stderr := bench(append(c.args, "-c", "3", "--json", "--fail-if", "p99>1h")...)
		var got struct {
			Connections int
			Failures    int            `json:"connect_failures"`
			Errors      map[string]int `json:"errors"`
			Targets     []struct{ Connections int }
			Thresholds  []struct{ Measured, Failed bool }
			Trouble     string
			Settings    map[string]any
		}
		decoder := json.NewDecoder(strings.NewReader(stdout))
		if err := decoder.Decode(&got); err != nil || decoder.More() || status != 1 || !strings.Contains(stderr, c.trouble) {
			t.Fatalf("%q: status %d, %v: %s\n%s", c.args, status, err, stdout, stderr)
		}
		if got.Connections != 3 || got.Failures != c.failures || got.Errors["connect: HTTP 503"] != c.failures || len(got.Targets) != 2 || got.Targets[0].Connections != 2 ||
			len(got.Thresholds) != 1 || got.Thresholds[0].Measured || !got.Thresholds[0].Failed || !strings.Contains(got.Trouble, c.trouble) {
			t.Errorf("%q: %s", c.args, stdout)
		}
		if _, audio := got.Settings["profile"]; audio != slices.Contains(c.args, "--audio") || audio == (got.Settings["rate"] != nil) {
			t.Errorf("%q: settings %v", c.args, got.Settings)
		}
	}
}

// A server that repeats the client's key does not bring it into what is printed.
func TestBenchHidesKeys(t *testing.T) {
	upgrader := websocket.Upgrader{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"error","message":"bad key `+r.Header.Get("Authorization")+`"}`))
		_, _, _ = c.ReadMessage()
	}))
	defer server.Close()
	status, stdout, stderr := bench("ws"+strings.TrimPrefix(server.URL, "http"), "--profile", "realtimestt", "--audio", "sample", "--json", "-H", "Authorization=Bearer s3cret")
	if status != 1 || !strings.Contains(stdout, "bad key (hidden)") || !strings.Contains(stdout, `"the server reported that the session failed":1`) || strings.Contains(stdout+stderr, "s3cret") {
		t.Errorf("status %d: %s\n%s", status, stdout, stderr)
	}
}

// What was in a file before stays if there was nothing to measure, also behind a link.
func TestBenchKeepsEarlierFiles(t *testing.T) {
	dir := t.TempDir()
	page, link, dangling := filepath.Join(dir, "page.html"), filepath.Join(dir, "link.csv"), filepath.Join(dir, "dangling.html")
	series, missing := filepath.Join(dir, "series.csv"), filepath.Join(dir, "missing.html")
	for _, name := range []string{page, series} {
		if err := os.WriteFile(name, []byte("earlier"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(series, link), os.Symlink(missing, dangling)); err != nil {
		t.Skip(err)
	}
	for report, series := range map[string]string{page: link, dangling: link} {
		if status, _, stderr := bench("ws://127.0.0.1:1/", "--audio", "sample", "--report", report, "--series", series); status != 1 || !strings.Contains(stderr, "connection refused") {
			t.Errorf("status %d: %s", status, stderr)
		}
	}
	for _, name := range []string{page, series, link} {
		if text, err := os.ReadFile(name); string(text) != "earlier" {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a file is left behind")
	}
	if _, err := os.Lstat(dangling); err != nil {
		t.Error(err)
	}
}

func TestBenchSendsHeaderAndSubprotocol(t *testing.T) {
	requests := make(chan http.Header, 1)
	upgrader := websocket.Upgrader{Subprotocols: []string{"speech.v2"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Header.Clone()
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	defer server.Close()
	t.Setenv("BENCH_KEY", "abc")
	status, _, stderr := bench("ws"+strings.TrimPrefix(server.URL, "http"), "-c", "1", "-d", "50ms", "--quiet",
		"--header", "Authorization=Bearer env:BENCH_KEY", "-H", "X-Tenant:  7 ", "--subprotocol", "speech.v2")
	if status != 0 || !strings.HasPrefix(stderr, "Warning: --header: the form \"Name: value\" is deprecated: use NAME=VALUE\n") {
		t.Fatalf("status %d: %s", status, stderr)
	}
	header := <-requests
	for name, want := range map[string]string{"Authorization": "Bearer abc", "X-Tenant": "7", "Sec-Websocket-Protocol": "speech.v2"} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
}
