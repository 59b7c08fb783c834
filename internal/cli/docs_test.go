package cli

import (
	"os"
	"strings"
	"testing"
)

// Every command about the configuration is shown at work in docs/commands.md.
func TestCommandsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"service", "backend", "profile"} {
		cmd, _, err := newRootCommand().Find([]string{group})
		if err != nil {
			t.Fatal(err)
		}
		for _, leaf := range cmd.Commands() {
			if !strings.Contains(string(page), "$ "+leaf.CommandPath()+" ") && !strings.Contains(string(page), "$ "+leaf.CommandPath()+"\n") {
				t.Errorf("%s is not shown at work", leaf.CommandPath())
			}
		}
	}
	for _, command := range []string{"migrate", "config show", "config export", "config diff", "config apply", "config import", "config history", "config rollback"} {
		if !strings.Contains(string(page), "wsbouncer "+command) {
			t.Errorf("%s is not shown at work", command)
		}
	}
}
