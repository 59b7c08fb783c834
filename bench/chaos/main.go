//go:build linux

// Command chaos kills one of three backends under load, starts it again, and says whether the proxy kept what it promises: no
// backend ever sees more connections than its cap, the sessions with the other two do not notice, and the third gets its
// connections and clients back. It shows the proxy's statistics each second meanwhile.
//
//	go -C bench run ./chaos
//	go -C bench run ./chaos -sessions 300 -duration 20s
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
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

func parseFlags() options {
	var o options
	flag.IntVar(&o.sessions, "sessions", 3000, "clients of the first wave; each server's cap is half of that")
	flag.Float64Var(&o.rate, "rate", 2, "messages per second and client")
	flag.IntVar(&o.size, "size", 256, "bytes in a message")
	flag.DurationVar(&o.duration, "duration", 40*time.Second, "how long the first wave streams, at least; the server is killed after a fifth of that and started again after two fifths")
	flag.StringVar(&o.admin, "admin", "", "address of the proxy's admin API, to look at it from elsewhere (default: a free port)")
	flag.StringVar(&o.wsbouncer, "wsbouncer", "", "binary to use (default: build bin/wsbouncer)")
	flag.Parse()
	if flag.NArg() > 0 || o.sessions < 30 || o.duration < 5*time.Second || o.rate <= 0 {
		log.Fatal("usage: chaos [flags], with 30 sessions or more, a rate, and 5 s or more")
	}
	return o
}

// cap is how many connections each server takes. Two of the three have room for all sessions.
func (o options) cap() int { return (o.sessions + 1) / 2 }

func main() {
	log.SetFlags(0)
	o := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	held, err := run(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	if !held {
		os.Exit(1)
	}
}

// run starts everything, goes through the story and judges it. All children have ended when it returns.
func run(ctx context.Context, o options) (held bool, err error) {
	if _, err := child.Enter(ctx); err != nil {
		return false, err
	}
	binary, err := child.Build(ctx, o.wsbouncer)
	if err != nil {
		return false, err
	}
	s := &stage{options: o, binary: binary}
	defer s.clear()
	if err := s.set(ctx); err != nil {
		return false, err
	}
	seen, err := s.play(ctx)
	if err != nil {
		return false, err
	}
	return judge(os.Stdout, seen), nil
}
