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
