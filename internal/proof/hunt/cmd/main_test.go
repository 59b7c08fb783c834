package main

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hunted runs the command for the time of the test.
func hunted(t *testing.T, args string) (string, error) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, strings.Fields(args), &out)
	left, dirErr := os.ReadDir(os.TempDir())
	if dirErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, dirErr)
	}
	return out.String(), err
}

func TestHunt(t *testing.T) {
	out, err := hunted(t, "-sessions 300 -protocols echo,vosk,sherpa-onnx -manners clean-end:1 -settings 0")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"echo: 100 sessions", "vosk: 100 sessions", "sherpa-onnx: 100 sessions", "profile sherpa-onnx-hunted",
		"100 completed", "300 sessions in all, 0 leaks",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// The hunt goes well with TLS on both sides, and removes its certificate.
func TestHuntOverTLS(t *testing.T) {
	out, err := hunted(t, "-tls -sessions 200 -protocols vosk -manners clean-end:1 -settings 0")
	if err != nil || !strings.Contains(out, "200 completed") || !strings.Contains(out, "0 failed") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Nothing leaks while servers die in the middle of frames and sessions continue on others.
func TestHuntWithFailover(t *testing.T) {
	out, err := hunted(t, "-failover -kill-every 50ms -sessions 400 -protocols vosk,dashscope -fail midframe:0.01,close:1011:0.01")
	if err != nil || !strings.Contains(out, "400 sessions in all, 0 leaks") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The hunt goes well while garbage is collected all the time.
func TestHuntWhileCollecting(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if out, err := hunted(t, "-sessions 300 -protocols echo -settings 0 -gc-every 1ms"); err != nil || !strings.Contains(out, "300 sessions in all, 0 leaks") {
		t.Fatalf("%v\n%s", err, out)
	}
	if runtime.ReadMemStats(&after); after.NumForcedGC-before.NumForcedGC < 2 {
		t.Errorf("garbage was collected %d times", after.NumForcedGC-before.NumForcedGC)
	}
}

// A leak fails the command, with the traces.
func TestHuntFindsLeak(t *testing.T) {
	_, err := hunted(t, "-sessions 100000 -protocols vosk -unsafe vosk=blind -timeout 300ms -settings 0")
	if err == nil || !strings.Contains(err.Error(), "leaks; the first: session") || strings.Count(err.Error(), "manner ") != 2 {
		t.Errorf("got %v; want a leak with both traces", err)
	}
}

// Where each session has a connection to itself, nothing can leak, and the hunt proves nothing.
func TestHuntWithoutReuse(t *testing.T) {
	out, err := hunted(t, "-sessions 200 -protocols echo -profile one-shot -settings 0")
	if err == nil || !strings.Contains(err.Error(), "echo: no connection served a second session") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A hunt without leaks fails if it has not tested what it is for.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		want   string
		s      settings
		change func(r *hunt.Report, pool *api.Totals)
	}{
		{"", settings{}, func(*hunt.Report, *api.Totals) {}},
		{"no session got its last result", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Completed = 0 }},
		{"no connection served a second session", settings{}, func(_ *hunt.Report, pool *api.Totals) { pool.Returned = 0 }},
		{"only 249 of 1000 sessions left their connection", settings{}, func(_ *hunt.Report, pool *api.Totals) { pool.Returned = 249 }},
		{"of 1000 sessions, 1 failed", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Errors[hunt.Timeout]++ }},
		{"0 failed, 1 were refused", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Refused++ }},
		{"0 failed, 1 were refused", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Busy++ }},
		{"1 got nothing of their own audio", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Mute++ }},
		{"of 600 sessions that ended in order, 599 got", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Completed-- }},
		{"", settings{}, func(r *hunt.Report, _ *api.Totals) { r.Leaks, r.Mute = 1, 1 }}, // the leak is reported instead
		{"", settings{nasty: "full:8"}, func(r *hunt.Report, _ *api.Totals) { r.Busy++ }},
		{"", settings{fail: "close:1011:0.1"}, func(r *hunt.Report, _ *api.Totals) { r.Errors["close 1011"]++ }},
		{"", settings{killEvery: 1}, func(_ *hunt.Report, pool *api.Totals) { pool.Returned = 1 }},
		{"no connection served a second session", settings{killEvery: 1}, func(_ *hunt.Report, pool *api.Totals) { pool.Returned = 0 }},
	} {
		r, pool := hunt.Report{Protocol: "vosk"}, api.Totals{Leased: 1000, Returned: 750}
		r.Sessions, r.Completed, r.Errors = 1000, 600, make(map[string]int)
		r.ByManner[hunt.CleanEnd], r.ByManner[hunt.Vanish] = 600, 400
		test.change(&r, &pool)
		if err := test.s.judge(&r, &pool); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("want %q; got %v", test.want, err)
		}
	}
}

// By default, everything that reuses connections is hunted in.
func TestReusable(t *testing.T) {
	if got, want := strings.Join(reusable(), " "), "echo vosk funasr funasr-realtime sherpa-onnx dashscope vllm-realtime watson sglang-realtime cartesia elevenlabs-tts"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-protocols chat":                          `unknown protocol "chat"`,
		"-protocols vosk -unsafe vosk":             `-unsafe: "vosk": use protocol=risk`,
		"-protocols vosk -unsafe vosk=fun":         `unknown value "fun": use one of quiet, doubt, blind`,
		"-protocols vosk -nasty rude":              "unknown switch",
		"-protocols vosk -fail rude":               "unknown failure",
		"-manners rude:1":                          `unknown manner "rude"`,
		"-protocols vosk -profile chat":            `unknown profile "chat"`,
		"-protocols vosk -sessions 0":              "sessions: 0 is out of range",
		"vosk":                                     `unexpected argument "vosk"`,
		"-protocols vosk -sessions 5 -nasty full":  "use full:n",
		"-protocols vosk -sessions 5 -settings -1": "settings: invalid probability -1",
	} {
		if _, err := hunted(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want %s", args, err, want)
		}
	}
}
