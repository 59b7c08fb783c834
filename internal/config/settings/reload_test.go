package settings

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// TestReload changes every setting at once, and back.
func TestReload(t *testing.T) {
	t.Setenv("TOKEN_A", "s3cret-a")
	t.Setenv("TOKEN_B", "s3cret-b")
	t.Setenv("TOKEN_C", "s3cret-c")
	t.Setenv("TOKEN_D", "s3cret-d")
	t.Setenv("TOKEN_E", "s3cret-e")
	t.Setenv("TOKEN_F", "s3cret-f")
	var was, is, live, asleep []string
	for _, s := range table {
		was = append(was, "--"+s.name, example[s.name][0])
		is = append(is, "--"+s.name, example[s.name][1])
		if s.live {
			live = append(live, s.name)
		} else {
			asleep = append(asleep, s.name)
		}
	}
	if want := []string{
		"tls-cert", "tls-key", "tls-client-ca", "tls-client-auth", "tls-min-version",
		"admin-token", "admin-reader-token", "fleet-token", "max-header", "failed-auth-rate", "total-session-limit", "total-session-rate", "total-byte-rate", "replay-memory", "handshake-timeout", "max-handshakes", "client-timeout", "shutdown-delay", "drain-timeout", "upgrade-drain-timeout", "ready-services", "trusted-proxies", "forwarded-header", "proxy-protocol", "log-level", "log-format", "access-log", "access-log-format", "trace-ratio",
	}; !slices.Equal(live, want) {
		t.Errorf("live settings are %q", live)
	}
	first, second := given{flags: was}.load(t), given{flags: is}.load(t)
	inForce, changes := first.Reload(second)
	var got []string
	for _, c := range changes {
		got = append(got, c.Name)
		s, is := find(rows(&first.Settings), c.Name), find(rows(&second.Settings), c.Name)
		if c.Was != s.shown() || c.Is != is.shown() || c.Live != s.live || c.Source != "--"+c.Name {
			t.Errorf("%+v", c)
		}
		want := is.value.Text()
		if !s.live {
			want = s.value.Text()
		}
		if got := find(rows(&inForce.Settings), c.Name).value.Text(); got != want {
			t.Errorf("%s is %s; want %s", c.Name, got, want)
		}
	}
	if !slices.Equal(got, Names()) || inForce.Token != "s3cret-b" || inForce.ReaderToken != "s3cret-d" || inForce.PeerToken != "s3cret-f" {
		t.Errorf("changed: %q, and the token is %q", got, inForce.Token)
	}
	if _, again := inForce.Reload(second); !slices.EqualFunc(again, asleep, func(c Change, name string) bool { return c.Name == name }) {
		t.Errorf("told again: %+v; want %q", again, asleep)
	}
	back, _ := inForce.Reload(first)
	if !reflect.DeepEqual(back.Settings, first.Settings) || back.Token != first.Token {
		t.Errorf("back: %+v; want %+v", back, first)
	}
	if _, none := first.Reload(first); len(none) != 0 {
		t.Errorf("nothing has changed, but %+v", none)
	}
	if strings.Contains(fmt.Sprintf("%+v", changes), "s3cret") {
		t.Errorf("a secret in %+v", changes)
	}
}

// TestReloadOfMovedListener: the addresses of a listener and of its items change together. The listener needs a restart, so it runs on, and must not stop asking for
// clients' certificates.
func TestReloadOfMovedListener(t *testing.T) {
	at := func(ca string, addresses ...string) *Loaded {
		flags := []string{"--tls-cert", "/c.pem", "--tls-key", "/k.pem", "--tls-client-ca", addresses[0] + "=" + ca}
		for _, address := range addresses {
			flags = append(flags, "--tls-listen", address)
		}
		return given{flags: flags}.load(t)
	}
	inForce, changes := at("/ca.pem", "127.0.0.1:8443").Reload(at("/ca.pem", "127.0.0.1:9443"))
	one := inForce.Secured()[0]
	if inForce.TLSListen[0] != "127.0.0.1:8443" || one.ClientAuth != secure.RequiredClientCertificate || !slices.Equal(one.ClientCA, []string{"/ca.pem"}) {
		t.Errorf("the listener at %s asks for clients' certificates: %v, of authorities %q", inForce.TLSListen[0], one.ClientAuth, one.ClientCA)
	}
	for _, c := range changes {
		if c.Live {
			t.Errorf("%s has changed", c.Name)
		}
	}
	inForce, _ = inForce.Reload(at("/new.pem", "127.0.0.1:8443", "127.0.0.1:9443")) // one more listener
	if one := inForce.Secured()[0]; !slices.Equal(one.ClientCA, []string{"/new.pem"}) {
		t.Errorf("a listener that stays has the authorities %q", one.ClientCA)
	}
}

