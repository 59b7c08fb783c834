package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// A deprecated setting works as before. Each source that gives it causes a warning with its place; the help and the file that config
// init writes say what to use instead.
func TestDeprecatedSetting(t *testing.T) {
	was, wasRows := table, rows
	t.Cleanup(func() { table, rows = was, wasRows })
	rows = func(s *Settings) []setting {
		return append(wasRows(s), setting{
			name: "old-level", help: "an old name", deprecated: "use log-level; version 0.4 removes it",
			value: value.NewChoice(&s.LogLevel, "log level", LogLevels),
		})
	}
	defaults := Defaults()
	table = rows(&defaults)

	l := given{file: "old-level: warn\n", environment: []string{"WSBOUNCER_OLD_LEVEL=error"}, flags: []string{"--old-level", "debug"}}.load(t)
	if l.LogLevel != "debug" {
		t.Errorf("the level is %q", l.LogLevel)
	}
	if len(l.Warnings) != 3 {
		t.Fatalf("warnings: %q", l.Warnings)
	}
	for i, place := range []string{"w.yaml:1:12: old-level: ", "WSBOUNCER_OLD_LEVEL: ", "--old-level: "} {
		if want := place + "this setting is deprecated: use log-level; version 0.4 removes it"; !strings.HasSuffix(l.Warnings[i], want) {
			t.Errorf("warning %q; want %q", l.Warnings[i], want)
		}
	}
	if l := (given{flags: []string{"--log-level", "debug"}}).load(t); len(l.Warnings) != 0 {
		t.Errorf("warnings without a deprecated setting: %q", l.Warnings)
	}

	var flags Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Add(set)
	if usage := set.Lookup("old-level").Usage; !strings.HasSuffix(usage, " (deprecated: use log-level; version 0.4 removes it)") {
		t.Errorf("help: %q", usage)
	}
	if !strings.Contains(string(Template()), "# Deprecated: use log-level; version 0.4 removes it.\n#old-level: ") {
		t.Error("the file that config init writes does not say that the setting is deprecated")
	}
}

// The file was named by --config and WSBOUNCER_CONFIG, which work as before, with a warning.
func TestOldNamesOfTheFile(t *testing.T) {
	directory := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	three, five := file("three.yaml", "loops: 3\n"), file("five.yaml", "loops: 5\n")
	for _, c := range []struct {
		given given
		loops int
		warns string
	}{
		{given{flags: []string{"--config", three}}, 3, "--config: this flag is deprecated: use --settings; version 0.4 removes it"},
		{given{environment: []string{"WSBOUNCER_CONFIG=" + three}}, 3, "WSBOUNCER_CONFIG: this variable is deprecated: use WSBOUNCER_SETTINGS; version 0.4 removes it"},
		{given{environment: []string{"WSBOUNCER_SETTINGS=" + three, "WSBOUNCER_CONFIG=" + five}}, 5, "WSBOUNCER_CONFIG: this variable is deprecated"},
		{given{environment: []string{"WSBOUNCER_SETTINGS=" + three, "WSBOUNCER_CONFIG="}}, 0, "WSBOUNCER_CONFIG: this variable is deprecated"},
		{given{environment: []string{"WSBOUNCER_SETTINGS=" + three}, flags: []string{"--config", five}}, 5, "--config: this flag is deprecated"},
	} {
		l := c.given.load(t)
		if l.Loops != c.loops || len(l.Warnings) != 1 || !strings.HasPrefix(l.Warnings[0], c.warns) {
			t.Errorf("%+v: %d loops, warnings %q; want %d, %q", c.given, l.Loops, l.Warnings, c.loops, c.warns)
		}
	}
	both := given{flags: []string{"--settings", three, "--config", three}}.errors(t)
	if len(both) != 1 || !strings.HasPrefix(both[0], "--config: --settings is given, too") {
		t.Errorf("both: %q", both)
	}
}
