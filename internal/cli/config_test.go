package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
)

// then stands for times in output, which no test can know.
const then = "YYYY-MM-DDThh:mm:ssZ"

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

func TestHistory(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		same(t, "the history", times.ReplaceAllString(s.must("config history"), then), `
VERSION  WHEN                  WHO    WHAT
4        YYYY-MM-DDThh:mm:ssZ  bob    backend gpu-1: connections 32 -> 48
3        YYYY-MM-DDThh:mm:ssZ  alice  backend gpu-2: added (service stt, url ws://10.0.0.6:2700/?token=env:KEY1, connections 32, warm 8, labels.zone b, headers.X-Tenant (hidden))
2        YYYY-MM-DDThh:mm:ssZ  alice  backend gpu-1: added (service stt, url ws://10.0.0.5:2700, connections 32, labels.zone a)
1        YYYY-MM-DDThh:mm:ssZ  alice  "first"
                                      service stt: added (path /v1/stt, profile vosk)`)
		var revisions []config.Revision
		if err := json.Unmarshal([]byte(s.must("config history --limit 2 -o json")), &revisions); err != nil || len(revisions) != 2 ||
			revisions[0].Who != "bob" || revisions[0].Edits[0].To != "48" {
			t.Errorf("for programs: %v, %v", revisions, err)
		}
		s.refuse(refusal{[]string{"config", "history", "--limit", "0"}, 2, "--limit: invalid number \"0\": use a whole number from 1"})
	})
}

// Without --who the history has the user and the machine.
func TestWho(t *testing.T) {
	s := onDatabase(t)
	s.must("service add stt")
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	if out := s.must("config history"); !strings.Contains(out, "@"+host+" ") {
		t.Errorf("no user of %s:\n%s", host, out)
	}
	t.Setenv("SUDO_USER", "carol")
	s.must("service set stt --queue 7")
	if out := s.must("config history"); !strings.Contains(out, "carol@"+host+" ") {
		t.Errorf("behind sudo:\n%s", out)
	}
}

func TestRollback(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		same(t, "dry", s.must("config rollback 2 --dry-run"), `
backend gpu-1: connections 48 -> 32
backend gpu-2: removed (service stt, url ws://10.0.0.6:2700/?token=env:KEY1, connections 32, warm 8, labels.zone b, headers.X-Tenant (hidden))
Dry run: nothing was changed. The configuration has version 4.`)
		s.must("config rollback 2 --yes")
		if out := s.must("config history --limit 1"); !strings.Contains(out, `5 `) || !strings.Contains(out, `"roll back to version 2"`) {
			t.Errorf("the history:\n%s", out)
		}
		s.must("config rollback 4")
		if out := s.must("config export"); !strings.Contains(out, "X-Tenant: s3cret") || !strings.Contains(out, "connections: 48") {
			t.Errorf("what is back:\n%s", out)
		}
		s.refuse(
			refusal{[]string{"config", "rollback", "99"}, 1, `the history has no such version: "99": use 0 to 6: 'wsbouncer config history' lists the versions`},
			refusal{[]string{"config", "rollback"}, 2, "takes one version, but got 0"},
			refusal{[]string{"config", "rollback", "3", "--expect", "4"}, 1, "it has version 6, not 4"},
		)
	})
}

// From one store to the others and back, whole.
func TestExportImport(t *testing.T) {
	s := onDatabase(t).begin()
	directory := t.TempDir()
	exported := filepath.Join(directory, "exported.yaml")
	if status, out, messages := s.run("config", "export", "--file", exported); status != 0 || out != "" || !strings.Contains(messages, "Written to") {
		t.Fatalf("status %d, %s, %s", status, out, messages)
	}
	text, err := os.ReadFile(exported)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "printed and written", s.must("config export"), string(text))
	for _, database := range []string{filepath.Join(directory, "other.yaml"), "sqlite:" + filepath.Join(directory, "other")} {
		status, out, messages := command("config", "import", exported, "--database", database, "--why", "moved")
		if status != 0 || strings.Count(out, ": added (") != 3 {
			t.Fatalf("%s: status %d, %s%s", database, status, out, messages)
		}
		_, again, _ := command("config", "export", "--database", database)
		same(t, database, again, string(text))
	}
	if older := s.must("config export --version 1"); strings.Contains(older, "gpu-1") || !strings.Contains(older, "stt:") {
		t.Errorf("version 1:\n%s", older)
	}
}

