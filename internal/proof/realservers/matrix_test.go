package realservers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/verify"
)

const root = "../../.."

// The descriptions can be read, and the page has what was found last.
func TestPage(t *testing.T) {
	servers, err := Load(filepath.Join(root, "conformance", "servers"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := ReadResults(filepath.Join(root, "conformance", "servers", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !slices.ContainsFunc(servers, func(s *Server) bool { return s.name == r.Name && s.Profile == r.Profile }) {
			t.Errorf("results.json: no folder describes %s with the profile %s", r.Name, r.Profile)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "tested-servers.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != Page(results) {
		t.Error("docs/reference/tested-servers.md is not what results.json says: run make test-servers SERVERS_FLAGS=\"-only NAME -write\"")
	}
}

// What the handbook says was tested with a real server was: each row's last column links to the page of results if and only if one passed.
func TestTestedWith(t *testing.T) {
	results, err := ReadResults(filepath.Join(root, "conformance", "servers", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "choose-a-profile.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| .*`([a-z-]+)` \\|.*\\| ([^|]*) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 10 {
		t.Fatalf("only %d rows have a profile", len(rows))
	}
	tested := map[string]bool{}
	for _, row := range rows {
		if strings.Contains(row[2], "tested-servers.md") {
			tested[row[1]] = true
		}
	}
	for _, r := range results {
		passed := r.Skipped == "" && len(r.Faults) == 0
		if passed && !tested[r.Profile] {
			t.Errorf("choose-a-profile.md does not say that %s was tested with %s", r.Profile, r.Server)
		}
	}
	for name := range tested {
		if !slices.ContainsFunc(results, func(r *Result) bool { return r.Profile == name && r.Skipped == "" && len(r.Faults) == 0 }) {
			t.Errorf("choose-a-profile.md says that %s was tested, which results.json does not", name)
		}
	}
}

// A run replaces the results of its servers, but not by that of one that was skipped; what has changed is reported without dates and numbers.
func TestMerge(t *testing.T) {
	before := []*Result{{Name: "b", Version: "1", Client: "same"}, {Name: "a", Version: "1"}}
	after := Merge(before, []*Result{{Name: "a", Skipped: "no checkout"}, {Name: "b", Version: "2", Client: "same", Date: "2026-01-01"}, {Name: "c"}})
	if len(after) != 3 || after[0] != before[1] || after[1].Version != "2" || after[2].Name != "c" {
		t.Errorf("%+v", after)
	}
	if text := Changed(before[0], after[1]); !strings.Contains(text, "\n+ 2") {
		t.Errorf("%q", text)
	}
	if text := Changed(before[0], &Result{Name: "b", Version: "1", Client: "same", Date: "2026-01-02", Reuse: &Reuse{Dialed: 3}}); text != "" {
		t.Errorf("%q", text)
	}
}

// A bad description gets an error that names each field.
func TestBadDescription(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(file, []byte("server: X\nprofile: voks\npath: ws\npace: 0.1\nsource: {repository: x, commit: main}\nexpect: {reset: holds}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := read(file)
	for _, want := range []string{"version: the value is missing", "start: the value is missing", `path: "ws"`, "pace: 0.1", `source.commit: "main"`, `profile: unknown profile "voks"`, `expect.reset: "holds"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// Verdicts are compared with the expected ones, in both directions.
func TestUnexpected(t *testing.T) {
	s := &Server{Expect: map[string]string{"reset": expectedFailure}}
	for _, c := range []struct {
		claim   string
		verdict verify.Verdict
		says    string
	}{{"reset", verify.Fails, ""}, {"reset", verify.Holds, "was not expected"}, {"end", verify.Fails, "does not hold"}, {"end", verify.Holds, ""}, {"reset", verify.NotTried, ""}} {
		got := s.unexpected(&verify.Report{Claims: []verify.Claim{{Name: c.claim, Verdict: c.verdict}}})
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
