package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A deprecated flag works, is not in the help, and draws a warning on standard error. The result stays clean.
func TestDeprecatedFlag(t *testing.T) {
	run := func(args ...string) (stdout, stderr string) {
		t.Helper()
		root := newRootCommand()
		var old string
		cmd := &cobra.Command{Use: "probe", RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), "old is "+old)
			return err
		}}
		cmd.Flags().StringVar(&old, "old", "", "an old flag")
		deprecate(cmd, "old", "use --new; version 0.4 removes it")
		root.AddCommand(cmd)
		var out, errors strings.Builder
		root.SetOut(&out)
		root.SetErr(&errors)
		root.SetArgs(append([]string{"probe"}, args...))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String(), errors.String()
	}
	if stdout, stderr := run("--old", "x"); stdout != "old is x" || stderr != "Warning: --old is deprecated: use --new; version 0.4 removes it\n" {
		t.Errorf("%q, %q", stdout, stderr)
	}
	if stdout, stderr := run(); stdout != "old is " || stderr != "" {
		t.Errorf("without the flag: %q, %q", stdout, stderr)
	}
	if help, _ := run("--help"); strings.Contains(help, "--old") {
		t.Errorf("the help has the flag:\n%s", help)
	}
}
