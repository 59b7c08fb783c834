package config

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// source is what a poller looks at.
type source struct {
	mu    sync.Mutex
	state string
	err   error
	looks int
}

func (s *source) look(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.state, s.err
}

func (s *source) set(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = state, err
}

// rang reports whether the watcher has a value, and takes it.
func rang(watcher <-chan struct{}) bool {
	select {
	case _, ok := <-watcher:
		return ok
	default:
		return false
	}
}

func TestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{state: "1"}
		p := NewPoller(time.Second, time.Second, s.look)
		time.Sleep(time.Minute)
		if s.looks != 0 {
			t.Error("it looks though nothing watches")
		}
		watcher := p.Watch(t.Context())
		if !rang(watcher) {
			t.Error("the first value does not come at once")
		}
		settle := func() {
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		settle()
		rang(watcher) // what it found first is new to it
		settle()
		if rang(watcher) {
			t.Error("it rang though nothing changed")
		}
		s.set("2", nil)
		settle()
		if !rang(watcher) || rang(watcher) {
			t.Error("a change was not told once")
		}
		s.set("2", errors.New("unreachable"))
		settle()
		if !rang(watcher) {
			t.Error("that it is unreachable was not told")
		}
		settle()
		if !rang(watcher) {
			t.Error("that it is still unreachable was not told")
		}
		s.set("2", nil)
		settle()
		if !rang(watcher) {
			t.Error("that it is reachable again was not told")
		}
		p.Close()
		if _, ok := <-watcher; ok {
			t.Error("the channel is open after closing")
		}
		p.Close()
		if _, ok := <-p.Watch(t.Context()); ok {
			t.Error("it can be watched after closing")
		}
	})
}

func TestPollerNeverWatched(t *testing.T) {
	p := NewPoller(time.Second, time.Second, func(context.Context) (string, error) {
		t.Error("it looks")
		return "", nil
	})
	p.Close()
}
