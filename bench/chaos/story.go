//go:build linux

package main

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// victim is the server that is killed: the third.
const victim = 2

// observation is what the story has shown.
type observation struct {
	cap      int
	looks    int
	most     [3]int        // connections of each backend, as the proxy counts them
	peaks    [3]int        // the same, as the servers count them, the victim since its restart
	before   [3]int        // sessions with each server when the victim was killed
	fewest   [3]int        // the same, at the lowest, from then to the end of the first wave
	returned time.Duration // from the victim's return until its pool was full
	idle     int           // connections in it then
	first    loadResult
	second   loadResult
	sent     int    // clients of the second wave that were sent to the victim
	last     sample // when all had left
}

// play goes through the story.
func (s *stage) play(ctx context.Context) (o observation, err error) {
	const farAway = 24 * time.Hour
	first, err := s.startLoad(ctx, "the first wave", s.options.sessions, farAway)
	if err != nil {
		return o, err
	}
	begun := time.Now()
	s.table.say("%d clients stream %g messages a second each", s.options.sessions, s.options.rate)
	if err := pause(ctx, s.options.duration/5); err != nil {
		return o, err
	}
	if err := s.killAndRestart(ctx, &o); err != nil {
		return o, err
	}
	if err := s.secondWave(ctx, &o); err != nil {
		return o, err
	}
	if err := pause(ctx, time.Until(begun.Add(s.options.duration))); err != nil {
		return o, err
	}
	o.fewest = s.watch.leased()
	if o.first, err = first.end(); err != nil {
		return o, err
	}
	s.table.say("the first wave has ended")
	if o.last, err = s.watch.await(ctx, patience, "all sessions are over", func(s sample) bool { return s.Sessions.Active == 0 && s.full() }); err != nil {
		return o, err
	}
	if err := s.strike(); err != nil {
		return o, err
	}
	o.cap, o.looks, o.most = s.options.cap(), s.watch.looks, s.watch.most
	for i, server := range s.servers {
		o.peaks[i] = peak(server)
	}
	return o, nil
}

// killAndRestart kills the victim, leaves it dead for a while, starts it again and waits until its pool is full.
func (s *stage) killAndRestart(ctx context.Context, o *observation) error {
	o.before = s.watch.mark()
	killed := s.servers[victim]
	s.table.say("the third server, process %d, is killed: it has %d sessions", killed.pid(), o.before[victim])
	killed.stop(syscall.SIGKILL)
	if err := pause(ctx, s.options.duration/5); err != nil {
		return err
	}
	var err error
	if s.servers[victim], err = startSimulator(ctx, "third server", s.binary, s.addresses[victim]); err != nil {
		return err
	}
	back := time.Now()
	s.table.say("the third server is back, as process %d", s.servers[victim].pid())
	now, err := s.watch.await(ctx, 2*patience, "the third pool is full again", func(s sample) bool {
		return s.at.After(back) && s.Backends[victim].full()
	})
	if err != nil && !errors.Is(err, errInVain) {
		return err
	}
	o.returned, o.idle = now.at.Sub(back), now.Backends[victim].Idle
	s.table.say("its pool is full again: %v, with %d idle connections", err == nil, o.idle)
	return nil
}

// secondWave has more clients come, a tenth of the first wave.
func (s *stage) secondWave(ctx context.Context, o *observation) error {
	clients := s.options.sessions / 10
	second, err := s.startLoad(ctx, "the second wave", clients, s.options.duration/5)
	if err != nil {
		return err
	}
	now, err := s.watch.now()
	if err != nil {
		return err
	}
	o.sent = now.Backends[victim].Leased
	s.table.say("%d more clients have come, %d of them to the third server", clients, o.sent)
	<-second.ended
	if o.second, err = second.end(); err != nil {
		return err
	}
	s.table.say("they have left")
	return nil
}
