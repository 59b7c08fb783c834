package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

const oneBackend = "ws://127.0.0.1:9"

// run runs a command.
func run(args ...string) (status int, out, messages string) {
	var stdout, stderr bytes.Buffer
	status = Main(args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// parsed returns the flags of serve after parsing.
func parsed(t *testing.T, args ...string) *serveFlags {
	t.Helper()
	f := new(serveFlags)
	cmd := &cobra.Command{Use: "serve"}
	f.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// write writes a file in a directory of the test's own.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDefaultsOfTheProcess holds the defaults of the process's settings against the proxy's.
func TestDefaultsOfTheProcess(t *testing.T) {
	f := parsed(t, "--backend", oneBackend)
	l, err := f.load(settings.Sources{Flags: &f.process})
	if err != nil {
		t.Fatal(err)
	}
	want := app.DefaultSettings()
	want.Backends = []string{oneBackend}
	if got, err := f.settings(l); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("without flags the settings are\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

// TestSettingsOfTheProcess has each setting reach the proxy.
func TestSettingsOfTheProcess(t *testing.T) {
	t.Setenv("TOKEN", "t0ken-t0ken-t0ken")
	args := []string{
		"--listen", ":1", "--admin", ":2", "--admin-socket", "/run/a", "--admin-token", "env:TOKEN", "--loops", "3", "--io-uring", "off", "--loop-wait", "block", "--max-header", "4KiB",
		"--handshake-timeout", "5s", "--drain-timeout", "7s",
		"--trusted-proxies", "10.0.0.0/8", "--trusted-proxies", "192.0.2.7", "--forwarded-header", "forwarded", "--proxy-protocol", "required",
	}
	want := app.DefaultSettings()
	want.Listen, want.Admin, want.AdminSocket, want.AdminToken, want.Token, want.Loops, want.IOURing, want.MaxHeader = []string{":1"}, ":2", "/run/a", "env:TOKEN", "t0ken-t0ken-t0ken", 3, "off", 4<<10
	want.LoopWait = "block"
	want.TrustedProxies, want.ForwardedHeader, want.ProxyProtocol = []string{"10.0.0.0/8", "192.0.2.7"}, "forwarded", "required"
	want.HandshakeTimeout, want.DrainTimeout = 5e9, 7e9
	for _, c := range []struct {
		args   []string
		change func(*app.Settings)
	}{
		{[]string{"--backend", oneBackend}, func(s *app.Settings) { s.Backends = []string{oneBackend} }},
		{[]string{"--database", "a.db", "--state-directory", "/s"}, func(s *app.Settings) { s.Database, s.StateDirectory = "a.db", "/s" }},
		{[]string{"--state-directory", "/s"}, func(s *app.Settings) { s.Database, s.StateDirectory = "/s/wsbouncer.db", "/s" }},
	} {
		f := parsed(t, append(c.args, args...)...)
		l, err := f.load(settings.Sources{Flags: &f.process})
		if err != nil {
			t.Fatal(err)
		}
		want := want
		c.change(&want)
		if got, err := f.settings(l); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: the settings are\n%+v, %v\nwant\n%+v", c.args, got, err, want)
		}
	}
}

// TestFlagsOfAService has each flag that describes a service refused without --backend, with the command that does the same.
func TestFlagsOfAService(t *testing.T) {
	fields := make(map[string]string)
	for _, kind := range []config.Kind{config.KindService, config.KindBackend} {
		for _, f := range config.Fields(kind) {
			fields[f.Name] = string(kind)
		}
	}
	n := 0
	parsed(t).about.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "backend" || flag.Hidden {
			return
		}
		n++
		kind, isField := fields[flag.Name]
		value := map[string]string{"int": "7", "duration": "7s", "size": "7KiB", "bool": "true", "name=value": "X=7"}[flag.Value.Type()]
		if value == "" {
			value = "7"
		}
		if strings.HasSuffix(flag.Value.Type(), "=value") { // a map has the flag of one entry
			kind, isField = string(config.KindService), true
		}
		command := "'wsbouncer " + kind + " set NAME --" + flag.Name + " " + value + "'"
		if flag.Name == "profile-file" {
			command, isField = "'wsbouncer profile add NAME --file 7'", true
		}
		if !isField {
			t.Errorf("--%s is no field of a service or backend", flag.Name)
		}
		status, out, messages := run("check", "--database", ":memory:", "--"+flag.Name+"="+value)
		want := "Error: --" + flag.Name + " works only with --backend: use " + command + " to change the database\n"
		if status != 2 || out != "" || !strings.HasPrefix(messages, want) {
			t.Errorf("status %d, %q, %q; want %q", status, out, messages, want)
		}
	})
	if n < 20 {
		t.Errorf("there are only %d flags", n)
	}
}

// TestBackendWithDatabase refuses a backend by flags when any source names a database.
func TestBackendWithDatabase(t *testing.T) {
	const database = "postgres://a:s3cret@b/c"
	path := write(t, "w.yaml", "database: "+database+"\n")
	for _, c := range []struct {
		variable, text string // of the environment
		args           []string
		source         string
	}{
		{"OTHER", "", []string{"--settings", path}, path + ":1:11"},
		{settings.FileVariable, path, nil, path + ":1:11"},
		{settings.Variable("database"), database, nil, "WSBOUNCER_DATABASE"},
		{"OTHER", "", []string{"--database", database}, "--database"},
	} {
		t.Run(c.source, func(t *testing.T) {
			t.Setenv(c.variable, c.text)
			status, out, messages := run(append([]string{"check", "--backend", oneBackend}, c.args...)...)
			want := "Error: --backend: flags cannot describe a service when a database is set (" + c.source +
				": database: postgres://a:xxxxx@b/c): use 'wsbouncer backend add' to add a backend to it\n"
			if status != 2 || out != "" || !strings.HasPrefix(messages, want) {
				t.Errorf("status %d, %q, %q; want %q", status, out, messages, want)
			}
		})
	}
	if status, _, messages := run("check", "--backend", oneBackend, "--settings", path, "--database", ""); status != 0 {
		t.Errorf("a database in the file, and none wanted: %d, %q", status, messages)
	}
}

// TestHelpGroups has each flag once in the help, under its heading.
func TestHelpGroups(t *testing.T) {
	for _, command := range []string{"serve", "check"} {
		status, out, _ := run(command, "--help")
		process, rest, _ := strings.Cut(out, "\nOne service by flags")
		service, rest, _ := strings.Cut(rest, "\nOthers:")
		others, advanced, ok := strings.Cut(rest, "\nAdvanced settings")
		if status != 0 || !ok || !strings.Contains(process, "\nSettings of the process") {
			t.Fatalf("status %d:\n%s", status, out)
		}
		cmd := &cobra.Command{}
		var f serveFlags
		f.add(cmd)
		for name, part := range map[string]string{"listen": process, "settings": process, "queue": service, "backend": service, "help": others, "loop-wait": advanced} {
			if !strings.Contains(part, "--"+name+" ") {
				t.Errorf("%s: --%s is not under its heading", command, name)
			}
		}
		_, flags, _ := strings.Cut(out, "\nSettings of the process")
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if n := strings.Count(flags, "\n      --"+flag.Name+" "); n != 1 && !flag.Hidden {
				t.Errorf("%s: --%s stands there %d times", command, flag.Name, n)
			}
		})
		for line := range strings.Lines(flags) {
			if len(line) > 80+1 && !strings.Contains(line, "https://") { // a word that is too long
				t.Errorf("%s: a line of %d columns: %s", command, len(line)-1, line)
			}
		}
	}
}
