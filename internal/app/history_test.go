package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logged is a log that several processes of a test write to.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// claims has a process with a state directory claim the history there. The test ends it with stop.
func claims(directory string, held bool, log *logged) *Proxy {
	p := &Proxy{log: slog.New(slog.NewTextHandler(log, nil))}
	p.settings.StateDirectory, p.settings.Held = directory, held
	p.stopped, p.stop = context.WithCancel(context.Background())
	p.claimHistory()
	return p
}

// endsHere ends a process in order.
func (p *Proxy) endsHere() {
	p.stop()
	p.background.Wait()
	p.history.release()
}

// Of several proxies with one state directory, one keeps the history there, and another one does when that has ended.
func TestHistoryHasOneKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := t.TempDir()
		var log logged
		first, second := claims(directory, false, &log), claims(directory, false, &log)
		defer second.endsHere()
		if !first.history.mine.Load() || second.history.mine.Load() || strings.Count(log.String(), "another proxy keeps its history in this state directory") != 1 {
			t.Errorf("two proxies: %v and %v; log:\n%s", first.history.mine.Load(), second.history.mine.Load(), &log)
		}
		first.endsHere()
		time.Sleep(2 * claimInterval)
		synctest.Wait()
		if !second.history.mine.Load() {
			t.Error("no proxy keeps the history after the first proxy has ended")
		}
	})
}

// A successor keeps the history from its start, together with the process before it, and has the lock once that has yielded.
func TestHistoryOfSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := t.TempDir()
		var log logged
		old, successor := claims(directory, false, &log), claims(directory, true, &log)
		defer old.endsHere()
		if !old.history.mine.Load() || !successor.history.mine.Load() || log.String() != "" {
			t.Errorf("%v and %v; log:\n%s", old.history.mine.Load(), successor.history.mine.Load(), &log)
		}
		old.history.release()
		time.Sleep(2 * claimInterval)
		synctest.Wait()
		third := claims(directory, false, &log)
		defer third.endsHere()
		if third.history.mine.Load() {
			t.Error("the successor has not taken the lock")
		}
		successor.endsHere()
	})
}

// Without locks, as on some network file systems or a disk that takes no file, the history is kept as well as it can be.
func TestHistoryWithoutLock(t *testing.T) {
	p := claims(filepath.Join(t.TempDir(), "missing"), false, new(logged))
	defer p.endsHere()
	if !p.history.mine.Load() {
		t.Error("no history is kept")
	}
}
