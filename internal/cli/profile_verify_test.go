package cli

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// The page of profile verify has each claim, the evidence of what does not hold, and not the server's address.
func TestVerifyReport(t *testing.T) {
	server, err := sim.Start(sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Greeting: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	page := filepath.Join(t.TempDir(), "page.md")
	status, _, messages := run("profile", "verify", "vosk", "--backend", server.URL(), "--audio", spokenFile(t), "--pace", "50", "--step-timeout", "2s", "--report", page)
	text, err := os.ReadFile(page)
	if err != nil || status != 1 {
		t.Fatalf("status %d, %s, %v", status, messages, err)
	}
	for _, want := range []string{"# vosk on a real server\n", "| session | a session begins", "| greeting | the server says nothing before its client | does not hold |", "\n## greeting does not hold\n\n    "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), server.Addr().String()) {
		t.Errorf("it has the server's address:\n%s", text)
	}
}

// Nor does an error of the network bring an address into it.
func TestVerifyReportOfResets(t *testing.T) {
	server, err := sim.Start(sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Reset: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	page := filepath.Join(t.TempDir(), "page.md")
	run("profile", "verify", "vosk", "--backend", server.URL(), "--audio", spokenFile(t), "--pace", "50", "--step-timeout", "2s", "--report", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| does not hold |") || strings.Contains(string(text), "127.0.0.1") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// spokenFile writes a WAV file with a second of sound, and returns its path.
func spokenFile(t *testing.T) string {
	t.Helper()
	const rate = 8000
	var pcm []byte
	for i := range rate {
		v := 8000 * math.Sin(2*math.Pi*440*float64(i)/rate)
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(int16(v)))
	}
	head := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), binary.LittleEndian.AppendUint32(nil, rate)...)
	head = append(binary.LittleEndian.AppendUint32(head, 2*rate), 2, 0, 16, 0, 'd', 'a', 't', 'a')
	path := filepath.Join(t.TempDir(), "speech.wav")
	if err := os.WriteFile(path, append(binary.LittleEndian.AppendUint32(head, uint32(len(pcm))), pcm...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A page that cannot be written is an error before any connection, and there is none about a server that could not be tried.
func TestVerifyNoReport(t *testing.T) {
	args := []string{"profile", "verify", "vosk", "--backend", "ws://127.0.0.1:1", "--audio", spokenFile(t), "--step-timeout", "1s", "--report"}
	if status, _, messages := run(append(args, filepath.Join(t.TempDir(), "none", "page.md"))...); status != 1 || !strings.Contains(messages, "--report: open") || strings.Contains(messages, "direct session") {
		t.Errorf("status %d, %s", status, messages)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	status, _, messages := run(append(args, page)...)
	if _, err := os.Stat(page); status != 1 || err == nil || !strings.Contains(messages, "connection refused") {
		t.Errorf("status %d, %s, %v", status, messages, err)
	}
	if err := os.WriteFile(page, []byte("an earlier page"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(append(args, page)...)
	if text, err := os.ReadFile(page); string(text) != "an earlier page" {
		t.Errorf("an earlier page is now %q, %v", text, err)
	}
}

// The result of profile verify is saved with the service, whether it is good or not, and check reads it there.
func TestVerifySave(t *testing.T) {
	audio := spokenFile(t)
	for _, c := range []struct {
		name, database, profile string
		server                  sim.Options
		status                  int
		saved, check            string
	}{
		{"holds", "c.yaml", "kaldi-gstreamer", sim.Options{Protocol: sim.KaldiGStreamer}, 0, "session=holds", ""},
		{"fails", "c.db", "vosk", sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Greeting: true}}, 1, "greeting=fails", "vosk is wrong about its servers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, err := sim.Start(c.server)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			database := filepath.Join(t.TempDir(), c.database)
			if status, _, messages := run("service", "add", "stt", "--profile", c.profile, "--failover", "replay", "--database", database); status != 0 {
				t.Fatal(messages)
			}
			args := []string{
				"profile", "verify", c.profile, "--backend", server.URL(), "--audio", audio, "--pace", "50",
				"--database", database, "--save", "--service",
			}
			if c.status != 0 { // what is awaited may not come
				args = append([]string{"profile", "verify", "--step-timeout", "2s"}, args[2:]...)
			}
			if status, _, messages := run(append(args, "other")...); status != 1 || !strings.Contains(messages, `unknown service "other"`) || strings.Contains(messages, "direct session") {
				t.Errorf("a service that does not exist: status %d, %s", status, messages)
			}
			status, out, messages := run(append(args, "stt", "--output", "json")...)
			if status != c.status || !strings.HasPrefix(out, "{") || !strings.Contains(messages, "service stt: verified (none) -> \"20") {
				t.Fatalf("status %d\n%s\n%s", status, out, messages)
			}
			if _, out, _ := run("service", "show", "stt", "--database", database); !strings.Contains(out, " "+c.profile+" session=") || !strings.Contains(out, c.saved) {
				t.Errorf("%s", out)
			}
			if _, _, messages := run("check", "--database", database, "--state-directory", t.TempDir()); strings.Contains(messages, "has not been tried") ||
				c.check == "" && strings.Contains(messages, "tried on its servers") || !strings.Contains(messages, c.check) {
				t.Errorf("check: %s", messages)
			}
		})
	}
	if status, _, messages := run("profile", "verify", "vosk", "--backend", "ws://127.0.0.1:1", "--audio", audio, "--save"); status != 2 || !strings.Contains(messages, "--service") {
		t.Errorf("--save without --service: status %d, %s", status, messages)
	}
}

// Nothing is saved of a server that could not be tried, and no result goes to a service with another profile.
func TestVerifySavesNothing(t *testing.T) {
	audio := spokenFile(t)
	database := filepath.Join(t.TempDir(), "c.yaml")
	if status, _, messages := run("service", "add", "stt", "--profile", "vosk", "--database", database); status != 0 {
		t.Fatal(messages)
	}
	server, err := sim.Start(sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, says := range map[string]string{"vosk": "a direct session failed", "funasr": "the service stt has the profile vosk, not funasr"} {
		status, _, messages := run("profile", "verify", name, "--backend", server.URL(), "--audio", audio, "--database", database, "--save", "--service", "stt")
		if status != 1 || !strings.Contains(messages, says) {
			t.Errorf("%s: status %d, %s", name, status, messages)
		}
	}
	if _, out, _ := run("service", "show", "stt", "--database", database); !strings.Contains(out, "verified") || strings.Contains(out, "session=") {
		t.Errorf("%s", out)
	}
}
