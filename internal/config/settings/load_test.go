package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// given is what the sources of a test say.
type given struct {
	file        string // its content; empty for no file
	environment []string
	flags       []string
}

// sources returns the sources; the file is named w.yaml, in a directory whose name errors and places begin with.
func (g given) sources(t *testing.T) (s Sources, directory string) {
	t.Helper()
	directory = t.TempDir() + string(filepath.Separator)
	args := g.flags
	if g.file != "" {
		path := directory + "w.yaml"
		if err := os.WriteFile(path, []byte(g.file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--settings", path}, args...)
	}
	var flags Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Add(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Sources{Flags: &flags, Environment: func() []string { return g.environment }}, directory
}

// load reads the sources, which must be fine.
func (g given) load(t *testing.T) *Loaded {
	t.Helper()
	s, directory := g.sources(t)
	l, err := s.Load()
	if err != nil {
		t.Fatalf("%+v: %v", g, err)
	}
	for name, source := range l.sources {
		l.sources[name] = strings.TrimPrefix(source, directory)
	}
	return l
}

// errors reads the sources, and returns what is wrong, without the directory of the file.
func (g given) errors(t *testing.T) []string {
	t.Helper()
	s, directory := g.sources(t)
	l, err := s.Load()
	if err == nil {
		t.Fatalf("%+v: no error, but %+v", g, l)
	}
	return strings.Split(strings.ReplaceAll(err.Error(), directory, ""), "\n")
}

// example is a value of each setting that is none of the defaults, and another one.
var example = map[string][2]string{
	"listen": {"127.0.0.1:1", "127.0.0.1:2"}, "admin": {"127.0.0.1:3", "127.0.0.1:4"}, "admin-socket": {"/run/a", "off"},
	"admin-token": {"env:TOKEN_A", "env:TOKEN_B"}, "admin-reader-token": {"env:TOKEN_C", "env:TOKEN_D"}, "admin-tls-cert": {"/a.pem", "/b.pem"}, "admin-tls-key": {"/a.key", "/b.key"}, "database": {"a.db", "b.yaml"}, "state-directory": {"a", "b"}, "loops": {"1", "2"},
	"fleet": {"off", "auto"}, "proxy-name": {"proxy-a", "proxy-b"}, "fleet-address": {"http://10.0.0.5:9090", "https://proxy-b.example.org"},
	"fleet-token": {"env:TOKEN_E", "env:TOKEN_F"}, "fleet-ca": {"a-fleet.pem", "b-fleet.pem"}, "fleet-server-name": {"a.example.org", "b"}, "reconnect-url": {"wss://a.example.org", "ws://b.example.org:8080/stt"}, "grant-timeout": {"30s", "never"}, "grant-refused": {"anywhere", "same-host"}, "grant-floor": {"2", "3"},
	"grant-share": {"0.5", "2"}, "grant-without-database": {"4", "0"},
	"dns-server": {"127.0.0.1:53", "ns.example.org:8600"},
	"dial-from":  {"127.0.0.2", "::1"},
	"secret-env": {"A_TOKEN", "B_TOKEN"}, "secret-directory": {"/a", "/b"},
	"tls-listen": {"127.0.0.1:5", ":6"}, "tls-cert": {"a.pem", "b.pem"}, "tls-key": {"a-key.pem", "b-key.pem"}, "tls-client-ca": {"a-ca.pem", "b-ca.pem"},
	"tls-client-auth": {"optional", "required"}, "tls-min-version": {"1.3", "1.2"},
	"tls-auto": {"stt.example.com", "mt.example.com"}, "tls-auto-directory": {"https://a.example.org/dir", "https://b.example.org/dir"},
	"tls-auto-ca": {"a-auto.pem", "b-auto.pem"},
	"io-uring":    {"on", "off"}, "replay-memory": {"64MiB", "2GiB"},
	"loop-wait":  {"raw", "block"},
	"max-header": {"1KiB", "2KiB"}, "failed-auth-rate": {"0", "5/s"}, "total-session-limit": {"0", "500"}, "total-session-rate": {"0", "100/s"}, "total-byte-rate": {"0", "10MiB/s"}, "handshake-timeout": {"1s", "2s"}, "max-handshakes": {"64", "4096"}, "client-timeout": {"30s", "none"}, "drain-timeout": {"0s", "none"},
	"shutdown-delay": {"5s", "0s"}, "upgrade-drain-timeout": {"1h", "2h"}, "health-path": {"/healthz", "/up"}, "ready-services": {"stt", "tts"},
	"trusted-proxies": {"10.0.0.0/8", "2001:db8::7"}, "forwarded-header": {"forwarded", "none"}, "proxy-protocol": {"optional", "required"},
	"log-level": {"debug", "warn"}, "log-format": {"json", "text"},
	"otlp-endpoint": {"http://127.0.0.1:4318", "off"}, "trace-ratio": {"0.1", "0"},
	"access-log": {"/var/log/a.log", "b.log"}, "access-log-format": {"combined", "json"},
}

// companion is a flag without which a setting is an error.
var companion = map[string][]string{
	"proxy-protocol": {"--trusted-proxies", "10.0.0.0/8"}, "admin-tls-cert": {"--admin-tls-key", "/k"}, "admin-tls-key": {"--admin-tls-cert", "/c"},
	"tls-listen": {"--listen", "127.0.0.1:8080", "--tls-cert", "a.pem", "--tls-key", "a-key.pem"},
}

// TestPrecedence has every setting in every source, alone and together with each source that wins over it.
func TestPrecedence(t *testing.T) {
	t.Setenv("TOKEN_A", "a")
	t.Setenv("TOKEN_B", "b")
	t.Setenv("TOKEN_C", "c")
	t.Setenv("TOKEN_D", "d")
	t.Setenv("TOKEN_E", "e")
	t.Setenv("TOKEN_F", "f")
	for i := range table {
		s, standard := &table[i], table[i].value.Text()
		first, second := example[s.name][0], example[s.name][1]
		variable := func(text string) []string { return []string{Variable(s.name) + "=" + text} }
		flag := func(text string) []string { return []string{"--" + s.name, text} }
		key := func(text string) string { return s.name + ": " + text + "\n" }
		inFile := fmt.Sprintf("w.yaml:1:%d", len(s.name)+3)
		for _, c := range []struct {
			given        given
			want, source string
		}{
			{given{}, standard, ""},
			{given{file: key(first)}, first, inFile},
			{given{environment: variable(first)}, first, Variable(s.name)},
			{given{flags: flag(first)}, first, "--" + s.name},
			{given{file: key(first), environment: variable(second)}, second, Variable(s.name)},
			{given{file: key(first), flags: flag(second)}, second, "--" + s.name},
			{given{environment: variable(first), flags: flag(second)}, second, "--" + s.name},
			{given{file: key(first), environment: variable(first), flags: flag(second)}, second, "--" + s.name},
			{given{file: key(first), environment: variable("")}, standard, Variable(s.name)}, // nothing is the default
		} {
			var with []string
			if c.want != standard {
				with = companion[s.name]
			}
			c.given.flags = append(with[:len(with):len(with)], c.given.flags...)
			l := c.given.load(t)
			now := rows(&l.Settings)
			got, want := now[i].shown(), c.want
			if want == standard {
				want = s.shown()
			}
			if got != want || l.Source(s.name) != c.source {
				t.Errorf("%s, %+v: %q from %q; want %q from %q", s.name, c.given, got, l.Source(s.name), want, c.source)
			}
			for j, other := range now { // and nothing else has changed
				if text := other.value.Text(); j != i && text != table[j].value.Text() && !slices.Contains(with, "--"+other.name) {
					t.Errorf("%+v: %s is %s", c.given, other.name, text)
				}
			}
		}
	}
}

func TestLists(t *testing.T) {
	for _, g := range []given{
		{file: "listen: ['[::1]:80', \"127.0.0.1:80\"]\n"},
		{file: "listen:\n- '[::1]:80'\n- 127.0.0.1:80\n"},
		{environment: []string{"WSBOUNCER_LISTEN=[::1]:80, 127.0.0.1:80"}},
		{flags: []string{"--listen", "[::1]:80", "--listen", "127.0.0.1:80"}},
		{file: "listen: 127.0.0.1:81\n", environment: []string{"WSBOUNCER_LISTEN=[::1]:80,127.0.0.1:80"}},
	} {
		if l := g.load(t); strings.Join(l.Listen, " ") != "[::1]:80 127.0.0.1:80" {
			t.Errorf("%+v: %q", g, l.Listen)
		}
	}
	if l := (given{flags: []string{"--listen", ":0", "--listen", ":0", "--admin", "127.0.0.1:0"}}).load(t); len(l.Listen) != 2 {
		t.Errorf("two ports of the system's choice: %q", l.Listen)
	}
	for _, g := range []given{
		{file: "dial-from: []\n"},
		{file: "dial-from:\n"},
		{file: "dial-from: ''\n"},
		{environment: []string{"WSBOUNCER_DIAL_FROM="}},
		{file: "dial-from: 10.0.0.5\n", flags: []string{"--dial-from", ""}},
	} {
		if l := g.load(t); len(l.DialFrom) > 0 {
			t.Errorf("%+v: %q; want the default", g, l.DialFrom)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(path, []byte("loops: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	variable := []string{FileVariable + "=" + path}
	if l := (given{environment: variable}).load(t); l.Loops != 7 || l.File != path {
		t.Errorf("named by the variable: %d loops from %s", l.Loops, l.File)
	}
	if l := (given{file: "loops: 8\n", environment: variable}).load(t); l.Loops != 8 {
		t.Errorf("named by the flag: %d loops from %s", l.Loops, l.File)
	}
	if l := (given{environment: variable, flags: []string{"--settings", ""}}).load(t); l.Loops != 0 || l.File != "" {
		t.Errorf("no file wanted: %d loops from %s", l.Loops, l.File)
	}
	directory := t.TempDir()
	for _, c := range []struct {
		given given
		says  string
	}{
		{given{environment: []string{FileVariable + "=" + path + "x"}}, FileVariable + ": open " + path + "x: no such file"},
		{given{flags: []string{"--settings", path + "x"}}, "--settings: open " + path + "x: no such file"},
		{given{flags: []string{"--settings", directory}}, "--settings: " + directory + " is a directory: use a file"},
	} {
		if got := c.given.errors(t); len(got) != 1 || !strings.HasPrefix(got[0], c.says) {
			t.Errorf("%+v: %q; want %q", c.given, got, c.says)
		}
	}
}

// TestInvalidSettings has each kind of error in each source. Every line names the place, the value and what is allowed.
func TestInvalidSettings(t *testing.T) {
	t.Setenv("EMPTY", "")
	t.Setenv("SPACES", "s3cret s3cret")
	for _, c := range []struct {
		given given
		says  []string // how the lines begin
	}{
		{given{file: "listn: x\n"}, []string{`w.yaml:1:1: unknown setting "listn": did you mean "listen"? Use one of listen, tls-listen`}},
		{given{file: "services: {stt: {path: /v1}}\nbackends:\n"}, []string{
			`w.yaml:1:1: "services" belongs to the configuration, not to the settings: put it into another file and set database to that file`, `w.yaml:2:1: "backends" belongs to the configuration`,
		}},
		{given{file: "loops: 1\nloops: 2\n"}, []string{`w.yaml:2:1: "loops" is defined twice`}},
		{given{file: "loops: many\nlog-level: loud\ndrain-timeout: 5\nmax-header: 1\n"}, []string{
			`w.yaml:1:8: loops: invalid number "many": use a whole number from 0 to 1024`,
			`w.yaml:2:12: log-level: unknown log level "loud": use one of debug, info, warn, error`,
			`w.yaml:3:16: drain-timeout: invalid duration "5": use a number with a unit`,
			`w.yaml:4:13: max-header: invalid size "1": use a size from 512 to 1MiB`,
		}},
		{given{file: "log-format: xml\nwat: 1\nloops: [1]\nadmin: {a: b}\nlog-format: text\n"}, []string{
			`w.yaml:1:13: log-format: unknown log format "xml": use one of text, json`, `w.yaml:2:1: unknown setting "wat": use one of`,
			`w.yaml:3:8: loops: found a list; expected text or a number`, `w.yaml:4:8: admin: found a mapping; expected text or a number`, `w.yaml:5:1: "log-format" is defined twice`,
		}},
		{given{file: "listen: []\n"}, []string{`w.yaml:1:9: listen: the list is empty: use a list of host:port`}},
		{given{file: "dial-from: [10.0.0.5, 10.0.0.5:80]\n"}, []string{
			`w.yaml:1:12: dial-from: invalid address "10.0.0.5:80": use an IP address of this machine, such as 10.0.0.5`,
		}},
		{given{file: "trusted-proxies: [10.0.0.0/33, 10.0.0.1/8]\n"}, []string{
			`w.yaml:1:18: trusted-proxies: invalid network "10.0.0.0/33": use a prefix length from 0 to 32, such as 10.0.0.0/24, not "33"`,
		}},
		{given{flags: []string{"--trusted-proxies", "10.0.0.1/8"}}, []string{`--trusted-proxies: invalid network "10.0.0.1/8": use 10.0.0.0/8 for the network, or 10.0.0.1 for the one address`}},
		{given{environment: []string{"WSBOUNCER_TRUSTED_PROXIES=lb.internal"}}, []string{
			`WSBOUNCER_TRUSTED_PROXIES: invalid network "lb.internal": use a network such as 10.0.0.0/8 or an address such as 192.0.2.7; names are not looked up`,
		}},
		{given{file: "proxy-protocol: optional\n"}, []string{`w.yaml:1:17: proxy-protocol: "optional" needs trusted-proxies: name the networks`}},
		{given{flags: []string{"--proxy-protocol", "require"}}, []string{`--proxy-protocol: unknown use of PROXY protocol "require": did you mean "required"?`}},
		{given{file: "forwarded-header: x-real-ip\n"}, []string{`w.yaml:1:19: forwarded-header: unknown header "x-real-ip": use one of x-forwarded-for, forwarded, none`}},
		{given{file: "listen: [a:1, {a: b}]\n"}, []string{`w.yaml:1:15: listen: found a mapping; expected text or a number`}},
		{given{file: "listen: [a:1, a:1]\n"}, []string{`w.yaml:1:9: listen: "a:1" is listed twice`}},
		{given{file: "loops: &a 1\nadmin: *a\n"}, []string{`w.yaml:1:8: loops: anchors, aliases and tags are not supported`, `w.yaml:2:8: admin: anchors`}},
		{given{file: "- loops\n"}, []string{`w.yaml:1:1: found a list; expected a mapping from settings, such as listen and database`}},
		{given{file: "loops: 1\n---\nloops: 2\n"}, []string{`w.yaml:2: a second YAML document begins here`}},
		{given{file: "loops: \"1\n"}, []string{`w.yaml:2: invalid YAML: found unexpected end of stream`}},
		{given{file: "loops: 1\n\xff"}, []string{`w.yaml:2: invalid UTF-8`}},
		{given{file: strings.Repeat("#", maxFile+1)}, []string{`w.yaml: the file has 1048577 bytes: use at most 1048576`}},
		{given{environment: []string{"WSBOUNCER_LISTEN=a:1,b", "WSBOUNCER_LOOPS=-1"}}, []string{
			`WSBOUNCER_LISTEN: invalid address "b": use host:port`, `WSBOUNCER_LOOPS: invalid number "-1": use a whole number from 0 to 1024`,
		}},
		{given{environment: []string{"WSBOUNCER_LISTEN=a:1,"}}, []string{`WSBOUNCER_LISTEN: invalid address ""`}},
		{given{flags: []string{"--listen", "", "--loops", "x", "--loops", "y", "--database", "mysql://a:s3cret@b/c"}}, []string{
			`--listen: invalid address "": use host:port`, `--database: invalid database "mysql://a:xxxxx@b/c": use a path`,
			`--loops: invalid number "y"`,
		}},
		{given{file: "loops: x\n", environment: []string{"WSBOUNCER_LOOPS=y"}, flags: []string{"--loops", "z"}}, []string{
			`w.yaml:1:8: loops: invalid number "x"`, `WSBOUNCER_LOOPS: invalid number "y"`, `--loops: invalid number "z"`,
		}},
		{given{file: "admin: 127.0.0.1:8080\n"}, []string{`w.yaml:1:8: admin: listen already uses "127.0.0.1:8080": give the admin API another address`}},
		{given{file: "admin: 127.0.0.1:1\n", flags: []string{"--listen", "127.0.0.1:1"}}, []string{`w.yaml:1:8: admin: listen already uses "127.0.0.1:1"`}},
		{given{file: "admin-tls-cert: /a\n"}, []string{"w.yaml:1:17: admin-tls-cert: admin-tls-key is missing"}},
		{given{file: "admin-tls-key: /a\n"}, []string{"w.yaml:1:16: admin-tls-key: admin-tls-cert is missing"}},
		{given{environment: []string{"WSBOUNCER_ADMIN_TOKEN=env:HOME", "WSBOUNCER_ADMIN_READER_TOKEN=env:HOME"}}, []string{"WSBOUNCER_ADMIN_READER_TOKEN: it is the same token as admin-token"}},
		{given{file: "admin-token: s3cret\n"}, []string{`w.yaml:1:14: admin-token: invalid reference: use env:NAME or file:/path, or put the token itself into the environment variable WSBOUNCER_ADMIN_TOKEN`}},
		{given{flags: []string{"--admin-token", "Bearer env:HOME s3cret"}}, []string{`--admin-token: invalid reference`}},
		{given{file: "admin-token: env:NONE_SUCH\n"}, []string{`w.yaml:1:14: admin-token: env:NONE_SUCH: the environment variable is not set`}},
		{given{flags: []string{"--admin-token", "env:EMPTY"}}, []string{`--admin-token: env:EMPTY: the value is empty`}},
		{given{flags: []string{"--admin-token", "env:SPACES"}}, []string{`--admin-token: env:SPACES: invalid token: use`}},
		{given{environment: []string{"WSBOUNCER_ADMIN_TOKEN=file:/none/such"}}, []string{`WSBOUNCER_ADMIN_TOKEN: file:/none/such: open /none/such: no such file`}},
	} {
		got := c.given.errors(t)
		ok := len(got) == len(c.says)
		for i := range got {
			ok = ok && strings.HasPrefix(got[i], c.says[i])
		}
		if !ok || strings.Contains(strings.Join(got, ""), "s3cret") {
			t.Errorf("%.80q, %q, %q:\n%s\nwant\n%s", c.given.file, c.given.environment, c.given.flags, strings.Join(got, "\n"), strings.Join(c.says, "\n"))
		}
	}
}

func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WSBOUNCER_ADMIN_TOKEN", "from-variable")
	for _, c := range []struct {
		given            given
		reference, token string
	}{
		{given{}, "", ""},
		{given{file: "admin-token: file:" + path + "\n"}, "file:" + path, "from-file"},
		{given{environment: []string{"WSBOUNCER_ADMIN_TOKEN=file:" + path}}, "file:" + path, "from-file"},
		{given{environment: os.Environ()}, "env:WSBOUNCER_ADMIN_TOKEN", "from-variable"},
	} {
		if l := c.given.load(t); l.AdminToken != c.reference || l.Token != c.token {
			t.Errorf("%+v: %q is %q", c.given, l.AdminToken, l.Token)
		}
	}
}

// Trusting everybody draws a warning.
func TestEverybodyIsTrusted(t *testing.T) {
	l := given{file: "trusted-proxies: [10.0.0.0/8, 0.0.0.0/0]\n"}.load(t)
	want := "w.yaml:1:18: trusted-proxies: 0.0.0.0/0 is every address: each client is believed about its own address, whatever it says"
	if len(l.Warnings) != 1 || !strings.HasSuffix(l.Warnings[0], want) {
		t.Errorf("warnings %q; want %q", l.Warnings, want)
	}
	if l := (given{file: "trusted-proxies: []\n"}).load(t); len(l.TrustedProxies)+len(l.Warnings) != 0 {
		t.Errorf("an empty list: %q, warnings %q", l.TrustedProxies, l.Warnings)
	}
}

// Letting clients that are slow or gone take much draws a warning.
func TestSlowClientsAreAllowed(t *testing.T) {
	l := given{file: "client-timeout: none\nhandshake-timeout: 2m\n"}.load(t)
	want := []string{
		"w.yaml:1:17: client-timeout: none: a client that is gone without a word keeps its server's place for up to a quarter of an hour",
		"w.yaml:2:20: handshake-timeout: 2m: a client needs a few round trips; one that sends its request slowly stays for that long",
	}
	if len(l.Warnings) != 2 || !strings.HasSuffix(l.Warnings[0], want[0]) || !strings.HasSuffix(l.Warnings[1], want[1]) {
		t.Errorf("warnings %q; want %q", l.Warnings, want)
	}
	if l := (given{file: "client-timeout: 1h\nhandshake-timeout: 1m\n"}).load(t); len(l.Warnings) != 0 {
		t.Errorf("warnings %q", l.Warnings)
	}
}

func TestUnknownVariables(t *testing.T) {
	l := given{environment: []string{
		"WSBOUNCER_LISTN=s3cret", "WSBOUNCER_XYZZY=1", "OTHER=1", "WSBOUNCER", "WSBOUNCER_SETTINGS=",
		// What Kubernetes says of services named wsbouncer and wsbouncer-admin.
		"WSBOUNCER_SERVICE_HOST=10.0.0.1", "WSBOUNCER_SERVICE_PORT=80", "WSBOUNCER_SERVICE_PORT_HTTP=80", "WSBOUNCER_PORT=tcp://10.0.0.1:80",
		"WSBOUNCER_PORT_80_TCP=tcp://10.0.0.1:80", "WSBOUNCER_PORT_80_TCP_PROTO=tcp", "WSBOUNCER_PORT_80_TCP_PORT=80", "WSBOUNCER_PORT_80_TCP_ADDR=10.0.0.1",
		"WSBOUNCER_ADMIN_SERVICE_HOST=10.0.0.1", "WSBOUNCER_ADMIN_PORT_90_UDP_ADDR=10.0.0.1",
	}}.load(t)
	want := "unknown environment variable WSBOUNCER_LISTN: did you mean WSBOUNCER_LISTEN?\n" +
		"unknown environment variable WSBOUNCER_XYZZY"
	if got := strings.Join(l.Warnings, "\n"); got != want {
		t.Errorf("warnings:\n%s\nwant\n%s", got, want)
	}
	for _, name := range Names() {
		if injected.MatchString(Variable(name)) {
			t.Errorf("Kubernetes may give a process the variable %s by itself", Variable(name))
		}
	}
}

// WSBOUNCER_ADMIN is also where commands ask: what only they understand sets nothing.
func TestAdminOfCommands(t *testing.T) {
	for _, address := range []string{"unix:/run/wsbouncer/admin.sock", "http://10.0.0.5:9090", "https://proxy.example.org:9090", "@prod"} {
		l := given{file: "admin: 127.0.0.1:9090\n", environment: []string{"WSBOUNCER_ADMIN=" + address}}.load(t)
		if l.Admin != "127.0.0.1:9090" || len(l.Warnings) != 0 || len(l.Notes) != 1 || l.Notes[0] != "WSBOUNCER_ADMIN is for commands here, since it names a running proxy: serve ignores it, which does no harm" {
			t.Errorf("%s: admin %q, warnings %q, notes %q", address, l.Admin, l.Warnings, l.Notes)
		}
	}
	if l := (given{environment: []string{"WSBOUNCER_ADMIN=127.0.0.1:9091"}}).load(t); l.Admin != "127.0.0.1:9091" || len(l.Notes) != 0 {
		t.Errorf("an address to listen on: admin %q, notes %q", l.Admin, l.Notes)
	}
	for _, address := range []string{"10.0.0.5", "ftp://10.0.0.5:90"} {
		if got := (given{environment: []string{"WSBOUNCER_ADMIN=" + address}}).errors(t); len(got) != 1 {
			t.Errorf("%s: %q", address, got)
		}
	}
}

func TestFlagsAreOptional(t *testing.T) {
	l, err := Sources{Environment: func() []string { return []string{"WSBOUNCER_LOOPS=3"} }}.Load()
	if err != nil || l.Loops != 3 {
		t.Errorf("only the environment: %+v, %v", l, err)
	}
	if l, err := (Sources{}).Load(); err != nil || l.MaxHeader != Defaults().MaxHeader {
		t.Errorf("nothing: %+v, %v", l, err)
	}
}
