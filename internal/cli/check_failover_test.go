package cli

import (
	"strings"
	"testing"
)

// check says what becomes of sessions whose server dies, and warns of what the profile cannot do.
func TestCheckFailover(t *testing.T) {
	database := write(t, "c.yaml", "services:\n  stt: {profile: one-shot, failover: replay}\n")
	for _, c := range []struct {
		args          []string
		out, messages string
	}{
		{[]string{"--backend", "ws://127.0.0.1:1", "--profile", "vosk", "--failover", "replay"}, "failover   replay, full: clients see none of it\n", ""},
		{
			[]string{"--backend", "ws://127.0.0.1:1", "--profile", "funasr", "--failover", "replay"},
			"failover     replay, visible: words at the place",
			"Warning: the flags give failover: replay, which clients of the profile funasr can tell: words at the place",
		},
		{
			[]string{"--database", database, "--state-directory", t.TempDir()},
			"failover: none: nothing is known about the server\n",
			"Warning: the service stt has failover: replay, but sessions of the profile one-shot cannot be moved: nothing is known about the server\n",
		},
	} {
		status, out, messages := run(append([]string{"check"}, c.args...)...)
		if status != 0 || !strings.Contains(out, c.out) || !strings.Contains(messages, c.messages) || c.messages == "" && messages != "" {
			t.Errorf("%v: status %d, %q\n%s", c.args, status, messages, out)
		}
	}
}

// check says what replay-memory can hold, and warns if that is less than the caps ask for.
func TestCheckReplayMemory(t *testing.T) {
	args := []string{"check", "--backend", "ws://127.0.0.1:1", "--profile", "vosk", "--failover", "replay", "--connections", "100", "--replay-window", "20s"}
	for _, c := range []struct {
		memory, row, warning string
	}{
		{"64MiB", "replay memory                    about 31 MiB   64 MiB", ""},
		{"8MiB", "too little", "Warning: on this machine replay-memory is 8.0 MiB, but 31 MiB may be needed"},
	} {
		status, out, messages := run(append(args, "--replay-memory", c.memory)...)
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(c.row), " ")) ||
			!strings.Contains(messages, c.warning) || c.warning == "" && strings.Contains(messages, "replay") {
			t.Errorf("%s: status %d, %q\n%s", c.memory, status, messages, out)
		}
	}
	if _, out, _ := run("check", "--backend", "ws://127.0.0.1:1", "--profile", "vosk"); strings.Contains(out, "replay memory") {
		t.Errorf("without failover:\n%s", out)
	}
}
