package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// What writing commands print, and what they leave.
func TestWriting(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		for _, step := range []struct{ command, prints string }{
			{"service add stt --path /v1/stt --profile vosk", "service stt: added (path /v1/stt, profile vosk)\nVersion 0 -> 1"},
			{"service add stt2 --path /v1/stt2 --queue 7 --dry-run", "service stt2: added (path /v1/stt2, queue 7)\nDry run: nothing was changed. The configuration has version 1."},
			{
				"backend add gpu-1 ws://10.0.0.5:2700 --connections 32 --label zone=a --label rack=3",
				"backend gpu-1: added (service stt, url ws://10.0.0.5:2700, connections 32, labels.rack 3, labels.zone a)\nVersion 1 -> 2",
			},
			{
				"backend add gpu-2 --url wss://10.0.0.6 --connections 100 --service stt --tls-insecure-skip-verify --header X-Tenant=s3cret",
				"backend gpu-2: added (service stt, url wss://10.0.0.6, tls-insecure-skip-verify true, headers.X-Tenant (hidden))\nVersion 2 -> 3",
			},
			{
				"backend set gpu-1 --connections 48 --label zone=b --label rack= --state draining",
				"backend gpu-1: connections 32 -> 48\nbackend gpu-1: state enabled -> draining\nbackend gpu-1: labels.rack 3 -> (none)\nbackend gpu-1: labels.zone a -> b\nVersion 3 -> 4",
			},
			{"backend set gpu-1 --connections 48", "Nothing to change. The configuration has version 4."},
			{"backend set gpu-1 --connections= --dry-run", "backend gpu-1: connections 48 -> 100\nDry run: nothing was changed. The configuration has version 4."},
			{"service set stt --allow-origin https://a.example --allow-origin https://b.example", "service stt: allow-origin (none) -> https://a.example,https://b.example\nVersion 4 -> 5"},
			{"service set stt --allow-origin=", "service stt: allow-origin https://a.example,https://b.example -> (none)\nVersion 5 -> 6"},
			{"service set stt --pass path,query --pass header:Authorization,subprotocol --dry-run", "service stt: pass (none) -> path,query,header:Authorization,subprotocol\nDry run: nothing was changed. The configuration has version 6."},
			{"backend rm gpu-1 gpu-1", "backend gpu-1: removed (service stt, url ws://10.0.0.5:2700, connections 48, state draining, labels.zone b)\nVersion 6 -> 7"},
			{
				"service rm stt --with-backends --yes",
				"service stt: removed (path /v1/stt, profile vosk)\nbackend gpu-2: removed (service stt, url wss://10.0.0.6, tls-insecure-skip-verify true, headers.X-Tenant (hidden))\nVersion 7 -> 8",
			},
		} {
			same(t, step.command, s.must(step.command), step.prints)
		}
	})
}

// The same for programs.
func TestWritingForPrograms(t *testing.T) {
	s := onDatabase(t).begin()
	same(t, "a change", s.must("backend set gpu-1 --weight 0.5 -o json"), `{
  "version": "5",
  "was": "4",
  "edits": [
    {
      "action": "changed",
      "kind": "backend",
      "name": "gpu-1",
      "field": "weight",
      "from": "1",
      "to": "0.5"
    }
  ],
  "dry_run": false
}`)
	same(t, "no change", s.must("backend set gpu-1 --weight 0.5 -o json --dry-run"), `{
  "version": "5",
  "was": "5",
  "edits": [],
  "dry_run": true
}`)
}

func TestChangeErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		s.refuse(
			refusal{[]string{"service", "add", "stt"}, 1, "the service stt already exists: use 'wsbouncer service set stt' to change it"},
			refusal{[]string{"service", "add"}, 2, "takes the name of one service, but got 0"},
			refusal{[]string{"service", "add", "s t"}, 2, `invalid name "s t"`},
			refusal{[]string{"service", "add", "x", "--profile", "vosc", "--path", "/v1/stt"}, 2, "the change is invalid and was not made:\n" +
				`  service x: path: the service stt has the path "/v1/stt", too: choose another path or host` + "\n" +
				`  service x: profile: unknown profile "vosc": did you mean "vosk"?`},
			refusal{[]string{"service", "set", "sst", "--queue", "1"}, 1, `unknown service "sst": did you mean "stt"?`},
			refusal{[]string{"service", "set", "stt", "--queue", "x"}, 2, `--queue: invalid number "x": use a whole number from 0 to 1000000`},
			refusal{[]string{"service", "set", "stt", "--balance", "leastloaded"}, 2, `--balance: unknown balance "leastloaded": did you mean "least-loaded"?`},
			refusal{[]string{"service", "set", "stt", "--hash-by", "client"}, 2, "--hash-by: the field hash-by no longer exists: use balance, such as balance: hash:header:NAME"},
			refusal{[]string{"tenant", "add", "x", "--message-rate", "1/s"}, 2, "--message-rate: the field message-rate no longer exists: use byte-rate, or message-rate of keys"},
			refusal{[]string{"service", "set", "stt", "--pass", "qury,path"}, 2, `--pass: unknown value "qury": did you mean "query"?`},
			refusal{[]string{"service", "set", "stt", "--pass", "header:Upgrade"}, 2, `--pass: "header:Upgrade": this header belongs to the handshake itself`},
			refusal{[]string{"service", "set", "stt", "--pass", "query", "--queue", "0"}, 2, "service stt: pass: query needs a queue and a queue-timeout, so that clients can wait while their own connection is dialed"},
			refusal{[]string{"service", "set", "stt"}, 2, "nothing to change"},
			refusal{[]string{"service", "show", "st"}, 1, `unknown service "st": did you mean "stt"?`},
			refusal{[]string{"service", "rm", "stt"}, 1, "the service stt is used by backend gpu-1, backend gpu-2; remove them first, or use --with-backends to remove them as well"},
			refusal{[]string{"backend", "add", "gpu-3", "--connections", "8"}, 2, "backend gpu-3: url: the value is missing"},
			refusal{[]string{"backend", "add", "gpu-3", "ws://a:s3cret@b", "--connections", "8"}, 2, "a WebSocket URL cannot have a user name"},
			refusal{[]string{"backend", "add", "gpu-3", "not-a-url", "--connections", "8"}, 2, `argument URL: invalid URL "not-a-url"`},
			refusal{[]string{"backend", "add", "gpu-3", "--url", "not-a-url", "--connections", "8"}, 2, `--url: invalid URL "not-a-url"`},
			refusal{[]string{"backend", "add", "gpu-3", "ws://a", "--url", "ws://b"}, 2, "the URL is given twice"},
			refusal{[]string{"backend", "add", "gpu-3", "ws://10.0.0.5:2700"}, 2, "--connections: the value is missing: use the most connections"},
			refusal{[]string{"backend", "add", "gpu-3", "ws://10.0.0.5:2700", "--connections", "8"}, 2, `the backend gpu-1 has the same server "ws://10.0.0.5:2700"`},
			refusal{[]string{"backend", "set", "gpu-2", "--warm", "33", "--service", "st"}, 2, "  backend gpu-2: service: unknown service \"st\": did you mean \"stt\"?\n" +
				"  backend gpu-2: warm: invalid number \"33\": use a whole number from 0 to the cap of 32 connections\n"},
			refusal{[]string{"backend", "set", "gpu-2", "--header", "Authorization=Bearer s3cret"}, 2, "--header: Authorization looks like a secret"},
			refusal{[]string{"backend", "set", "gpu-2", "--header", "s3cret"}, 2, "--header: invalid value: use NAME=VALUE"},
			refusal{[]string{"backend", "set", "gpu-2", "--label", "=x"}, 2, "--label: invalid value: use NAME=VALUE"},
			refusal{[]string{"backend", "set", "gpu-2", "--weight", "1", "--who", strings.Repeat("x", 1001)}, 2, "at most 1000 bytes"},
			refusal{[]string{"backend", "set", "gpu-2", "--weight", "1", "-o", "wide"}, 2, `--output: invalid value "wide": use one of text, json, yaml`},
			refusal{[]string{"backend", "rm"}, 2, "takes the names of backends, but got none"},
			refusal{[]string{"backend", "rm", "gpu-9"}, 1, `unknown backend "gpu-9": did you mean "gpu-1"?`},
			refusal{[]string{"backend", "ls", "--selector", "=a"}, 2, `--selector: invalid label "=a"`},
			refusal{[]string{"backend", "ls", "--service", "st"}, 1, `unknown service "st"`},
		)
		if out := s.must("config history"); strings.Count(out, "alice")+strings.Count(out, "bob") != 4 || !strings.Contains(out, "\n4 ") || strings.Contains(out, "\n5 ") {
			t.Errorf("something was changed:\n%s", out)
		}
	})
}

// Without a service, and with several, a backend must name one.
func TestOwnService(t *testing.T) {
	s := onDatabase(t)
	s.must("service add stt", "service rm stt --yes")
	s.refuse(refusal{[]string{"backend", "add", "gpu-1", "ws://a", "--connections", "8"}, 1, "no service exists for the backend: add one with 'wsbouncer service add NAME'"})
	s.must("service add stt --path /v1/stt", "service add mt --path /v1/mt")
	s.refuse(refusal{[]string{"backend", "add", "gpu-1", "ws://a", "--connections", "8"}, 2, "--service: the value is missing: use one of mt, stt"})
}

