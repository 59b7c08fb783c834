package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// docs/reference/commands.md shows each command about the configuration at work, and every other command is mentioned somewhere.
func TestCommandsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"service", "backend", "profile", "key"} {
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
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	reference, err := filepath.Glob("../../docs/reference/*.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := ""
	for _, name := range append(append(pages, reference...), "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs += string(text)
	}
	everyCommand(newRootCommand(), func(cmd *cobra.Command) {
		if cmd.Runnable() && !strings.Contains(docs, cmd.CommandPath()) {
			t.Errorf("no page mentions %s", cmd.CommandPath())
		}
	})
}

// everyCommand calls f for each command that users see.
func everyCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
		return
	}
	f(cmd)
	for _, sub := range cmd.Commands() {
		everyCommand(sub, f)
	}
}
