package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
)

// bench runs the bench command and returns its exit status and what it printed.
func bench(args ...string) (status int, stdout, stderr string) {
	var out, messages bytes.Buffer
	status = Main(append([]string{"bench"}, args...), &out, &messages)
	return status, out.String(), messages.String()
}

func simulated(t *testing.T, o sim.Options) string {
	t.Helper()
	server, err := sim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.URL()
}

func TestBenchPrintsOneJSONObject(t *testing.T) {
	url := simulated(t, sim.Options{})
	status, stdout, stderr := bench(url, "--connections", "5", "--rate", "50", "--size", "100", "--text", "--duration", "200ms", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got map[string]any
	decoder := json.NewDecoder(strings.NewReader(stdout))
	if err := decoder.Decode(&got); err != nil || decoder.More() {
		t.Fatalf("%v: %s", err, stdout)
	}
	for field, want := range map[string]any{
		"connections": 5.0, "connected": 5.0, "connect_failures": 0.0, "sent": 50.0, "received": 50.0,
		"unsent": 0.0, "lost": 0.0, "mixed": 0.0, "failed": 0.0,
	} {
		if got[field] != want {
			t.Errorf("%s is %v; want %v", field, got[field], want)
		}
	}
	for _, field := range []string{"latency_ms", "connect_ms", "first_echo_ms"} {
		times, _ := got[field].(map[string]any)
		for _, quantile := range []string{"p50", "p90", "p99", "p99.9", "max"} {
			if ms, ok := times[quantile].(float64); !ok || ms <= 0 || ms > 10_000 {
				t.Errorf("%s: %s is %v", field, quantile, times[quantile])
			}
		}
	}
	if seconds, _ := got["duration_seconds"].(float64); seconds < 0.2 || seconds > 10 {
		t.Errorf("duration_seconds is %v", got["duration_seconds"])
	}
	if rate, _ := got["messages_per_second"].(float64); rate <= 0 || rate > 250 {
		t.Errorf("messages_per_second is %v", got["messages_per_second"])
	}
	if errors, ok := got["errors"].(map[string]any); !ok || len(errors) != 0 {
		t.Errorf("errors is %v", got["errors"])
	}
	if _, ok := got["partials"]; ok {
		t.Error("there are partials without audio")
	}
	// The two lines that a harness around the command waits for.
	if lines := strings.Fields(stderr); !slices.Equal(lines, []string{"steady", "done"}) {
		t.Errorf("standard error: %q", stderr)
	}
}

func TestBenchPrintsATable(t *testing.T) {
	url := simulated(t, sim.Options{})
	status, stdout, stderr := bench(url, "-c", "2", "-r", "50", "-d", "100ms", "--quiet")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, part := range []string{"2 of 2", "10 sent, 10 received", "0 lost, 0 mixed up, 0 connections failed", "p99.9", "latency", "first echo"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the table does not say %q:\n%s", part, stdout)
		}
	}
}

