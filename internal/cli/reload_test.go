package cli

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// reloading is a reloader whose file the test writes.
type reloading struct {
	*reloader
	t       *testing.T
	path    string
	out     bytes.Buffer
	applied []settings.Settings
}

func newReloading(t *testing.T, text string, args ...string) *reloading {
	t.Helper()
	r := &reloading{reloader: newReloader(nil, nil, nil), t: t, path: write(t, "w.yaml", text)}
	f := parsed(t, append([]string{"--settings", r.path}, args...)...)
	sources := settings.Sources{Flags: &f.process, Environment: func() []string { return nil }}
	r.load = func() (*settings.Loaded, error) { return f.loadProcess(sources) }
	var err error
	if r.inForce, err = r.load(); err != nil {
		t.Fatal(err)
	}
	r.shown.Store(r.inForce)
	r.log = settings.NewLog(&r.out, &r.inForce.Settings)
	r.apply = func(l *settings.Loaded) { r.applied = append(r.applied, l.Settings) }
	r.reopen = func() bool { return false }
	return r
}

// allSettings is the part of a line that names them.
var allSettings = regexp.MustCompile(`Use one of listen, [^"]*`)

// reread writes the file, and returns what is logged when it is read again, without times.
func (r *reloading) reread(text string) (logged []string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.out.Reset()
	_, _ = r.reload(r.t.Context())
	for line := range strings.Lines(r.out.String()) {
		_, line, _ = strings.Cut(line, " ")
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), r.path, "w.yaml")
		logged = append(logged, allSettings.ReplaceAllString(line, "Use one of ..."))
	}
	return logged
}

