package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/lab/calibrate"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// shortSpeech is a file with the first quarter of a second of what spokenFile has.
func shortSpeech(t *testing.T) string {
	t.Helper()
	name := spokenFile(t)
	audio, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	audio = audio[:44+4000]
	binary.LittleEndian.PutUint32(audio[40:], 4000)
	if err := os.WriteFile(name, audio, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// canceller ends a command when a word is written to it.
type canceller struct {
	bytes.Buffer
	word string
	end  context.CancelFunc
}

func (c *canceller) Write(b []byte) (int, error) {
	n, err := c.Buffer.Write(b)
	if strings.Contains(c.String(), c.word) {
		c.end()
	}
	return n, err
}

// A server that takes one session is calibrated: interrupted, continued, saved, plotted and shown; check knows it.
func TestCalibrate(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	url := simulated(t, sim.Options{Protocol: sim.Vosk, Nasty: sim.NastyOptions{Full: 1}})
	database, plot := filepath.Join(t.TempDir(), "c.yaml"), filepath.Join(t.TempDir(), "p.svg")
	for _, args := range [][]string{{"service", "add", "stt", "--profile", "vosk"}, {"backend", "add", "gpu-1", url, "--connections", "2"}} {
		if status, _, messages := run(append(args, "--database", database)...); status != 0 {
			t.Fatal(messages)
		}
	}
	args := []string{
		"calibrate", url + "/?token=s3cret", "--audio", shortSpeech(t), "--session", "2s", "--soak", "2s", "--lag-p95", "5s", "--same-text", "0", "--database", database, "--backend", "gpu-1",
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupted := &canceller{word: "step 2", end: cancel}
	root := newRootCommand()
	root.SetArgs(args)
	root.SetErr(interrupted)
	if err := root.ExecuteContext(ctx); err == nil || err.Error() != "interrupted in step 2: the same command continues after step 1" {
		t.Fatalf("%v\n%s", err, interrupted)
	}
	status, out, messages := run(append(args, "--save", "--plot", plot, "--output", "json")...)
	var report calibrate.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != 0 || report.Connections != 1 || report.AtMost || len(report.Steps) < 4 {
		t.Fatalf("status %d, %v: %s\n%s", status, err, out, messages)
	}
	for _, says := range []string{"Continues after 1 step of", ": 2 streams for", "sessions failed: connect: HTTP 503", "the soak", "which must fail", `backend gpu-1: calibrated (none) -> "20`} {
		if !strings.Contains(messages, says) {
			t.Errorf("no %q in\n%s", says, messages)
		}
	}
	if svg, err := os.ReadFile(plot); err != nil || !strings.Contains(string(svg), "1 stream holds the limits, and 2 do not.") || strings.Contains(out+string(svg), "s3cret") {
		t.Errorf("%v, %s, %s", err, out, svg)
	}
	if _, out, _ := run("backend", "show", "gpu-1", "--database", database); !strings.Contains(out, "vosk streams=1 lag-p95=5s error-rate=0 same-text=0 soak=2s") {
		t.Errorf("%s", out)
	}
	if _, _, messages := run("check", "--database", database, "--state-directory", t.TempDir()); !strings.Contains(messages, "the backend gpu-1: it may get 2 connections, but took 1 streams") ||
		strings.Contains(messages, "how many streams") {
		t.Errorf("check: %s", messages)
	}
}

// Only the same command continues a calibration: with the same profile, headers and recordings, not only their names.
func TestCalibrateContinuesTheSame(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	t.Setenv("KEY", "1")
	audio, mine := shortSpeech(t), filepath.Join(t.TempDir(), "mine.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(mine, "profiles:\n  mine:\n    from: vosk\n")
	spoken, err := os.ReadFile(audio)
	if err != nil {
		t.Fatal(err)
	}
	name := func(args ...string) (path string) {
		t.Helper()
		cmd := new(cobra.Command)
		cmd.SetContext(t.Context())
		var c calibrateFlags
		c.from.add(cmd)
		c.audio, c.profile, c.session = []string{audio}, "mine", time.Second
		c.server.add(cmd.Flags())
		if err := cmd.ParseFlags(append(args, "--profile-file", mine)); err != nil {
			t.Fatal(err)
		}
		server, err := c.prepare(cmd, "ws://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		return newCalibration(&c, "ws://127.0.0.1:1", server).path
	}
	first := name()
	names := map[string]bool{first: true, name("--header", "A=1"): true, name("--header", "A=2"): true, name("--header", "A=env:KEY"): true, name("--subprotocol", "x"): true}
	write(mine, "profiles:\n  mine:\n    from: vosk\n    subprotocol: y\n")
	names[name()] = true
	write(mine, "profiles:\n  mine:\n    from: vosk\n")
	write(audio, string(spoken[:len(spoken)-1])+"x")
	names[name()] = true
	write(audio, string(spoken))
	t.Setenv("KEY", "2")
	if len(names) != 7 || name() != first || !names[name("--header", "A=env:KEY")] {
		t.Errorf("%d calibrations: %v", len(names), names)
	}
}

// Each thing that keeps a server from being calibrated is named, before a long run.
func TestCalibrateRefuses(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	audio, database := shortSpeech(t), filepath.Join(t.TempDir(), "c.yaml")
	for _, args := range [][]string{{"service", "add", "stt", "--profile", "funasr"}, {"backend", "add", "gpu-1", "ws://127.0.0.1:1", "--connections", "2"}} {
		if status, _, messages := run(append(args, "--database", database)...); status != 0 {
			t.Fatal(messages)
		}
	}
	text := filepath.Join(t.TempDir(), "t.wav")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	vosk := simulated(t, sim.Options{Protocol: sim.Vosk})
	full := simulated(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	other := simulated(t, sim.Options{Protocol: sim.Deepgram})
	for _, c := range []struct {
		status int
		says   string
		args   []string
	}{
		{2, "takes the URL of one server", []string{"--audio", audio}},
		{2, "argument URL: ", []string{"gpu-1:2700", "--audio", audio}},
		{2, "--audio: the value is missing", []string{vosk}},
		{2, "--soak: 1s is shorter than --session, 30s", []string{vosk, "--audio", audio, "--soak", "1s"}},
		{2, "--soak: 25h0m0s is out of range: use at most 24h", []string{vosk, "--audio", audio, "--soak", "25h"}},
		{2, "--most: 0 is out of range", []string{vosk, "--audio", audio, "--most", "0"}},
		{2, "--backend: the value is missing", []string{vosk, "--audio", audio, "--save"}},
		{2, "--audio: t.wav: ", []string{vosk, "--audio", text}},
		{2, "--audio: none.wav: open ", []string{vosk, "--audio", "none.wav"}},
		{1, `unknown profile "voks": did you mean "vosk"`, []string{vosk, "--audio", audio, "--profile", "voks"}},
		{1, "--plot: open /nowhere/p.svg", []string{vosk, "--audio", audio, "--plot", "/nowhere/p.svg"}},
		{1, `unknown backend "gpu-2"`, []string{vosk, "--audio", audio, "--database", database, "--backend", "gpu-2"}},
		{1, "has the profile funasr, not vosk", []string{vosk, "--audio", audio, "--database", database, "--backend", "gpu-1"}},
		{1, "the server is full although this command has no other session", []string{full, "--audio", audio}},
		{1, "a session alone, as of a client of the profile vosk, failed: ", []string{"ws://127.0.0.1:1", "--audio", audio}},
		{1, "a session alone, as of a client of the profile vosk, failed: ", []string{other, "--audio", audio}},
	} {
		if status, _, messages := run(append([]string{"calibrate"}, c.args...)...); status != c.status || !strings.Contains(messages, c.says) || strings.Contains(messages, "step 1") {
			t.Errorf("%q: status %d, %s; want %d, %s", c.args, status, messages, c.status, c.says)
		}
	}
}

// All sessions of the proxy on a server count: however the backend's URL is written, whether it was discovered, and also after it was removed.
func TestSessionsOn(t *testing.T) {
	pool := func(leased int) api.Pool { return api.Pool{Leased: leased} }
	now := &api.Stats{
		Backends: []api.Backend{
			{Name: "gpu-1", URL: "ws://GPU-1:80/v1?x=1", Pool: pool(1)},
			{Name: "gpu-2", URL: "ws://10.0.0.2:2700", Pool: pool(2)},
			{Name: "gpus@10.0.0.3:2700", URL: "ws://gpus:2700", DiscoveredFrom: "gpus", Pool: pool(4)},
			{Name: "gpus@[fd00::4]:2700", URL: "ws://gpus:2700", DiscoveredFrom: "gpus", Pool: pool(8)},
		},
		Leaving: []api.Leaving{{Name: "gpu-3", URL: "ws://10.0.0.2:2700/", Leased: 16}, {Name: "gpus@10.0.0.3:2700", URL: "ws://gpus:2700", Leased: 32}},
	}
	for server, want := range map[string]int{
		"ws://gpu-1": 1, "ws://gpu-1:2700": 0, "ws://10.0.0.2:2700/v2": 2 + 16, "ws://10.0.0.3:2700": 4 + 32, "ws://[fd00:0::4]:2700": 8, "ws://gpus:2700": 4 + 8 + 32,
	} {
		if got := sessionsOn(now, server); got != want {
			t.Errorf("%s: %d sessions, want %d", server, got, want)
		}
	}
}

// A server that has sessions of the proxy is not calibrated, unless that is asked for.
func TestCalibrateLooks(t *testing.T) {
	s := onProxy(t, open)
	url := simulated(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	b := leased("gpu-1", "enabled", 2)
	b.URL = url
	s.playing(func() api.Stats { return backends(b, leased("gpu-2", "enabled", 5)) })
	args := []string{"calibrate", url, "--audio", shortSpeech(t)}
	if status, _, messages := s.run(args...); status != 1 || !strings.Contains(messages, "has 2 sessions on this server: drain the backend") {
		t.Errorf("status %d, %s", status, messages)
	}
	if status, _, messages := s.run(append(args, "--shared")...); status != 1 || !strings.Contains(messages, "has 2 sessions on this server.\n") || !strings.Contains(messages, "the server is full") {
		t.Errorf("status %d, %s", status, messages)
	}
}

// Sessions that other proxies of the fleet have on a server count, too, and those that do not answer are named.
func TestCalibrateLooksAtFleet(t *testing.T) {
	s := onProxy(t, open)
	url := simulated(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	with := func(sessions int) api.Stats {
		b := leased("gpu-1", "enabled", sessions)
		b.URL = url
		return backends(b)
	}
	s.playing(func() api.Stats { return with(0) })
	s.inFleet(func() api.Stats {
		now := with(5)
		now.Fleet = &api.Fleet{Mode: api.FleetShare, Whole: true, Missing: []api.MissingProxy{{ID: "c", Name: "proxy-c", Why: "not seen for 12 s"}}}
		return now
	})
	args := []string{"calibrate", url, "--audio", shortSpeech(t)}
	if status, _, messages := s.run(args...); status != 1 || !strings.Contains(messages, "has 5 sessions on this server: drain the backend") {
		t.Errorf("status %d, %s", status, messages)
	}
	if _, _, messages := s.run(append(args, "--shared")...); !strings.Contains(messages, "The fleet of the proxy at unix:"+s.socket+" has 5 sessions on this server.\nNot included: proxy-c: not seen for 12 s\n") {
		t.Errorf("%s", messages)
	}
}

// A calibration that is interrupted before its first step says so, and how long it takes is said for numbers of streams that it may try.
func TestCalibrateInterruptedEarly(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupted := &canceller{word: "One session at a time", end: cancel}
	root := newRootCommand()
	root.SetArgs([]string{"calibrate", simulated(t, sim.Options{Protocol: sim.Vosk}), "--audio", shortSpeech(t)})
	root.SetErr(interrupted)
	if err := root.ExecuteContext(ctx); err == nil || err.Error() != "interrupted before step 1" {
		t.Errorf("%v\n%s", err, interrupted)
	}
	for most, want := range map[int]string{1: "If the server takes 1 stream, this takes ", 8: " if it takes 8.", 1024: " if it takes 200."} {
		c := calibrateFlags{search: calibrate.Options{Most: most, Session: time.Second, Soak: time.Second}}
		if got := c.estimates(); !strings.Contains(got, want) || most == 1 && strings.Contains(got, ", and ") {
			t.Errorf("most %d: %s", most, got)
		}
	}
}