func TestBenchStreamsAudio(t *testing.T) {
	url := simulated(t, sim.Options{Protocol: sim.Vosk})
	// The first second of the recording is enough.
	const header, second = 44, 2 * 16000
	file := slices.Clone(speech.WAV[:header+second])
	file[40], file[41], file[42], file[43] = second&0xff, second>>8&0xff, second>>16, 0
	path := filepath.Join(t.TempDir(), "speech.wav")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := bench(url, "-c", "2", "--audio", path, "--duration", "300ms", "--ramp", "0s", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got struct {
		Sessions int
		Same     int                 `json:"same_text"`
		Final    struct{ Count int } `json:"final_ms"`
		LagBy    string              `json:"lag_by"`
		Texts    []string            `json:"texts"`
		Settings map[string]any      `json:"settings"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Sessions < 2 || got.Same != got.Sessions || got.Final.Count != got.Sessions || got.LagBy != "replies" || len(got.Texts) != 1 || got.Settings["profile"] != "vosk" {
		t.Errorf("%+v", got)
	}
}

func TestBenchFailsWhenTheServerDoes(t *testing.T) {
	full := simulated(t, sim.Options{Fail: sim.FailOptions{Refuse: 1}})
	status, stdout, stderr := bench(full, "-c", "3", "-d", "100ms", "--json")
	first := "the first client that could not connect: server answered 503 Service Unavailable"
	if status != 1 || !strings.Contains(stderr, "no connection could be made") || !strings.Contains(stderr, first) || strings.Contains(stderr, "steady") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if !strings.Contains(stdout, `"connect_failures":3`) || !strings.Contains(stdout, `"connect: HTTP 503":3`) {
		t.Errorf("%s", stdout)
	}
	for _, refusal := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		closed := simulated(t, sim.Options{Admit: func(*http.Request) int { return refusal }})
		for _, args := range [][]string{{closed, "-c", "2", "-d", "100ms"}, {closed, "-c", "2", "-d", "100ms", "--audio", "sample", "--profile", "vosk"}} {
			status, _, stderr := bench(args...)
			if status != 1 || strings.Count(stderr, wantsCredential) != 1 || !strings.Contains(stderr, "server answered "+strconv.Itoa(refusal)) {
				t.Errorf("%d: %q: status %d: %s", refusal, args, status, stderr)
			}
		}
	}
	if strings.Contains(stderr, wantsCredential) {
		t.Errorf("full, not closed: %s", stderr)
	}
	closing := simulated(t, sim.Options{Fail: sim.FailOptions{Close: 0.1, CloseCode: 1011}})
	status, stdout, stderr = bench(closing, "-c", "3", "-r", "100", "-d", "10s", "--json")
	if status != 1 || !strings.Contains(stderr, "3 connections failed") || !strings.Contains(stdout, `"closed with 1011":3`) {
		t.Errorf("status %d: %s\n%s", status, stderr, stdout)
	}
}

func TestBenchRefusesBadFlags(t *testing.T) {
	wav := filepath.Join(t.TempDir(), "no.wav")
	if err := os.WriteFile(wav, []byte("not a WAV file at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	const url = "ws://127.0.0.1:1/"
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "URL: missing"},
		{[]string{"127.0.0.1:1"}, "the scheme is missing"},
		{[]string{url, "--text", "--binary"}, "--text and --binary cannot be used together"},
		{[]string{url, "--audio", wav, "--size", "100"}, "--audio and --size cannot be used together"},
		{[]string{url, "--audio", "sample", "--loops", "2"}, "--audio and --loops cannot be used together"},
		{[]string{url, "--profile", "vosk"}, "--profile works only with --audio"},
		{[]string{url, "--chunk", "1s"}, "set chunk in the section client of a profile of your own"},
		{[]string{url, "--audio", "sample", "--profile", "vosc"}, `did you mean "vosk"`},
		{[]string{url, "--audio", "sample", "--profile", "one-shot"}, "the profile one-shot does not say what a client says"},
		{[]string{url, "--audio", "sample", "--model", "a"}, "clients of the profile vosk name no model"},
		{[]string{url, "--audio", "sample", "--profile", "vllm-realtime"}, "--model: the value is missing"},
		{[]string{url, "--audio", wav, "--profile", "kyutai-tts"}, "not a WAV file"},
		{[]string{url, "--audio", "sample", "--pause", "-1s"}, "pause: -1s is negative"},
		{[]string{url, "--no-jitter"}, "--no-jitter works only with --session-length"},
		{[]string{url, "--audio", wav, "--session-length", "1s"}, "--audio and --session-length cannot be used together"},
		{[]string{url, "--session-length", "1ms"}, "session-length: 1ms is out of range: use 10ms to"},
		{[]string{url, "--output", "xml"}, `--output: invalid value "xml": use table or json`},
		{[]string{url, "--json", "--output", "table"}, "--json and --output cannot be used together"},
		{[]string{url, "--series", "x.txt"}, `--series: "x.txt"`},
		{[]string{url, "--fail-if", "p99>50"}, `--fail-if: "p99>50"`},
		{[]string{url, "--fail-if", "p98>5ms"}, "first-reply-p99"},
		{[]string{url, "--header", "Host: a"}, "the handshake itself sets"},
		{[]string{url, "--header", "no"}, "--header: invalid value: use NAME=VALUE"},
		{[]string{url, "--subprotocol", "a b"}, `subprotocol: invalid name "a b"`},
		{[]string{url, "--audio", wav}, "not a WAV file"},
		{[]string{url, "--audio", wav + "e"}, "no such file"},
		{[]string{url, "--connections", "0"}, "connections: 0 is out of range: use 1 to"},
		{[]string{url, "--size", "1"}, "size: 1 is out of range: use 24 to"},
		{[]string{url, "--rate", "x"}, "x"},
		{[]string{url, "--unicode"}, "unicode"},
		{[]string{url, "--nonsense"}, "--nonsense"},
	} {
		status, stdout, stderr := bench(c.args...)
		if status != 2 || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%q: status %d, %q, %q; want status 2 and %q", c.args, status, stdout, stderr, c.want)
		}
	}
}
