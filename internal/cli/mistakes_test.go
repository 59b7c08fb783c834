package cli

import (
	"strings"
	"testing"
)

// A mistyped flag is answered with the nearest one, in every command and for the flags of every command.
func TestUnknownFlags(t *testing.T) {
	alone(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"backend", "set", "gpu-1", "--conections", "3"}, "unknown flag --conections: did you mean --connections?"},
		{[]string{"backend", "set", "gpu-1", "--conections=3"}, "unknown flag --conections: did you mean --connections?"},
		{[]string{"backend", "add", "-connections", "3"}, "unknown flag -connections: did you mean --connections?"},
		{[]string{"serve", "--lisen", ":1"}, "unknown flag --lisen: did you mean --listen?"},
		{[]string{"backend", "ls", "--help-me-out-of-this"}, "unknown flag --help-me-out-of-this\n"},
		{[]string{"backend", "ls", "-z"}, "unknown flag -z\n"},
		{[]string{"backend", "ls", "-oz=3", "-z"}, `--output: "z=3" is not table or json`},
		{[]string{"--verion"}, "unknown flag --verion: did you mean --version?"},
	} {
		status, out, messages := command(c.args...)
		if status != 2 || out != "" || !strings.Contains(messages, c.says) {
			t.Errorf("%v: status %d, printed %q, said\n%s\nwant 2,\n%s", c.args, status, out, messages, c.says)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	_, want, _ := command("version")
	status, out, messages := command("--version")
	if status != 0 || out != want || messages != "" {
		t.Errorf("--version: status %d, printed %q, said %q; want what 'version' prints: %q", status, out, messages, want)
	}
}

// What people of other tools type works as well.
func TestAliases(t *testing.T) {
	s := onDatabase(t).begin()
	for _, group := range []string{"service", "backend", "profile"} {
		if s.must(group+" list") != s.must(group+" ls") {
			t.Errorf("%s list prints other things than ls", group)
		}
	}
	s.must("profile add mine --file "+s.write("from: vosk\n"), "profile delete mine", "backend remove gpu-1", "backend delete gpu-2", "service remove stt")
	if out := s.must("service ls"); strings.Contains(out, "stt") {
		t.Errorf("the service is still there:\n%s", out)
	}
}
