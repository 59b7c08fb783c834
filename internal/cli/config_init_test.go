package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configInit runs the command.
func configInit(args ...string) (out string, err error) {
	var b bytes.Buffer
	cmd := newConfigInitCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // not nil: cobra would take those of this process
	cmd.SetOut(&b)
	err = cmd.Execute()
	return b.String(), err
}

func TestConfigInit(t *testing.T) {
	t.Chdir(t.TempDir())
	const path = "wsbouncer.yaml"
	if out, err := configInit(); err != nil || out != "wrote "+path+"\n" {
		t.Fatalf("%q, %v", out, err)
	}
	if status, _, messages := run("check", "--settings", path, "--backend", oneBackend); status != 0 {
		t.Errorf("what was written: %q", messages)
	}
	if err := os.WriteFile(path, []byte("loops: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := configInit(); err == nil || !strings.Contains(err.Error(), path+" already exists: use --force") {
		t.Errorf("a file that exists: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "loops: 1\n" {
		t.Errorf("it was replaced: %q, %v", data, err)
	}
	if _, err := configInit("--force"); err != nil {
		t.Errorf("by force: %v", err)
	}
	data, err := os.ReadFile(path)
	printed, printing := configInit("--file", "-")
	if err != nil || printing != nil || string(data) != printed {
		t.Errorf("%v, %v; on standard output there is something else than in the file", err, printing)
	}
	if _, err := configInit("--file", filepath.Join(path, "x")); err == nil {
		t.Error("written in no directory")
	}
}
