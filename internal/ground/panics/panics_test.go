package panics

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

func TestRecover(t *testing.T) {
	var log bytes.Buffer
	g := NewGuard(slog.New(slog.NewTextHandler(&log, nil)))
	after := 0
	func() {
		defer g.Recover("here", func() { after++ })
		var nothing *int
		*nothing++
	}()
	func() { defer g.Recover("here", func() { after++ }) }()
	if g.Count() != 1 || after != 1 {
		t.Errorf("counted %d panics, and continued %d times", g.Count(), after)
	}
	for _, want := range []string{"level=ERROR", "where=here", "nil pointer dereference", "panics_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %s", want, log.String())
		}
	}
}

// A nil guard does not recover from panics.
func TestNilGuard(t *testing.T) {
	defer func() {
		if recover() != "seen" {
			t.Error("the panic was recovered from")
		}
	}()
	var g *Guard
	if g.Count() != 0 {
		t.Error("panics are counted")
	}
	func() {
		defer g.Recover("here", nil)
		panic("seen")
	}()
}

// A panic in the code of the pools may leave their lock held, so it ends the process.
func TestPanicInPools(t *testing.T) {
	g := NewGuard(slog.New(slog.DiscardHandler))
	survives := func(f func()) (survived bool) {
		defer func() { _ = recover() }()
		func() {
			defer g.Recover("here", nil)
			f()
		}()
		return true
	}
	group := pool.NewGroup[int](pool.Options{Now: func() pool.Instant { panic("in the midst") }})
	if survives(func() { _ = group.Queue() }) {
		t.Error("the program continues with the lock held")
	}
	sound := pool.NewGroup[int](pool.Options{})
	p := sound.Add("one", pool.Settings{Cap: 1, Warm: 1, Weight: 1}, func() {})
	slot, _ := p.Reserve()
	if !survives(slot.Gone) {
		t.Error("a misused slot ends the process")
	}
	if s := p.Stats(); s.Dialing != 1 {
		t.Errorf("the counts are %+v", s)
	}
}
