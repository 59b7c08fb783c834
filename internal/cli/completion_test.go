package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// completions returns what a shell is offered for the last word.
func completions(t *testing.T, args ...string) (offered []string) {
	t.Helper()
	status, out, messages := command(append([]string{"__complete"}, args...)...)
	if status != 0 || messages != "Completion ended with directive: ShellCompDirectiveNoFileComp\n" {
		t.Errorf("%q: status %d, said %q", args, status, messages)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[:len(lines)-1] // the last one is the directive
}

// Shells complete the names of what there is, from a database and from a proxy.
func TestNameCompletion(t *testing.T) {
	defer func(before time.Duration) { completionTimeout = before }(completionTimeout)
	completionTimeout = wstest.Timeout
	everywhere(t, func(t *testing.T, s *stage) {
		s.begin()
		s.must("profile add mine --file " + s.write("from: vosk\n"))
		profiles := append(profile.Names(), "mine")
		for _, c := range []struct {
			words string // before the one to complete, which is empty
			want  []string
		}{
			{"service show", []string{"stt"}},
			{"service set", []string{"stt"}},
			{"service rm", []string{"stt"}},
			{"service add", nil},
			{"service set stt --profile", profiles},
			{"service show stt", nil}, // it takes one
			{"backend show", []string{"gpu-1", "gpu-2"}},
			{"backend set", []string{"gpu-1", "gpu-2"}},
			{"backend delete gpu-1", []string{"gpu-2"}},
			{"backend drain", []string{"gpu-1", "gpu-2"}},
			{"backend enable gpu-2", []string{"gpu-1"}},
			{"backend disable gpu-1 gpu-2", nil},
			{"backend add x ws://h --service", []string{"stt"}},
			{"backend ls --service", []string{"stt"}},
			{"profile show", profiles},
			{"profile set", []string{"mine"}},
			{"profile rm", []string{"mine"}},
		} {
			words := strings.Fields(c.words)
			args := append(slices.Clone(words[:2]), s.where...)
			args = append(append(args, words[2:]...), "")
			if got := completions(t, args...); !slices.Equal(got, c.want) {
				t.Errorf("%s: offered %q; want %q", c.words, got, c.want)
			}
		}
		if got := completions(t, append(append([]string{"backend", "show"}, s.where...), "x")...); len(got) != 0 {
			t.Errorf("offered %q for what begins with x", got)
		}
	})
}

// Where nothing answers, nothing is offered, and nothing said.
func TestCompletionWithoutAnswer(t *testing.T) {
	directory := alone(t)
	silent, err := net.Listen("unix", filepath.Join(directory, "silent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	_ = server.Listener.Close()
	server.Listener = silent
	server.Start()
	defer server.Close()
	missing := filepath.Join(directory, "none.db")
	for _, where := range [][]string{
		nil, {"--database", missing}, {"--database", "mysql://h/x"}, {"--admin", "unix:" + directory + "/none.sock"}, {"--admin", "unix:" + silent.Addr().String()},
	} {
		if got := completions(t, append(append([]string{"backend", "show"}, where...), "")...); len(got) != 0 {
			t.Errorf("%q: offered %q", where, got)
		}
	}
	if got := completions(t, "profile", "show", ""); !slices.Equal(got, profile.Names()) {
		t.Errorf("profiles: offered %q; those that are built in need no proxy", got)
	}
	if files, _ := filepath.Glob(missing + "*"); len(files) != 0 {
		t.Errorf("completing made %q", files)
	}
}
