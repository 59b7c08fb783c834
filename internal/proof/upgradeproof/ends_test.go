//go:build linux

package upgradeproof

import (
	"os/exec"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// process starts a command instead of a proxy's process.
func process(t *testing.T, command ...string) *kit.Process {
	t.Helper()
	p, err := kit.Start(command[0], exec.Command(command[0], command[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// first returns the kind of the first violation; empty for none.
func first(j *kit.Journal) string {
	if found := j.Found(); len(found) > 0 {
		return found[0].Kind
	}
	return ""
}

// At the end of a proof, all processes must end well, those that were replaced by themselves.
func TestEnds(t *testing.T) {
	const wrongReplaced, wrongLast = "a process that was replaced did not end well", "the last process did not end well"
	for _, test := range []struct {
		name           string
		replaced, last []string
		timeout        time.Duration
		want           string
	}{
		{"all end well", []string{"true"}, []string{"true"}, kit.StartTimeout, ""},
		{"one that was replaced never ends", []string{"sleep", "1h"}, []string{"true"}, time.Millisecond, wrongReplaced},
		{"one that was replaced fails", []string{"false"}, []string{"true"}, kit.StartTimeout, wrongReplaced},
		{"the last one fails", []string{"true"}, []string{"false"}, kit.StartTimeout, wrongLast},
	} {
		p := &kit.Proxy{Directory: t.TempDir(), Process: process(t, test.last...), Replaced: []*kit.Process{process(t, test.replaced...)}}
		<-p.Process.Ended() // before a signal ends it
		j := kit.NewJournal(t.Output())
		if ends(j, p, test.timeout); first(j) != test.want {
			t.Errorf("%s: found %q; want %q", test.name, first(j), test.want)
		}
	}
}

// Between two scenes, what is wrong with a process of either proxy is found, and those that live are left.
func TestReapOld(t *testing.T) {
	failed, lives := process(t, "false"), process(t, "sleep", "1h")
	<-failed.Ended()
	r := &outages{journal: kit.NewJournal(t.Output()), pair: []*kit.Proxy{{}, {Replaced: []*kit.Process{failed, lives}}}}
	r.reapOld()
	if left := r.pair[1].Replaced; first(r.journal) == "" || len(left) != 1 || left[0] != lives {
		t.Errorf("found %q, and %d processes are left", first(r.journal), len(left))
	}
}

// A count that saw no connection proves nothing.
func TestNothingCounted(t *testing.T) {
	for highest, want := range map[[2]int]string{{0, 0}: "no connection was counted", {0, 1}: "", {3, 0}: "a server had more connections than its cap"} {
		j := kit.NewJournal(nil)
		c := &counter{journal: j, stop: func() {}, highest: highest[:]}
		if c.end(2, false); first(j) != want {
			t.Errorf("at most %v connections: found %q; want %q", highest, first(j), want)
		}
	}
}
