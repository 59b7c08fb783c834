package app

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/filelock"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// claimInterval is how often a process that does not keep the history tries to.
const claimInterval = 5 * time.Second

// errKeptByOther: why past problems and ended sessions are in memory only.
var errKeptByOther = errors.New("another proxy keeps its history in this state directory: give each its own --state-directory")

// history decides which of several processes with one state directory keeps the history there: problems and sessions that have ended. Proxies should
// not share one, but if they do, each would end the other's problems, and list its sessions. The file's lock decides. A process and its successor
// keep it together, until the old one has ended.
type history struct {
	mine atomic.Bool // this process may read and write the files

	mu      sync.Mutex
	unlock  func() // guarded by mu: gives the lock back; nil without it
	yielded bool   // guarded by mu: the lock is the successor's
}

// claimHistory claims the files of the history. Call releaseHistory after the last use.
func (p *Proxy) claimHistory() {
	if p.settings.StateDirectory == "" {
		return
	}
	path := state.History(p.settings.StateDirectory)
	locked, err := p.history.lock(path)
	p.history.mine.Store(locked || err != nil || p.settings.Held) // without locks, as on some network file systems, there is no better guess
	if locked || err != nil {
		return
	}
	if !p.history.mine.Load() {
		p.log.Warn("past problems and ended sessions are kept in memory only", "reason", errKeptByOther, "state_directory", p.settings.StateDirectory)
	}
	p.background.Go(func() {
		for tasks.Sleep(p.stopped, claimInterval) {
			if locked, err := p.history.lock(path); err != nil || !locked {
				continue
			}
			if !p.history.mine.Swap(true) {
				p.log.Info("past problems and ended sessions are kept in the state directory from now on: the other proxy has ended")
			}
			return
		}
	})
}

// lock takes the lock if no other process has it, and reports whether this one has it.
func (h *history) lock(path string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.yielded {
		return false, nil
	}
	unlock, ok, err := filelock.TryLock(path)
	if ok {
		h.unlock = unlock
	}
	return ok, err
}

// release gives the lock to a successor, or to anybody when the process ends. What this process still writes, its successor reads.
func (h *history) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.yielded = true
	if h.unlock != nil {
		h.unlock()
		h.unlock = nil
	}
}