// Who was quicker, and what to do.
func TestConflict(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		s.refuse(
			refusal{[]string{"backend", "set", "gpu-1", "--weight", "2", "--expect", "3"}, 1, "Error: the configuration was changed meanwhile: it has version 4, not 3\n"},
			refusal{[]string{"backend", "drain", "gpu-1", "--expect", "3"}, 1, "  bob: backend gpu-1: connections 32 -> 48\nNothing was written. If you still want your change, repeat it with --expect 4."},
			refusal{[]string{"backend", "set", "gpu-1", "--weight", "2", "--expect", "3", "--dry-run"}, 1, "it has version 4, not 3"},
		)
		same(t, "as it says", s.must("backend set gpu-1 --weight 2 --expect 4"), "backend gpu-1: weight 1 -> 2\nVersion 4 -> 5")
	})
}

// Tables for people.
func TestTables(t *testing.T) {
	s := onDatabase(t).begin()
	s.must("service add mt --path /v1/mt --host mt.example.org --balance hash")
	same(t, "services", s.must("service ls"), `
NAME  PATH     HOST            PROFILE   BALANCE       QUEUE  BACKENDS  CAP
mt    /v1/mt   mt.example.org  one-shot  hash:client   1000   0         0
stt   /v1/stt  (any)           vosk      least-loaded  1000   2         80`)
	same(t, "backends", s.must("backend ls"), `
NAME   SERVICE  URL                                 CAP  WARM  WEIGHT  STATE    LABELS
gpu-1  stt      ws://10.0.0.5:2700                  48   cap   1       enabled  zone=a
gpu-2  stt      ws://10.0.0.6:2700/?token=env:KEY1  32   8     1       enabled  zone=b`)
	for _, arguments := range []string{"--selector zone=a", "-l zone -l zone=a", "--service stt -l zone=a"} {
		if out := s.must("backend ls " + arguments); !strings.Contains(out, "gpu-1") || strings.Contains(out, "gpu-2") {
			t.Errorf("%s:\n%s", arguments, out)
		}
	}
	same(t, "none of them", s.must("backend ls --service mt"), "NAME  SERVICE  URL  CAP  WARM  WEIGHT  STATE")
	same(t, "a backend", s.must("backend show gpu-2"), `
FIELD                     VALUE
service                   stt
url                       ws://10.0.0.6:2700/?token=env:KEY1
connections               32
connections-max           (100)
warm                      8
weight                    (1)
state                     (enabled)
discover                  -
discover-interval         (5s)
calibrated                -
labels                    zone=b
tls-ca                    -
tls-server-name           -
tls-insecure-skip-verify  (false)
tls-certificate           -
tls-key                   -
headers                   X-Tenant=(hidden)`)
	var shown map[string]any
	if err := json.Unmarshal([]byte(s.must("backend show gpu-2 -o json")), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown) != 1+len(config.Fields(config.KindBackend)) || shown["connections"] != 32.0 || shown["warm"] != 8.0 ||
		shown["labels"].(map[string]any)["zone"] != "b" || shown["name"] != "gpu-2" {
		t.Errorf("for programs: %v", shown)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(s.must("service ls -o json")), &all); err != nil || len(all) != 2 || all[1]["queue-timeout"] != "10s" {
		t.Errorf("services for programs: %v, %v", all, err)
	}
}

// Every field that people set has its flag, in add and in set, whose help says what is allowed. Help shows ten, and --help-all all.
func TestFieldFlags(t *testing.T) {
	for _, kind := range []config.Kind{config.KindService, config.KindBackend} {
		for _, verb := range []string{"add", "set"} {
			status, help, messages := command(string(kind), verb, "--help")
			if n := strings.Count(help, "\n      --"); status != 0 || n != 10 || !strings.Contains(help, "more flags: wsbouncer "+string(kind)+" "+verb+" --help-all\n") {
				t.Errorf("status %d, %d flags:\n%s%s", status, n, help, messages)
			}
			status, help, messages = command(string(kind), verb, "--help-all")
			if status != 0 {
				t.Fatal(messages)
			}
			_, flags, _ := strings.Cut(help, "\nFlags:")
			for line := range strings.Lines(flags) {
				if len(line) > 80+1 {
					t.Errorf("%s %s: a line of %d columns: %s", kind, verb, len(line)-1, line)
				}
			}
			help = strings.Join(strings.Fields(help), " ")
			for _, f := range config.Fields(kind) {
				if has := strings.Contains(help, "--"+flagOf(f)+" ") && strings.Contains(help, f.Help); has == f.Recorded {
					t.Errorf("%s %s: a flag for %s: %t:\n%s", kind, verb, f.Name, has, help)
				}
			}
		}
	}
}

