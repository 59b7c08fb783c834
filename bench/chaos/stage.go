//go:build linux

package main

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"time"
)

// stage is the processes and what watches them.
type stage struct {
	options options
	binary  string

	addresses [3]string // of the servers
	servers   [3]*process
	proxy     *process
	listen    string // where the proxy is
	admin     string
	loads     []load
	table     *table
	watch     *watch
}

// set starts the servers and the proxy, and returns when all pools are full.
func (s *stage) set(ctx context.Context) error {
	addresses, err := freeAddresses(len(s.servers) + 2)
	if err != nil {
		return err
	}
	s.listen, s.admin = addresses[3], addresses[4]
	if s.options.admin != "" {
		s.admin = s.options.admin
	}
	size := strconv.Itoa(s.options.cap())
	arguments := []string{
		"serve", "--listen", s.listen, "--admin", s.admin, "--profile", "echo", "--connections", size, "--warm", size,
		"--log-level", "warn",
	}
	for i := range s.servers {
		s.addresses[i] = addresses[i]
		if s.servers[i], err = startSimulator(ctx, serverNames[i]+" server", s.binary, addresses[i]); err != nil {
			return err
		}
		arguments = append(arguments, "--backend", "ws://"+addresses[i])
	}
	if s.proxy, err = startProcess("the proxy", s.binary, arguments...); err != nil {
		return err
	}
	err = await(ctx, patience, "the proxy answers", func() (bool, error) {
		_, err := getStats(ctx, s.admin)
		return err == nil, s.proxy.running()
	})
	if err != nil {
		return err
	}
	s.table = &table{out: os.Stdout, begun: time.Now()}
	s.table.say("three servers and the proxy are running; its statistics: http://%s/api/v1/stats", s.admin)
	s.watch = startWatch(ctx, s.admin, s.table)
	_, err = s.watch.await(ctx, patience, "the pools are full", sample.full)
	return err
}

// startLoad begins a wave of clients.
func (s *stage) startLoad(ctx context.Context, name string, clients int, duration time.Duration) (load, error) {
	l, err := startLoad(ctx, name, s.binary, s.listen, clients, s.options, duration)
	if err == nil {
		s.loads = append(s.loads, l)
	}
	return l, err
}

// strike takes everything down in order. The servers say their peaks then.
func (s *stage) strike() error {
	s.watch.stop()
	<-s.watch.done
	inTime := s.proxy.stop(syscall.SIGTERM)
	for _, server := range s.servers {
		server.stop(syscall.SIGTERM)
	}
	if !inTime || !s.proxy.command.ProcessState.Success() {
		return s.proxy.running()
	}
	return nil
}

// clear makes sure that no child is left, whatever happened.
func (s *stage) clear() {
	if s.watch != nil {
		s.watch.stop()
		<-s.watch.done
	}
	for _, l := range s.loads {
		l.stop(syscall.SIGKILL)
	}
	for _, p := range append(s.servers[:], s.proxy) {
		if p != nil {
			p.stop(syscall.SIGKILL)
		}
	}
}
