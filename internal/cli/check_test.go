package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
)

// served is a configuration with two services.
var served = `services:
  stt: {path: /v1/stt, profile: vosk, pass: ["header:X-Tenant"], verified: ` + time.Now().UTC().Format(time.DateOnly) + ` vosk reset=holds}
  mt: {host: mt.example.org}
backends:
  gpu-1: {service: stt, url: "ws://127.0.0.1:2700/", connections: 32, warm: 8, calibrated: ` + time.Now().UTC().Format(time.DateOnly) + ` vosk streams=32}
  gpu-2: {service: stt, url: "ws://127.0.0.1:2701/", connections: 16, state: draining, calibrated: ` + time.Now().UTC().Format(time.DateOnly) + ` vosk streams=16}
`

// fill puts a configuration into a database.
func fill(t *testing.T, database, text string) {
	t.Helper()
	from, err := stores.Open(write(t, "c.yaml", text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	snapshot, err := from.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to, err := stores.Open(database, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	before, err := to.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content := snapshot.Content()
	if _, err := to.Apply(t.Context(), config.Change{Expect: before.Version(), Who: "test", Content: &content}); err != nil {
		t.Fatal(err)
	}
}

func TestCheckDatabase(t *testing.T) {
	sqlite, yaml := filepath.Join(t.TempDir(), "c.db"), write(t, "c.yaml", served)
	fill(t, sqlite, served)
	for _, database := range []string{sqlite, yaml} {
		status, out, messages := run("check", "--database", database, "--state-directory", "/s", "--admin", "127.0.0.1:9090", "--listen", ":1", "--listen", ":2")
		if status != 0 || messages != "" {
			t.Errorf("%s: status %d, %q", database, status, messages)
		}
		fleet := `other processes of this host by ` + regexp.QuoteMeta(database) + `-fleet`
		if strings.HasSuffix(database, ".yaml") {
			fleet = `no other proxy, but with the process that an upgrade replaces, by /s/fleet\.db`
		}
		for _, want := range []string{
			`fleet +shares caps with ` + fleet, `listen +:1`, `listen +:2`, `admin +127\.0\.0\.1:9090 \(read-only without admin-token\), /s/admin\.sock`, `database +` + regexp.QuoteMeta(database) + `, version \w+`,
			`service +mt: every path of mt\.example\.org, profile one-shot, backends: 0, sessions: at most 0 at once`,
			`service +stt: /v1/stt, profile vosk, backends: 2, sessions: at most 32 at once`,
			` +handshake: passes header:X-Tenant; drops clients' query, Authorization, subprotocols \(--pass header:X-Tenant,query,header:Authorization,subprotocol passes them as well\); connections dialed before clients arrive carry none of it: .*`,
			` +failover: off; the profile offers replay \(full\)`,
			` +failover: off`,
			` +gpu-1: ws://127\.0\.0\.1:2700/, at most 32 connections, 8 kept warm, weight 1, enabled`,
			` +gpu-2: ws://127\.0\.0\.1:2701/, at most 16 connections, all kept warm, weight 1, draining`,
			`RESOURCE +NEEDED +HERE +VERDICT`, `file descriptors +2296 +\d+ +enough`, `memory +about \d+ MiB +.*`,
			`local ports to 127\.0\.0\.1:2700 \(the most of 2 addresses\) +32 +.*`,
		} {
			if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(out) {
				t.Errorf("%s: no line like %q in:\n%s", database, want, out)
			}
		}
	}
}

func TestCheckAdmin(t *testing.T) {
	for want, args := range map[string][]string{
		"off": {"--admin-socket", "off"}, `127.0.0.1:9090 \(read-only without admin-token\)`: {"--admin-socket", "off", "--admin", "127.0.0.1:9090"}, "/run/a": {"--admin-socket", "/run/a"},
		"/s/admin.sock": nil,
	} {
		_, out, messages := run(append([]string{"check", "--database", ":memory:", "--state-directory", "/s"}, args...)...)
		if !regexp.MustCompile(`(?m)^admin +` + want + `$`).MatchString(out) {
			t.Errorf("%q: want %s in:\n%s%s", args, want, out, messages)
		}
	}
}

// TestCheckMakesNothing looks at databases that do not exist.
func TestCheckMakesNothing(t *testing.T) {
	directory := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int // with --strict
	}{
		{[]string{"--database", filepath.Join(directory, "a.db")}, 1},
		{[]string{"--database", filepath.Join(directory, "a.yaml")}, 1},
		{[]string{"--state-directory", filepath.Join(directory, "state")}, 0},
	} {
		warning := ""
		if c.status != 0 {
			warning = "Warning: database: " + c.args[1] + " does not exist: the proxy would start without services\n"
		}
		status, out, messages := run(append([]string{"check"}, c.args...)...)
		if status != 0 || messages != warning || !strings.Contains(out, "which does not exist yet: add services and backends") {
			t.Errorf("%q: status %d, %q, %q", c.args, status, out, messages)
		}
		if status, _, messages := run(append([]string{"check", "--strict"}, c.args...)...); status != c.status {
			t.Errorf("%q --strict: status %d, %q; want %d", c.args, status, messages, c.status)
		}
	}
	if entries, err := os.ReadDir(directory); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestCheckFindsErrors has them in the database: that is not a usage error.
func TestCheckFindsErrors(t *testing.T) {
	empty := write(t, "empty.db", "")
	for database, says := range map[string]string{
		write(t, "c.yaml", "services: {stt: {path: v1}}\nbackends: {a: {service: sst}}\n"): `c.yaml:1:24: service stt: path: invalid path "v1": begin it with /`,
		write(t, "d.db", "this is no database, but a text of some length"):                 "is not a SQLite database or is damaged",
		empty: "run wsbouncer migrate",
		"postgres://nobody:s3cret@127.0.0.1:1/none": "database postgres://nobody:xxxxx@127.0.0.1:1/none: ",
	} {
		status, out, messages := run("check", "--database", database)
		if status != 1 || out != "" || !strings.Contains(messages, says) || strings.Contains(messages, "s3cret") {
			t.Errorf("%s: status %d, %q, %q; want %q", database, status, out, messages, says)
		}
	}
	if _, _, messages := run("check", "--database", empty, "--tls-listen", ":1", "--tls-cert", "none.pem", "--tls-key", "none.pem"); !strings.Contains(messages, "run wsbouncer migrate") ||
		!strings.Contains(messages, "tls-cert: stat none.pem") {
		t.Errorf("not both errors: %q", messages)
	}
	if info, err := os.Stat(empty); err != nil || info.Size() != 0 {
		t.Errorf("the empty file was changed: %v, %v", info, err)
	}
}

// TestCheckWarns has a variable that is likely misspelt.
func TestCheckWarns(t *testing.T) {
	t.Setenv("WSBOUNCER_LISTN", ":1")
	status, _, messages := run("check", "--backend", oneBackend)
	if want := "Warning: unknown environment variable WSBOUNCER_LISTN: did you mean WSBOUNCER_LISTEN?\n"; status != 0 || messages != want {
		t.Errorf("status %d, %q; want %q", status, messages, want)
	}
}

// TestCheckTrust shows whose word is taken for where clients come from, and warns if it is everybody's.
func TestCheckTrust(t *testing.T) {
	status, out, messages := run("check", "--backend", oneBackend, "--trusted-proxies", "10.0.0.0/8", "--trusted-proxies", "::/0", "--proxy-protocol", "required")
	if want := "10.0.0.0/8, ::/0; forwarded header: x-forwarded-for; PROXY protocol: required\n"; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, %s; want %q", status, out, want)
	}
	if want := "Warning: --trusted-proxies: ::/0 is every address: each client is believed about its own address, whatever it says\n"; messages != want {
		t.Errorf("%q; want %q", messages, want)
	}
	if _, out, _ := run("check", "--backend", oneBackend); strings.Contains(out, "trusted") {
		t.Errorf("no client is trusted: %s", out)
	}
	if status, _, messages := run("check", "--backend", oneBackend, "--proxy-protocol", "required"); status != 2 ||
		!strings.HasPrefix(messages, `Error: --proxy-protocol: "required" needs trusted-proxies: name the networks of the load balancers that send PROXY headers`) {
		t.Errorf("status %d, %q", status, messages)
	}
}

// TestCheckNeeds compares a large configuration with this machine.
func TestCheckNeeds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the number of local ports is not known")
	}
	large := write(t, "c.yaml", `services: {stt: {queue: 5}}
backends:
  a: {service: stt, url: "ws://10.0.0.1:2700/", connections: 10}
  b: {service: stt, url: "ws://10.0.0.2:2700/", connections: 70000}
  c: {service: stt, url: "ws://[fd00::3]:2700/", connections: 10}
  d: {service: stt, url: "ws://stt.example:2700/", connections: 10, discover: dns}
`)
	status, out, messages := run("check", "--database", large, "--dial-from", "127.0.0.1", "--dial-from", "203.0.113.77")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{
		`(?m)^dial from +127\.0\.0\.1, 203\.0\.113\.77$`, `(?m)^local ports to 10\.0\.0\.2:2700 +70000 +\d+ +too little$`, `(?m)^local ports to \[fd00::3\]:2700 +10 +0 +too little$`,
		`(?m)^Descriptors and memory count one server for each name that is looked up: stt\.example:2700\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line like %q in:\n%s", want, out)
		}
	}
	for _, want := range []string{
		"Warning: on this machine [fd00::3]:2700 cannot be dialed: dial-from has no IPv6 address; add one (and 1 other server: see 'wsbouncer check')\n",
		"Warning: on this machine serve cannot start with dial-from: this machine does not have the address 203.0.113.77: it has ",
	} {
		if !strings.Contains(messages, want) {
			t.Errorf("%q is not in:\n%s", want, messages)
		}
	}
	status, out, _ = run("check", "--database", large, "-o", "json")
	var got needs
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || got.Database != large || got.Version == "" {
		t.Fatalf("status %d, %v:\n%s", status, err, out)
	}
	servers := make(map[string]need)
	for _, n := range got.Needs {
		servers[cmp.Or(n.Server, n.Resource)] = n
	}
	if n := servers["10.0.0.2:2700"]; n.Enough || n.Advice == "" || n.Needed != 70000 || *n.Have < 1 || n.EachServer {
		t.Errorf("%+v", n)
	}
	if n := servers["stt.example:2700"]; !n.Enough || !n.EachServer || n.Needed != 10 {
		t.Errorf("%+v", n)
	}
	if n := servers["file descriptors"]; n.Needed != 2*70030+5+200 {
		t.Errorf("%+v", n)
	}
}