// Headers are given as NAME=VALUE, and as HTTP writes them with a warning. The word for the form for people is table or text, whatever is printed.
func TestOneVocabulary(t *testing.T) {
	s := onDatabase(t).begin()
	status, out, messages := s.run("backend", "set", "gpu-1", "--header", "X-Tenant: a=b:c", "--output", "lines")
	if status != 0 || !strings.Contains(out, `headers.X-Tenant (none) -> (hidden)`) || messages != "Warning: --header: the form \"Name: value\" is deprecated: use NAME=VALUE\n" {
		t.Errorf("status %d, %q, %q", status, out, messages)
	}
	status, out, messages = s.run("backend", "set", "gpu-1", "--header", "X-Tenant=a:b", "--output", "yaml")
	if status != 0 || !strings.HasPrefix(out, "version: ") || messages != "" {
		t.Errorf("status %d, %q, %q", status, out, messages)
	}
	if s.must("service ls -o text") != s.must("service ls -o table") {
		t.Error("a list is not the same as text and as a table")
	}
}

// An own profile: from a file of its own, and from one with several.
func TestProfiles(t *testing.T) {
	everywhere(t, func(t *testing.T, s *stage) {
		one := s.write("# ours\nfrom: vosk\nlimits: {sessions: 7}\n")
		many := s.write("profiles:\n  other: {from: echo}\n  mine:\n    from: vosk # ours, too\n")
		s.must("service add mt")
		same(t, "added", s.must("profile add mine --file "+one), "profile mine: added (yaml (3 lines))\nVersion 1 -> 2")
		same(t, "as written", s.must("profile show mine"), "profiles:\n  mine:\n    # ours\n    from: vosk\n    limits: {sessions: 7}\n")
		if out := s.must("profile show mine --effective"); !strings.Contains(out, "sessions: 7") || !strings.Contains(out, "reset:") || strings.Contains(out, "ours") {
			t.Errorf("with all that it inherits:\n%s", out)
		}
		if out := s.must("profile ls"); !strings.Contains(out, "mine ") || !strings.Contains(out, "vosk ") {
			t.Errorf("the list:\n%s", out)
		}
		same(t, "replaced", s.must("profile set mine --file "+many), "profile mine: yaml (3 lines) -> (1 line)\nVersion 2 -> 3")
		same(t, "as written", s.must("profile show mine"), "profiles:\n  mine:\n    from: vosk # ours, too\n")
		s.must("service add stt --path /stt --profile mine")
		bad := s.write("from: vosk\nrest: {}\n")
		s.refuse(
			refusal{[]string{"profile", "add", "mine", "--file", one}, 1, "the profile mine already exists: use 'wsbouncer profile set mine' to change it"},
			refusal{[]string{"profile", "add", "vosk", "--file", one}, 2, `"vosk" is a built-in profile`},
			refusal{[]string{"profile", "add", "x"}, 2, "--file: the value is missing"},
			refusal{[]string{"profile", "add", "x", "--file", many}, 2, `unknown profile "x": use one of mine, other`},
			refusal{[]string{"profile", "add", "x", "--file", s.write("\n")}, 2, "is empty: use YAML such as from: vosk"},
			refusal{[]string{"profile", "add", "x", "--file", "none.yaml"}, 2, "none.yaml: no such file"},
			refusal{[]string{"profile", "set", "mine", "--file", bad}, 2, `profile mine: yaml: line 2, column 1: unknown key "rest": did you mean "reset"?`},
			refusal{[]string{"profile", "set", "min", "--file", one}, 1, `unknown profile "min": did you mean "mine"?`},
			refusal{[]string{"profile", "rm", "mine"}, 1, "the profile mine is used by service stt; set another one for them first"},
			refusal{[]string{"profile", "ls", "--profile-file", s.write("profiles: {mine: {from: echo}}")}, 1, `the profile "mine" is defined twice: in the configuration and in a profile file`},
		)
		s.must("service rm stt", "profile rm mine")
	})
}

// The lists of profiles work without any configuration, and say when one that was found cannot be read.
func TestProfilesWithoutConfiguration(t *testing.T) {
	directory := alone(t)
	if status, out, messages := command("profile", "ls"); status != 0 || messages != "" || !strings.Contains(out, "vosk") {
		t.Errorf("status %d, %s, %s", status, out, messages)
	}
	t.Setenv(adminVariable, "unix:"+directory+"/none.sock")
	status, out, messages := command("profile", "ls")
	if status != 0 || !strings.Contains(out, "vosk") || !strings.Contains(messages, "Profiles of the configuration are not shown: no proxy answers at unix:") {
		t.Errorf("status %d, %s, %s", status, out, messages)
	}
	if status, out, _ := command("profile", "ls", "--admin", "unix:"+directory+"/none.sock"); status != 1 || out != "" {
		t.Errorf("a proxy that was asked for is not there: status %d, %s", status, out)
	}
	if _, err := os.Stat(directory + "/none.sock"); err == nil {
		t.Error("it is there by now")
	}
}
