package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"
)

// How a server dies, hangs and falls behind, and how it comes back: at random, as FailOptions say, or when it is told to.

// errClosed is returned by Revive after Close.
var errClosed = errors.New("the simulated server was closed")

// How long Revive tries to get the server's port back.
const (
	reviveWithin = 5 * time.Second
	reviveEvery  = 20 * time.Millisecond
)

// live begins to accept connections. The caller holds mu.
func (s *Server) live(listener net.Listener) {
	life, die := context.WithCancel(s.ending)
	s.listener, s.die = listener, die
	s.tasks.Go(func() {
		defer die()
		s.accept(life, listener)
	})
}

// Kill ends the server as the end of its process does: it refuses connections from now on, and those that it has end, each in the middle
// of a frame. It does nothing if the server is dead already. It returns when all have ended. No loop may call it.
func (s *Server) Kill() {
	s.mu.Lock()
	if s.listener == nil || s.over {
		s.mu.Unlock()
		return
	}
	_ = s.listener.Close()
	s.die()
	s.listener = nil
	s.mu.Unlock()
	s.each(func(k *conn) { k.die() })
	s.stalled.Store(false) // its successor does not hang
}

// Revive accepts connections again at the same address, as a process does that was started again. It does nothing if the server is
// alive. An error says that another process has taken the port meanwhile.
func (s *Server) Revive() error {
	deadline := time.Now().Add(reviveWithin)
	for {
		err := s.revive()
		if err == nil || errors.Is(err, errClosed) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-s.ending.Done():
			return errClosed
		case <-time.After(reviveEvery):
		}
	}
}

func (s *Server) revive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errClosed
	case s.listener != nil:
		return nil
	}
	listener, err := net.Listen("tcp", s.addr.String())
	if err != nil {
		return fmt.Errorf("listening again: %w", err)
	}
	s.live(listener)
	return nil
}

// runOutOfMemory lets the server die for as long as FailOptions.OOMFor says. Loops may call it.
func (s *Server) runOutOfMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.listener == nil {
		return
	}
	s.tasks.Go(func() {
		s.Kill()
		after := s.options.Fail.OOMFor
		if after == 0 {
			after = defaultOOM
		}
		select {
		case <-s.ending.Done():
			return
		case <-time.After(after):
		}
		if err := s.Revive(); err != nil && !errors.Is(err, errClosed) {
			s.options.Logger.Error("the server stays dead", "error", err)
		}
	})
}

// Stall lets the server hang as one does whose GPU hangs: it accepts connections, greets clients, and answers pings and closes, but nothing
// else. (An echo server without latency and failures reads nothing, not even pings.) It returns when that holds for all connections. No
// loop may call it.
func (s *Server) Stall() {
	s.stalled.Store(true)
	s.each((*conn).throttle)
}

// Resume ends Stall. The server answers what it has got meanwhile.
func (s *Server) Resume() {
	s.stalled.Store(false)
	s.each(func(k *conn) {
		if k.replies != nil {
			k.replies.resume()
		}
		k.flush()
	})
}

// Slow sets how many seconds the server needs for a second of audio, as FailOptions.Slow does. 0 is no time.
func (s *Server) Slow(factor float64) { s.slow.Store(math.Float64bits(factor)) }

func (s *Server) slowness() float64 { return math.Float64frombits(s.slow.Load()) }

// each calls do with each open connection, on its loop, and returns when that is done.
func (s *Server) each(do func(k *conn)) {
	for i, l := range s.group.Loops() {
		lane := s.lanes[i]
		l.Call(func() { // or the server was closed
			for k := range lane.conns {
				do(k)
			}
		})
	}
}
