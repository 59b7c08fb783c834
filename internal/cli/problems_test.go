package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// answerProblems serves one problem that lasts, and two that have ended.
func (s *stage) answerProblems(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	problem := func(kind, what, cure string, since time.Time) api.Problem {
		return api.Problem{Kind: kind, Level: api.LevelFailure, Hurts: api.HurtsSoon, What: what, Text: "connection refused", Since: since, Cure: cure}
	}
	list := api.ProblemList{
		Problems: []api.Problem{problem("backend-unreachable", "backend gpu-2", "wsbouncer backend recycle gpu-2", now.Add(-time.Minute))},
		Past: []api.PastProblem{
			{Problem: problem("service-down", "service stt", "", now.Add(-2*time.Hour)), Ended: now.Add(-time.Hour)},
			{Problem: problem("backend-slow", "backend gpu-1", "", now.Add(-50*time.Hour)), Ended: now.Add(-49 * time.Hour)},
		},
		Unsaved: "the disk is full",
	}
	list.Past[1].Proxies = []string{"a", "b", "c", "d"}
	if err := json.NewEncoder(w).Encode(list); err != nil {
		s.t.Error(err)
	}
}

func TestProblems(t *testing.T) {
	s := onProxy(t, open)
	out := s.must("problems")
	for _, want := range []string{"SINCE                 LASTED        LEVEL    HURTS         KIND                 WHAT           EVIDENCE\n", "1m00s, still  failure  clients-soon  backend-unreachable  backend gpu-2  connection refused\n", "  1h00m         failure  clients-soon  service-down         service stt    connection refused\n", "backend gpu-1  connection refused (seen by a, b, c, 1 more)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if out := s.must("problems --since 3h -o wide"); strings.Contains(out, "backend-slow") || !strings.Contains(out, "service-down") || !strings.Contains(out, "wsbouncer backend recycle gpu-2 --admin unix:"+s.socket) {
		t.Errorf("since:\n%s", out)
	}
	if out := s.must("problems --limit 1"); strings.Contains(out, "backend-slow") || !strings.HasSuffix(out, "and 1 more (--limit 0)\n") {
		t.Errorf("limited:\n%s", out)
	}
	var list api.ProblemList
	if err := json.Unmarshal([]byte(s.must("problems -o json --since 3h")), &list); err != nil || len(list.Problems) != 1 || len(list.Past) != 1 {
		t.Errorf("for programs: %v, %+v", err, list)
	}
	s.refuse(
		refusal{[]string{"problems", "--since", "yesterday"}, 2, `--since: invalid time "yesterday": use a time such as 03:00`},
		refusal{[]string{"usage", "--from", "2026-11-31"}, 2, `a day or month such as 2026-11-27 or 2026-11`},
		refusal{[]string{"usage", "--by", "tenant,tenant"}, 2, "--by: tenant is named twice"},
		refusal{[]string{"usage", "--from", "2026-12", "--to", "2026-11"}, 2, "--from: 2026-12 is not before --to 2026-11"},
		refusal{[]string{"problems", "--limit", "-1"}, 2, `--limit: invalid number "-1"`},
	)
}

func TestWhenOf(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"2h":                        now.Add(-2 * time.Hour),
		"03:00":                     now.Add(-9 * time.Hour),
		"13:00":                     now.Add(-23 * time.Hour),
		"03:00:30Z":                 now.Add(-9*time.Hour + 30*time.Second),
		"2026-11-26T11:00:00+01:00": now.Add(-26 * time.Hour),
		"2026-11-26":                now.Add(-36 * time.Hour),
		"2026-11-26 10:00":          now.Add(-26 * time.Hour),
	} {
		if got, err := whenOf("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

// Every command that the diagnosis names as a cure exists, with its flags.
func TestCuresAreCommands(t *testing.T) {
	sources, err := filepath.Glob("../operate/diagnosis/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`"wsbouncer ([^"%]*)"|commandOn\(b, "(\w+)"\)|return Backend\w+, "(\w+)"`)
	found := 0
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllStringSubmatch(string(source), -1) {
			words := strings.Fields(m[1])
			if verb := m[2] + m[3]; verb != "" {
				words = []string{"backend", verb}
			}
			if len(words) == 1 && words[0] == "backend" {
				continue // the verb follows
			}
			found++
			root := newRootCommand()
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || cmd.HasSubCommands() {
				t.Errorf("%s: %q: %v", name, words, err)
				continue
			}
			for _, word := range rest {
				if flag, is := strings.CutPrefix(word, "--"); is && cmd.Flags().Lookup(flag) == nil {
					t.Errorf("%s: %q: there is no --%s", name, words, flag)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d commands", found)
	}
}
