package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// testOptions are those of a short run, as fast as the answers come.
func testOptions(backends ...string) options {
	return options{clients: 3, rounds: 2, servers: 2, backends: backends, profile: "one-shot", proxy: proxyBinary}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// startSimulator starts a simulated Vosk server.
func startSimulator(t *testing.T) string {
	t.Helper()
	server, err := sim.Start(sim.Options{Protocol: sim.Vosk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.URL()
}

// startFake starts a server that does as it likes with each connection, which it is told the number of.
func startFake(t *testing.T, serve func(ctx context.Context, conn *websocket.Conn, number int64)) string {
	t.Helper()
	var number atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		serve(r.Context(), conn, number.Add(1))
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

// answerAll answers as a Vosk server does, with the given text in the end.
func answerAll(ctx context.Context, conn *websocket.Conn, text string) {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return
		}
		reply := `{"partial" : ""}`
		switch {
		case bytes.Contains(message, []byte("config")):
			continue
		case kind == websocket.MessageText:
			reply = fmt.Sprintf(`{"text" : %q}`, text)
		}
		if conn.Write(ctx, websocket.MessageText, []byte(reply)) != nil {
			return
		}
		if kind == websocket.MessageText {
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return
		}
	}
}

func TestRun(t *testing.T) {
	for profile, served := range map[string]string{
		"one-shot": "in all: 6 sessions, ",
		"vosk":     "in all: 6 sessions, 4 connections dialed, 6 times one was returned for another session\n",
	} {
		t.Run(profile, func(t *testing.T) {
			o := testOptions(startSimulator(t), startSimulator(t))
			o.profile = profile
			var out bytes.Buffer
			if err := run(testContext(t), o, &out); err != nil {
				t.Fatal(err)
			}
			expectOutput(t, out.String(),
				"3 clients stream 5 recordings",
				"client 1   amiable      ... speech-",
				"client 2   leisure        = utterance-1 speech-",
				"recording      sessions   equal   without the proxy\n",
				"amiable        1          1       utterance-1 speech-",
				"cold-hearted   2          2       utterance-1 speech-",
				"synthetic      0          0       utterance-1 speech-",
				"answers to 6 sessions, compared to the letter\n",
				served,
			)
		})
	}
}

// expectOutput expects texts in what was printed.
func expectOutput(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("there is no %q in\n%s", text, out)
		}
	}
}

func TestRunFindsOtherAnswers(t *testing.T) {
	url := startFake(t, func(ctx context.Context, conn *websocket.Conn, number int64) {
		answerAll(ctx, conn, fmt.Sprintf("words of connection %d", number))
	})
	var out bytes.Buffer
	err := run(testContext(t), testOptions(url), &out)
	if err == nil || !strings.Contains(err.Error(), "client 3, young-man: not what the recogniser says without the proxy: answer 16 is") {
		t.Errorf("got %v", err)
	}
	expectOutput(t, out.String(), "cold-hearted   2          0       words of connection")
}

func TestRunReportsSessionsThatFail(t *testing.T) {
	url := startFake(t, func(ctx context.Context, conn *websocket.Conn, _ int64) {
		if _, _, err := conn.Read(ctx); err == nil {
			_ = conn.Close(websocket.StatusInternalError, "out of memory")
		}
	})
	err := run(testContext(t), testOptions(url), new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "amiable, without the proxy: ") || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("got %v", err)
	}
}

// interrupting is a writer that calls a function when a transcript is shown.
type interrupting struct {
	bytes.Buffer
	interrupt func()
}

func (w *interrupting) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("...")) {
		w.interrupt()
	}
	return w.Buffer.Write(p)
}

func TestRunEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	o := testOptions(startSimulator(t))
	o.speed = 1
	err := run(ctx, o, &interrupting{interrupt: cancel})
	if err == nil || err.Error() != "interrupted" {
		t.Errorf("got %v", err)
	}
}

func TestRunSaysWhatCannotBeStarted(t *testing.T) {
	ctx := testContext(t)
	url := startSimulator(t)
	for _, test := range []struct {
		name   string
		change func(*options)
		want   string
	}{
		{"no Python", func(o *options) { o.backends, o.python = nil, "/nowhere/python" }, "starting recogniser 1: "},
		{"a recogniser that ends", func(o *options) { o.backends, o.python, o.server = nil, proxyBinary, "version" }, "recogniser 1 has ended (exit status 2): "},
		{"no proxy", func(o *options) { o.proxy = "/nowhere/wsbouncer" }, "starting the proxy: "},
		{"a profile that does not exist", func(o *options) { o.profile = "nobody's" }, `the proxy has ended (exit status 2): `},
		{"no file", func(o *options) { o.clips = []string{"/nowhere/speech.wav"} }, "/nowhere/speech.wav: no such file"},
		{"no WAV file", func(o *options) { o.clips = []string{"run_test.go"} }, "run_test.go: not a WAV file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := testOptions(url)
			test.change(&o)
			err := run(ctx, o, new(bytes.Buffer))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v; want an error with %q", err, test.want)
			}
		})
	}
}

// TestRecogniser runs all of it with the real recogniser, over connections that are used again.
func TestRecogniser(t *testing.T) {
	python := os.Getenv("STT_PYTHON")
	if python == "" {
		t.Skip("`make test-stt` runs this: it takes a Python with the requirements of examples/pocketsphinx")
	}
	o := testOptions()
	o.python, o.server, o.profile = python, "../pocketsphinx/server.py", "vosk"
	var out bytes.Buffer
	if err := run(testContext(t), o, &out); err != nil {
		t.Fatal(err)
	}
	expectOutput(t, out.String(),
		"cold-hearted   2          2       hello study rather cold hearted",
		"in all: 6 sessions, 4 connections dialed, 6 times one was returned for another session\n",
	)
}
