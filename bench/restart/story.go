//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// victim is the server that is killed: the third.
const victim = 2

// observation is what the story has shown.
type observation struct {
	cap      int
	readings int           // of the statistics
	most     [3]int        // connections of each backend, as the proxy counts them
	peaks    [3]int        // connections of each server, as the servers count them, the victim since its restart
	before   [3]int        // sessions on each server when the victim was killed
	fewest   [3]int        // the lowest number of sessions on each from then to the end of the first wave
	returned time.Duration // from the victim's return until its pool was full
	idle     int           // connections in the pool then
	first    *load.Result
	second   *load.Result
	sent     int       // clients of the second wave that were sent to the victim
	last     api.Stats // when all clients had left
}

// play goes through the story.
func (s *stage) play(ctx context.Context, address string) (o observation, err error) {
	s.say("three servers and the proxy are running; its statistics: http://%s/api/v1/stats", s.proxy.Admin)
	if err := s.until(ctx, stepTimeout, "the pools are full", s.allFull); err != nil {
		return o, err
	}
	first, err := s.startWave(ctx, s.options.sessions, 24*time.Hour)
	if err != nil {
		return o, err
	}
	defer func() {
		first.end()
		<-first.ended
	}()
	begun := time.Now()
	s.say("%d clients stream %g messages a second each", s.options.sessions, s.options.rate)
	if err := s.pass(ctx, s.options.duration/5); err != nil {
		return o, err
	}
	if err := s.killAndRestart(ctx, address, &o); err != nil {
		return o, err
	}
	if err := s.secondWave(ctx, &o); err != nil {
		return o, err
	}
	if err := s.pass(ctx, time.Until(begun.Add(s.options.duration))); err != nil {
		return o, err
	}
	o.fewest = s.fewest
	first.end()
	if o.first, err = s.finish(ctx, first, stepTimeout); err != nil {
		return o, err
	}
	s.say("the first wave has ended")
	if err := s.until(ctx, stepTimeout, "all sessions are over", func() bool { return s.last.Sessions.Active == 0 && s.allFull() }); err != nil {
		return o, err
	}
	if s.proxy.Stop(); s.proxy.ExitStatus() != 0 {
		return o, s.proxy.Failure()
	}
	o.cap, o.readings, o.most, o.last = s.options.cap(), s.readings, s.most, s.last
	for i, server := range s.servers {
		o.peaks[i] = peak(server)
	}
	return o, nil
}

// killAndRestart kills the victim, waits for a while, starts it again, and waits until its pool is full.
func (s *stage) killAndRestart(ctx context.Context, address string, o *observation) error {
	o.before = s.mark()
	killed := s.servers[victim]
	s.say("the third server, process %d, is killed: it has %d sessions", killed.PID(), o.before[victim])
	killed.Kill()
	if err := s.pass(ctx, s.options.duration/5); err != nil {
		return err
	}
	if err := s.startServer(ctx, victim, address); err != nil {
		return err
	}
	back := time.Now()
	s.say("the third server is back, as process %d", s.servers[victim].PID())
	err := s.until(ctx, 2*stepTimeout, "the third pool is full again", func() bool { return full(&s.last.Backends[victim]) })
	if err != nil && !errors.Is(err, errTooLate) {
		return err
	}
	o.returned, o.idle = s.at.Sub(back), s.last.Backends[victim].Idle
	s.say("its pool is full again: %v, with %d idle connections", err == nil, o.idle)
	return nil
}

// secondWave starts more clients: a tenth of the first wave.
func (s *stage) secondWave(ctx context.Context, o *observation) error {
	clients, duration := s.options.sessions/10, s.options.duration/5
	second, err := s.startWave(ctx, clients, duration)
	if err != nil {
		return err
	}
	defer func() {
		second.end()
		<-second.ended
	}()
	o.sent = s.last.Backends[victim].Leased
	s.say("%d more clients have come, %d of them to the third server", clients, o.sent)
	if o.second, err = s.finish(ctx, second, duration+stepTimeout); err != nil {
		return err
	}
	s.say("they have left")
	return nil
}

// summary shows the result of a wave in a line.
func summary(r *load.Result) string {
	return fmt.Sprintf("%d of %d connected, %d sent, %d received, p50 %.1f ms, p99 %.1f ms; %d lost, %d mixed up, %d sessions failed %v",
		r.Connected, r.Connections, r.Sent, r.Received, 1000*r.Latency.Quantile(0.5).Seconds(), 1000*r.Latency.Quantile(0.99).Seconds(),
		r.Lost, r.Mixed, r.Failed, r.Errors)
}
