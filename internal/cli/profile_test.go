package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// profileCommand runs a subcommand of profile.
func profileCommand(args ...string) (status int, out, messages string) {
	var stdout, stderr bytes.Buffer
	status = Main(append([]string{"profile"}, args...), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// profileFile writes a file with profiles.
func profileFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profiles.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// All built-in profiles are listed, and one's own behind them.
func TestProfileList(t *testing.T) {
	file := profileFile(t, "profiles: {mine: {from: vosk, summary: my own}}")
	status, out, messages := profileCommand("ls", "--profile-file", file)
	if status != 0 || messages != "" {
		t.Fatalf("status %d: %s", status, messages)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 1+len(profile.Names())+1 {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
	for _, want := range []string{"mine ", "my own", "  one-shot (fenced is off)  ", "FAILOVER", "  visible   FunASR"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %q:\n%s", want, out)
		}
	}
	status, out, _ = profileCommand("ls", "-o", "json", "--profile-file", file)
	var rows []struct{ Name, Reuse, Declared, Reason, From string }
	if err := json.Unmarshal([]byte(out), &rows); status != 0 || err != nil || len(rows) != len(profile.Names())+1 {
		t.Fatalf("status %d, %v, %d rows", status, err, len(rows))
	}
	if last := rows[len(rows)-1]; last.From == "" || last.Reason == "" && last.Reuse == "one-shot" {
		t.Errorf("%+v", last)
	}
}

// What is shown of a profile can be read again, and is the same profile.
func TestProfileShow(t *testing.T) {
	file := profileFile(t, "profiles: {mine: {from: vosk, limits: {sessions: 7}}}")
	for _, args := range [][]string{{"vosk"}, {"vosk", "--effective"}, {"mine", "--profile-file", file}} {
		status, out, messages := profileCommand(append([]string{"show"}, args...)...)
		if status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, messages)
		}
		own := strings.Replace(out, "\n  "+args[0]+":", "\n  shown:", 1) // built-in names are taken
		list, err := profile.Parse("shown", []byte(own))
		if err != nil || len(list) != 1 || list[0].Name != "shown" || list[0].Reuse != profile.Lockstep {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		if strings.Contains(out, "# ") != (len(args) == 1) {
			t.Errorf("%v: with or without comments:\n%s", args, out)
		}
	}
	if _, out, _ := profileCommand("show", "one-shot"); !strings.Contains(out, "# No other server takes its sessions over: nothing is known") {
		t.Errorf("that sessions are never taken over is not said:\n%s", out)
	}
	if _, out, _ := profileCommand("show", "funasr"); !strings.Contains(out, "# Connections serve one session each: in doubt") {
		t.Errorf("that reuse is off is not said:\n%s", out)
	}
}

func TestProfileErrors(t *testing.T) {
	bad := profileFile(t, "profiles:\n  a: {from: vosk, rest: {}}\n")
	twice := profileFile(t, "profiles: {b: {from: echo}}")
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"show"}, 2, "takes the name of one profile, but got 0"},
		{[]string{"show", "a", "b"}, 2, "but got 2"},
		{[]string{"show", "vosc"}, 1, `unknown profile "vosc": did you mean "vosk"? Use one of one-shot, echo,`},
		{[]string{"ls", "-o", "xml"}, 2, `--output: invalid value "xml": use one of table, wide, json, yaml, name`},
		{[]string{"ls", "x"}, 2, "takes no arguments"},
		{[]string{"lst"}, 2, `unknown command "lst"`},
		{[]string{"lst", "--admin", "a:1"}, 2, `unknown command "lst" for "wsbouncer profile"`},
		{[]string{"ls", "--profile-file", "none.yaml"}, 2, "--profile-file: open none.yaml: no such file"},
		{[]string{"ls", "--profile-file", bad}, 2, bad + `:2:19: unknown key "rest": did you mean "reset"?`},
		{[]string{"ls", "--profile-file", twice, "--profile-file", twice}, 2, `the profile "b" is in ` + twice + " too"},
	} {
		status, out, messages := profileCommand(c.args...)
		if status != c.status || out != "" || !strings.Contains(messages, c.text) {
			t.Errorf("%v: status %d, %q, %q; want %d, %q", c.args, status, out, messages, c.status, c.text)
		}
	}
}