// apply leaves alone what is not in the file, import and --prune do not, and diff says so before.
func TestApply(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		part := s.write("backends:\n  gpu-2: {service: stt, url: ws://10.0.0.7:2700}\n  gpu-3: {service: stt, url: ws://10.0.0.8:2700}\n")
		const changes = `
backend gpu-2: url ws://10.0.0.6:2700/?token=env:KEY1 -> ws://10.0.0.7:2700
backend gpu-2: connections 32 -> 100
backend gpu-2: warm 8 -> cap
backend gpu-2: labels.zone b -> (none)
backend gpu-2: headers.X-Tenant (hidden) -> (none)
backend gpu-3: added (service stt, url ws://10.0.0.8:2700)
`
		status, out, messages := s.run("config", "diff", part)
		if status != 1 || messages != "" {
			t.Errorf("diff: status %d, %s", status, messages)
		}
		same(t, "diff", out, changes)
		same(t, "dry", s.must("config apply --dry-run "+part), changes+"Dry run: nothing was changed. The configuration has version 4.")
		same(t, "apply", s.must("config apply "+part), changes+"Version 4 -> 5")
		if out := s.must("config diff " + part); out != "" {
			t.Errorf("a difference is left:\n%s", out)
		}
		same(t, "once more", s.must("config apply "+part), "Nothing to change. The configuration has version 5.")

		whole := s.write("services:\n  stt: {path: /v1/stt, profile: vosk}\nbackends:\n  gpu-3: {service: stt, url: ws://10.0.0.8:2700}\n")
		for _, command := range []string{"config import --dry-run ", "config apply --prune --dry-run "} {
			if out := s.must(command + whole); strings.Count(out, ": removed (") != 2 {
				t.Errorf("%s:\n%s", command, out)
			}
		}
		if status, out, _ := s.run("config", "diff", "--prune", "-o", "json", whole); status != 1 || strings.Count(out, `"removed"`) != 2 {
			t.Errorf("diff --prune: status %d, %s", status, out)
		}
		s.must("config import --yes " + whole)
		if out := s.must("backend ls"); strings.Contains(out, "gpu-1") || !strings.Contains(out, "gpu-3") {
			t.Errorf("after import:\n%s", out)
		}
		same(t, "nothing for programs", s.must("config diff -o json --prune "+whole), "[]")
	})
}

func TestFileErrors(t *testing.T) {
	s := onDatabase(t).begin()
	bad := s.write("services:\n  stt: {pth: /v1/stt}\nbackends:\n  gpu-1: {service: sst, url: ws://10.0.0.5:2700, connections: 0}\n")
	loose := s.write("backends:\n  gpu-9: {service: sst, url: ws://10.0.0.9:2700}\n")
	empty := s.write("# nothing\n")
	s.refuse(
		refusal{[]string{"config", "import", bad}, 2, "the file is not valid:\n  " + bad + `:2:9: service stt: unknown key "pth": did you mean "path"?`},
		refusal{[]string{"config", "import", bad}, 2, bad + `:4:20: backend gpu-1: service: unknown service "sst": did you mean "stt"?`},
		refusal{[]string{"config", "import", bad}, 2, bad + `:4:63: backend gpu-1: connections: invalid number "0": use a whole number from 1 to 100000`},
		refusal{[]string{"config", "apply", bad}, 2, bad + `:4:63: backend gpu-1: connections: invalid number "0": use a whole number from 1 to 100000`},
		refusal{[]string{"config", "apply", loose}, 2, `backend gpu-9: service: unknown service "sst": did you mean "stt"?`},
		refusal{[]string{"config", "diff", loose}, 2, `backend gpu-9: service: unknown service "sst": did you mean "stt"?`},
		refusal{[]string{"config", "diff", "none.yaml"}, 2, "none.yaml: no such file"},
		refusal{[]string{"config", "import", "none.yaml"}, 2, "none.yaml: no such file"},
		refusal{[]string{"config", "import"}, 2, "takes one YAML file, or - for standard input, but got 0"},
		refusal{[]string{"config", "import", empty}, 2, "everything would be removed: use --allow-empty if this is intended"},
		refusal{[]string{"config", "import", s.write(strings.Repeat("#", file.MaxFile+1))}, 1, "the file has more than 4194304 bytes"},
	)
	same(t, "an empty part", s.must("config apply "+empty), "Nothing to change. The configuration has version 4.")
	s.must("config import --yes --allow-empty " + empty)
	same(t, "show", times.ReplaceAllString(s.must("config show --database "+s.database), then),
		"Version 5 of "+s.database+", changed by "+whoami()+" at "+then+"\nThe configuration is empty: add a service with 'wsbouncer service add NAME'.")
}

