package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Paragraphs are wrapped, and lists and examples stay as they are.
func TestWrapped(t *testing.T) {
	same(t, "a text", wrapped("one two three\nfour\n\n  export   prints it as it is, however long\n  apply\nfive six", 10), `one two
three four

  export   prints it as it is, however long
  apply
five six`)
	same(t, "a long word", wrapped("a unix:/var/lib/wsbouncer b", 10), "a\nunix:/var/lib/wsbouncer\nb")
}

// Help fits 80 columns where there is no terminal, examples and usage aside, and every command of the root stands in a group.
func TestHelpFits(t *testing.T) {
	everyCommand(newRootCommand(), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		status, help, messages := command(args...)
		if status != 0 {
			t.Fatalf("%v: status %d, %s", args, status, messages)
		}
		long, rest, _ := strings.Cut(help, "\nUsage:\n")
		_, flags, _ := strings.Cut(rest, "\nFlags:\n")
		flags, _, _ = strings.Cut(flags, "\nUse ")
		for part, isFlags := range map[string]bool{long: false, flags: true} {
			for line := range strings.Lines(part) {
				line = strings.TrimSuffix(line, "\n")
				asItIs := strings.HasPrefix(line, " ") && !isFlags || strings.Contains(line, "https://") // a list, or a word that is too long
				if len(line) > 80 && !asItIs {
					t.Errorf("%v: a line of %d columns: %s", args, len(line), line)
				}
			}
		}
	})
	for _, cmd := range newRootCommand().Commands() {
		if cmd.GroupID == "" && cmd.Name() != "version" && cmd.Name() != "help" && cmd.Name() != "completion" {
			t.Errorf("%s stands in no group", cmd.Name())
		}
	}
}

// helpOf returns a command's help as one line.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	status, help, messages := command(append(args, "--help")...)
	if status != 0 {
		t.Fatalf("%v: status %d, %s", args, status, messages)
	}
	return strings.Join(strings.Fields(help), " ")
}

// 'key add' makes the hash that the configuration requires.
func TestHelpOfHash(t *testing.T) {
	if help := helpOf(t, "key", "add"); strings.Contains(help, "required") || !strings.Contains(help, "SHA-256 of a key that wsbouncer has made: no key is made then") {
		t.Errorf("the help of key add is\n%s", help)
	}
}

// Scripts wait for two lines that --quiet leaves.
func TestHelpOfQuiet(t *testing.T) {
	if help := helpOf(t, "bench"); !strings.Contains(help, "--quiet of the progress on standard error, print only 'steady' and 'done'") {
		t.Errorf("the help of bench is\n%s", help)
	}
}

// The root's help leads to the history of changes.
func TestHelpLeadsToHistory(t *testing.T) {
	help := helpOf(t)
	for _, want := range []string{"config Show, export, import, compare and roll back the configuration, and show its history;", "and from where ('config history' has the changed values)"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q:\n%s", want, help)
		}
	}
}

// The table of settings explains its marks.
func TestSettingsLegend(t *testing.T) {
	alone(t)
	path := write(t, "w.yaml", "listen: 127.0.0.1:1\n")
	for name, has := range map[string]bool{"log-level": true, "listen": false} {
		status, out, messages := command("settings", "show", "--settings", path, name)
		if status != 0 || strings.HasSuffix(out, "\n\n* 'wsbouncer reload' changes it. The others need a restart.\n") != has {
			t.Errorf("%s: status %d, %s%s", name, status, out, messages)
		}
	}
}
