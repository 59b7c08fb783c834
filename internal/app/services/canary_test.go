package services

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
)

// A canary that cannot be used is said, and does not stop traffic; the same file is read once.
func TestReadCanary(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "canary.wav")
	wav := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), binary.LittleEndian.AppendUint32(nil, 16000)...)
	wav = append(wav, 0, 0x7d, 0, 0, 2, 0, 16, 0, 'd', 'a', 't', 'a', 4, 0, 0, 0, 1, 0, 2, 0)
	plan := func(before *plan, profile string, connections int) (*plan, []string) {
		t.Helper()
		content := config.NewContent()
		service, backend := config.DefaultService(), config.DefaultBackend()
		service.Profile, service.Canary = profile, path
		backend.Service, backend.URL, backend.Connections = "stt", "ws://127.0.0.1:1", connections
		content.Services["stt"], content.Backends["a"] = service, backend
		p := planOf(t, &content, before)
		return p, Draft{p}.CanaryWarnings()
	}
	for _, c := range []struct {
		content []byte // nil for no file
		profile string
		says    string
	}{
		{nil, "vosk", "no such file"},
		{[]byte("not audio"), "vosk", "canary.wav: not a WAV file"},
		{wav, "one-shot", "does not say what a client says"},
		{wav, "vllm-realtime", "want the name of a model: set canary-model"},
	} {
		if c.content != nil {
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, warnings := plan(nil, c.profile, 2)
		if err := p.canaryProblems(); p.services["stt"].declared[0].canary != nil || err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(strings.Join(warnings, "\n"), c.says) {
			t.Errorf("%q: %v, %q", c.says, err, warnings)
		}
	}
	first, warnings := plan(nil, "vosk", 2)
	if first.canaryProblems() != nil || first.services["stt"].declared[0].canary == nil || len(warnings) > 0 {
		t.Errorf("%v, %q", first.canaryProblems(), warnings)
	}
	if second, _ := plan(first, "vosk", 2); second.services["stt"].declared[0] != first.services["stt"].declared[0] {
		t.Error("the same file makes another plan")
	}
	if err := os.WriteFile(path, append(wav[:len(wav)-4], 9, 9, 9, 9), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, first.services["stt"].canary.at, first.services["stt"].canary.at.Add(1e9)); err != nil {
		t.Fatal(err)
	}
	if third, _ := plan(first, "vosk", 2); third.services["stt"].declared[0].canary.Name == first.services["stt"].declared[0].canary.Name {
		t.Error("a changed file was not read again")
	}
	synctest.Test(t, func(*testing.T) {
		mount := make(chan struct{})
		go func() { _, _ = timedread.Do(path, func() (any, error) { <-mount; return nil, nil }) }() // it hangs
		synctest.Wait()
		if late, _ := plan(first, "vosk", 2); late.canaryProblems() == nil || !strings.Contains(late.canaryProblems().Error(), path+": i/o timeout") {
			t.Errorf("while the file hangs: %v", late.canaryProblems())
		}
		close(mount)
	})
	if _, warnings := plan(nil, "vosk", 1); len(warnings) != 1 || !strings.Contains(warnings[0], "never played the canary") {
		t.Errorf("%q", warnings)
	}
}