func (r *reloading) want(got []string, want ...string) {
	r.t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReload(t *testing.T) {
	r := newReloading(t, "drain-timeout: 1m\nlisten: a:1\n", "--handshake-timeout", "1s")
	r.want(r.reread("drain-timeout: 2m\nlisten: a:2\nhandshake-timeout: 9s\nmax-header: 1KiB\n"),
		`level=WARN msg="setting needs a restart" name=listen "in force"=a:1 new=a:2 from=w.yaml:2:9`,
		`level=INFO msg="setting changed" name=max-header was=16KiB is=1KiB from=w.yaml:4:13`,
		`level=INFO msg="setting changed" name=drain-timeout was=1m is=2m from=w.yaml:1:16`,
		`level=INFO msg="settings reloaded" file=w.yaml changes=3`)
	if len(r.applied) != 1 || r.applied[0].DrainTimeout != 120e9 || r.applied[0].MaxHeader != 1024 || r.applied[0].HandshakeTimeout != 1e9 || r.applied[0].Listen[0] != "a:1" {
		t.Fatalf("applied: %+v", r.applied)
	}
	// What needs a restart is told again, and not applied. The rest is, since files that it names may have been replaced.
	r.want(r.reread("drain-timeout: 2m\nlisten: a:2\nmax-header: 1KiB\n"),
		`level=WARN msg="setting needs a restart" name=listen "in force"=a:1 new=a:2 from=w.yaml:2:9`,
		`level=INFO msg="settings reloaded" file=w.yaml changes=1`)
	if len(r.applied) != 2 || !reflect.DeepEqual(r.applied[0], r.applied[1]) {
		t.Errorf("applied: %+v", r.applied)
	}
	// A file with errors changes nothing, not even what is right in it, and all of them are logged.
	r.want(r.reread("drain-timeout: 3\nmax-heade: 1\nhandshake-timeout: 1s\n"),
		`level=ERROR msg="invalid setting" error="w.yaml:1:16: drain-timeout: invalid duration \"3\": use a number with a unit, such as 500ms, 10s or 1m30s, or none"`,
		`level=ERROR msg="invalid setting" error="w.yaml:2:1: unknown setting \"max-heade\": did you mean \"max-header\"? Use one of ..."`,
		`level=ERROR msg="settings not changed because of errors" errors=2`)
	if len(r.applied) != 2 || r.inForce.DrainTimeout != 120e9 {
		t.Errorf("applied: %+v, in force: %+v", r.applied, r.inForce.Settings)
	}
	// What is gone from the file has its default.
	r.want(r.reread("listen: a:1\n"),
		`level=INFO msg="setting changed" name=max-header was=1KiB is=16KiB from=default`,
		`level=INFO msg="setting changed" name=drain-timeout was=2m is=30s from=default`,
		`level=INFO msg="settings reloaded" file=w.yaml changes=2`)
	r.want(r.reread("listen: a:1\n"), `level=INFO msg="settings reloaded" file=w.yaml changes=0`)
}

// TestReloadRefusesADatabase has the file name one, while flags describe what is served.
func TestReloadRefusesADatabase(t *testing.T) {
	r := newReloading(t, "loops: 1\n", "--backend", oneBackend)
	r.want(r.reread("database: postgres://a:s3cret@b/c\nmax-header: 1KiB\n"),
		`level=ERROR msg="invalid setting" error="--backend: flags cannot describe a service when a database is set (w.yaml:1:11: database: `+
			`postgres://a:xxxxx@b/c): use 'wsbouncer backend add' to add a backend to it"`,
		`level=ERROR msg="settings not changed because of errors" errors=1`)
	if len(r.applied) > 0 {
		t.Errorf("applied %+v", r.applied)
	}
}

// TestReloadLog changes the level: what was changed is logged when either of the two levels shows it.
func TestReloadLog(t *testing.T) {
	r := newReloading(t, "log-level: info\n")
	quieter := r.reread("log-level: error\n")
	none := r.reread("log-level: error\nlisten: a:1\n")
	louder := r.reread("log-level: debug\n")
	r.want(quieter, `level=INFO msg="setting changed" name=log-level was=info is=error from=w.yaml:1:12`,
		`level=INFO msg="settings reloaded" file=w.yaml changes=1`)
	r.want(none)
	r.want(louder, `level=INFO msg="setting changed" name=log-level was=error is=debug from=w.yaml:1:12`,
		`level=INFO msg="settings reloaded" file=w.yaml changes=1`)
	r.reread("log-format: json\n")
	if r.out.Reset(); len(r.reread("log-format: json\n")) != 1 || !strings.HasPrefix(r.out.String(), `{"time":`) {
		t.Errorf("JSON was asked for: %s", &r.out)
	}
}

// TestReloadOnRequest has requests served until the proxy is told to end.
func TestReloadOnRequest(t *testing.T) {
	r := newReloading(t, "drain-timeout: 1m\n")
	if err := os.WriteFile(r.path, []byte("drain-timeout: 2m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	requests, reopen, done, applied := make(chan os.Signal), make(chan os.Signal), make(chan struct{}), make(chan settings.Settings)
	r.apply = func(l *settings.Loaded) { applied <- l.Settings }
	opened := 0 // how often the access log was opened again
	r.reopen = func() bool { opened++; return opened < 4 }
	go func() {
		defer close(done)
		r.run(ctx, requests, reopen)
	}()
	requests <- syscall.SIGHUP
	if got := <-applied; got.DrainTimeout != 120e9 {
		t.Errorf("applied %+v", got)
	}
	requests <- syscall.SIGHUP // which changes nothing, except that certificates and canaries may have
	<-applied
	reopen <- syscall.SIGHUP // any signal: its channel counts
	r.out.Reset()
	reopen <- syscall.SIGHUP
	end()
	<-done
	if opened != 4 || !strings.Contains(r.out.String(), "there is no access log") {
		t.Errorf("opened %d times, and logged %s", opened, r.out.String())
	}
}

// The admin API reloads, too, and shows what is in force and where it comes from.
func TestReloadThroughTheAPI(t *testing.T) {
	r := newReloading(t, "drain-timeout: 1m\nlisten: a:1\nlog-level: warn\ndatabase: postgres://a:s3cret@b/c\n", "--handshake-timeout", "1s")
	r.database = true
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx, nil, nil)
	}()
	if err := os.WriteFile(r.path, []byte("drain-timeout: 2m\nlisten: a:2\nlog-level: warn\ndatabase: postgres://a:s3cret@b/c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reloaded, err := r.ask(t.Context())
	want := []api.SettingChange{
		{Name: "listen", Was: "a:1", Is: "a:2", Source: r.path + ":2:9"},
		{Name: "drain-timeout", Was: "1m", Is: "2m", Source: r.path + ":1:16", Live: true},
	}
	if err != nil || reloaded.File != r.path || !slices.Equal(reloaded.Changes, want) {
		t.Errorf("%+v, %v", reloaded, err)
	}
	r.log.Level.Set(slog.LevelDebug)
	shown := make(map[string]api.Setting)
	for _, s := range r.list().Settings {
		shown[s.Name] = s
	}
	for _, want := range []api.Setting{
		{Name: "listen", Value: "a:1", Default: "127.0.0.1:8080", From: "file", Source: r.path + ":2:9"}, // its place may have moved
		{Name: "drain-timeout", Value: "2m", Default: "30s", From: "file", Source: r.path + ":1:16", Live: true},
		{Name: "handshake-timeout", Value: "1s", Default: "10s", From: "flag", Source: "--handshake-timeout", Live: true},
		{Name: "log-level", Value: "debug", Default: "info", From: "command", Source: "wsbouncer log level", Live: true},
		{Name: "database", Value: "postgres://a:xxxxx@b/c", Default: "wsbouncer.db in the state directory", From: "file", Source: r.path + ":4:11"},
		{Name: "health-path", Default: "none", From: "default"},
	} {
		if shown[want.Name] != want {
			t.Errorf("%+v\nwant\n%+v", shown[want.Name], want)
		}
	}
	if err := os.WriteFile(r.path, []byte("drain-timeout: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid duration") {
		t.Errorf("a file with an error: %v", err)
	}
	end()
	<-done
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.ask(late); err == nil {
		t.Error("the process has ended, and reloads")
	}
}

// TestEndDuringReload has the process end while a file of settings does not answer.
func TestEndDuringReload(t *testing.T) {
	r := newReloading(t, "drain-timeout: 1m\n")
	begun, answer, read := make(chan struct{}), make(chan struct{}), make(chan struct{})
	load := r.load
	r.load = func() (*settings.Loaded, error) {
		defer close(read)
		close(begun)
		<-answer
		return load()
	}
	ctx, end := context.WithCancel(t.Context())
	requests, done := make(chan os.Signal, 1), make(chan struct{})
	requests <- syscall.SIGHUP
	go func() {
		defer close(done)
		r.run(ctx, requests, nil)
	}()
	<-begun
	end()
	<-done
	close(answer) // too late
	<-read
	if len(r.applied) > 0 || !strings.Contains(r.out.String(), "reading them was not finished") {
		t.Errorf("applied %+v, and logged %s", r.applied, r.out.String())
	}
}