func TestConfigShow(t *testing.T) {
	s := onDatabase(t).begin()
	s.must("profile add mine --file " + s.write("from: vosk"))
	same(t, "for people", times.ReplaceAllString(s.must("config show"), then), `
Version 5 of `+s.database+`, changed by `+whoami()+` at `+then+`

Services
NAME  PATH     HOST   PROFILE  BALANCE       QUEUE  BACKENDS  CAP
stt   /v1/stt  (any)  vosk     least-loaded  1000   2         80

Backends
NAME   SERVICE  URL                                 CAP  WARM  WEIGHT  STATE    LABELS
gpu-1  stt      ws://10.0.0.5:2700                  48   cap   1       enabled  zone=a
gpu-2  stt      ws://10.0.0.6:2700/?token=env:KEY1  32   8     1       enabled  zone=b

Profiles: mine`)
	var shown struct {
		Version                      string
		Services, Backends, Profiles []map[string]any
	}
	out := s.must("config show -o json")
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.Version != "5" || len(shown.Services) != 1 || len(shown.Backends) != 2 ||
		shown.Profiles[0]["yaml"] != "from: vosk\n" || strings.Contains(out, "s3cret") {
		t.Errorf("for programs: %v, %s", err, out)
	}
}

func TestMigrate(t *testing.T) {
	directory := alone(t)
	database := filepath.Join(directory, "new.db")
	for _, c := range []struct {
		args   []string
		status int
		out    string
		says   string
	}{
		{nil, 2, "", "--database: the value is missing (or set WSBOUNCER_DATABASE), since this machine has no database at " + filepath.Join(directory, "wsbouncer.db")},
		{[]string{"--database", database}, 0, database + ": created the schema, version N\n", ""},
		{[]string{"--database", database}, 0, database + ": the schema already has version N\n", ""},
		{[]string{"--database", "x.yaml"}, 0, "Nothing to do: x.yaml is a YAML file: it has no schema\n", ""},
		{[]string{"--database", "postgres://a:s3cret@127.0.0.1:1/b"}, 1, "", "--database: database: "},
		{[]string{"--database", database, "--proxy-role", "p"}, 2, "", "--proxy-role works only with a PostgreSQL database, and " + database + " is none"},
		{[]string{"x"}, 2, "", "takes no arguments"},
	} {
		status, out, messages := command(append([]string{"migrate"}, c.args...)...)
		out = regexp.MustCompile(`version \d+`).ReplaceAllString(out, "version N")
		if status != c.status || out != c.out || !strings.Contains(messages, c.says) || strings.Contains(messages, "s3cret") {
			t.Errorf("%v: status %d, %s, %s; want %d, %s, %s", c.args, status, out, messages, c.status, c.out, c.says)
		}
	}
	if status, _, messages := command("migrate", "--database", filepath.Join(directory, "wsbouncer.db")); status != 0 {
		t.Fatal(messages)
	}
	if status, out, messages := command("migrate"); status != 0 || !strings.Contains(out, "the schema already has version ") {
		t.Errorf("the machine's own: %s%s", out, messages)
	}
}
