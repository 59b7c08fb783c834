//go:build linux

// Command restart kills one of three backends under load, starts it again, and checks what the proxy promises: no backend ever has
// more connections than its cap, the sessions on the other two continue, and the third gets connections and clients again. It
// prints the proxy's statistics each second.
//
//	go -C bench run ./restart
//	go -C bench run ./restart -sessions 300 -duration 20s
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// options are the command's flags.
type options struct {
	sessions  int
	rate      float64
	size      int
	duration  time.Duration
	admin     string
	wsbouncer string
}

func parseFlags() (options, error) {
	var o options
	flag.IntVar(&o.sessions, "sessions", 3000, "clients of the first wave; each server's cap is half of that")
	flag.Float64Var(&o.rate, "rate", 2, "messages per second and client")
	flag.IntVar(&o.size, "size", 256, "bytes in a message")
	flag.DurationVar(&o.duration, "duration", 40*time.Second, "how long the first wave streams, at least; the server is killed after a fifth of that and started again after two fifths")
	flag.StringVar(&o.admin, "admin", "", "address of the proxy's admin API, to watch it from elsewhere (default: a free port)")
	flag.StringVar(&o.wsbouncer, "wsbouncer", "", "binary to use (default: build bin/wsbouncer)")
	flag.Parse()
	if o.sessions < 30 || o.duration < 5*time.Second || o.rate <= 0 {
		return o, errors.New("-sessions must be at least 30, -duration at least 5s, and -rate above 0")
	}
	return o, nil
}

// cap is how many connections each server takes. Two of the three have room for all sessions.
func (o options) cap() int { return (o.sessions + 1) / 2 }

func main() { child.Main(parseFlags, run) }

// run starts everything, goes through the story and judges it. All children have ended when it returns.
func run(ctx context.Context, o options) error {
	if _, err := child.Enter(ctx); err != nil {
		return err
	}
	binary, err := child.Build(ctx, o.wsbouncer)
	if err != nil {
		return err
	}
	addresses, err := child.FreeAddresses(3)
	if err != nil {
		return err
	}
	s := &stage{options: o, binary: binary, begun: time.Now()}
	defer s.stop()
	size := strconv.Itoa(o.cap())
	flags := []string{"--profile", "echo", "--connections", size, "--warm", size, "--log-level", "warn"}
	if o.admin != "" {
		flags = append(flags, "--admin", o.admin)
	}
	for i, address := range addresses {
		if err := s.startServer(ctx, i, address); err != nil {
			return err
		}
		flags = append(flags, "--backend", "ws://"+address)
	}
	if s.proxy, err = child.StartProxy(ctx, binary, flags...); err != nil {
		return err
	}
	if o.admin != "" {
		s.proxy.Admin = o.admin
	}
	seen, err := s.play(ctx, addresses[victim])
	if err != nil {
		return err
	}
	return judge(os.Stdout, seen)
}
