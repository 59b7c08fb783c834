package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func proven(t *testing.T, args string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, strings.Fields(args), &out)
	return out.String(), err
}

func TestDirect(t *testing.T) {
	out, err := proven(t, "-direct -events 0 -duration 1s -sessions 4 -speed 20 -shortest 2s -longest 4s -protocol vosk,deepgram -seed 7")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"vosk: seed 7, ", "deepgram: seed 7, ", "faults: foreign 0, lost 0, twice 0,", "in all, seed 7"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// By default, what can be taken over without a trace is proven.
func TestFull(t *testing.T) {
	if got := strings.Join(full(), " "); !strings.Contains(got, "vosk") || strings.Contains(got, "funasr") {
		t.Errorf("got %s", got)
	}
}

// With all, what a client can see is proven, too.
func TestAll(t *testing.T) {
	s, err := parse([]string{"-protocol", "all"}, io.Discard)
	if err != nil || !strings.Contains(s.protocols, "vosk,funasr") || !strings.Contains(s.protocols, "whisperlivekit") {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-protocol chat":                     `unknown protocol "chat"`,
		"-kinds explode":                     `-kinds: unknown event "explode": use one of close, kill, kill-all, move, slow, stall`,
		"vosk":                               `unexpected argument "vosk"`,
		"-protocol vosk -sessions -1":        "sessions: -1 is out of range",
		"-protocol vosk -direct -duration 5": "invalid value",
		"-protocol vosk -direct":             "without the proxy, no session survives 2000 events",
	} {
		if _, err := proven(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want %s", args, err, want)
		}
	}
}