// TestReloadOfWhatNeedsARestart: what is new fits only settings that need a restart. Until then, it must not be mixed with the old ones.
func TestReloadOfWhatNeedsARestart(t *testing.T) {
	t.Setenv("LONG", "0123456789abcdef")
	t.Setenv("SHORT", "abc")
	secured := []string{"--tls-listen", "127.0.0.1:8443", "--tls-cert", "/c.pem", "--tls-key", "/k.pem", "--tls-client-ca", "/ca.pem"}
	for name, c := range map[string]struct{ was, is []string }{
		"no listener, and a certificate without its key": {secured, []string{"--tls-cert", "/c.pem"}},
		"no listener, and no authorities":                {secured, []string{"--tls-cert", "/c.pem", "--tls-key", "/k.pem"}},
		"a short token for an address that only this machine reaches": {
			[]string{"--admin", "0.0.0.0:9090", "--admin-token", "env:LONG"}, []string{"--admin", "127.0.0.1:9090", "--admin-token", "env:SHORT"},
		},
		"no token for an address that only this machine reaches": {[]string{"--admin", "0.0.0.0:9090", "--admin-token", "env:LONG"}, []string{"--admin", "127.0.0.1:9090"}},
	} {
		before, after := given{flags: c.was}.load(t), given{flags: append(c.is, "--log-level", "debug")}.load(t)
		inForce, changes := before.Reload(after)
		if inForce.Token != before.Token || !reflect.DeepEqual(inForce.Secured(), before.Secured()) || inForce.Check() != nil {
			t.Errorf("%s: %+v", name, inForce.Settings)
		}
		for _, change := range changes {
			if change.Live != (change.Name == "log-level") {
				t.Errorf("%s: %+v", name, change)
			}
		}
	}
}

// TestReloadHidesSecrets changes what only secrets say: a password, and what a token's file has.
func TestReloadHidesSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	load := func(password, token string) *Loaded {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		return given{flags: []string{"--database", "postgres://a:" + password + "@b/c", "--admin-token", "file:" + path}}.load(t)
	}
	first, second := load("s3cret-a", "s3cret-b"), load("s3cret-c", "s3cret-d")
	inForce, changes := first.Reload(second)
	if len(changes) != 2 || changes[0].Name != "admin-token" || changes[0].Is != "file:"+path+" (changed)" || inForce.Token != "s3cret-d" {
		t.Errorf("changes %+v", changes)
	}
	if strings.Contains(fmt.Sprintf("%+v", changes), "s3cret") {
		t.Errorf("a secret in %+v", changes)
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	s := Defaults()
	log := NewLog(&out, &s)
	derived := log.With("a", 1).WithGroup("g")
	for _, c := range []struct{ level, format, want string }{
		{"info", "text", "level=INFO msg=hello a=1 g.b=2\n"},
		{"info", "json", `"level":"INFO","msg":"hello","a":1,"g":{"b":2}}` + "\n"},
		{"warn", "json", ""},
		{"debug", "text", "level=INFO msg=hello a=1 g.b=2\n"},
	} {
		out.Reset()
		s.LogLevel, s.LogFormat = c.level, c.format
		log.Set(&s)
		derived.Info("hello", "b", 2)
		if got := out.String(); !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s, %s: %q; want %q", c.level, c.format, got, c.want)
		}
	}
	for level, least := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		s.LogLevel = level
		log.Set(&s)
		if !log.Enabled(t.Context(), least) || log.Enabled(t.Context(), least-1) {
			t.Errorf("%s logs something else than from %v on", level, least)
		}
	}
}
