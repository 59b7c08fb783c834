// Command stt shows the proxy in front of a real speech recogniser. It starts a few example servers (PocketSphinx behind
// the Vosk protocol, see ../pocketsphinx), the proxy in front of them, and clients that stream recorded speech, whose
// transcripts it prints as they come. In the end it streams each recording to a server without the proxy, and fails
// unless that gives the same answers, to the letter.
//
// `make demo-stt` prepares what it needs and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are what can be chosen on the command line.
type options struct {
	clips    []string      // WAV files; none for those that are built in
	clients  int           // that stream at the same time
	rounds   int           // clips that each client streams, one after another
	speed    float64       // times real time; 0 for as fast as the answers come
	servers  int           // recognisers to start
	backends []string      // URLs of servers that run already, instead of starting any
	profile  string        // of the proxy
	python   string        // interpreter with the server's requirements
	kill     time.Duration // between two kills of recognisers; 0 for none
	server   string        // the server's script
	proxy    string        // the binary

	translate bool // simulated translations instead of recognisers
}

// The largest values that make sense on one machine.
const (
	maxClients = 100
	maxRounds  = 1000
	maxServers = 20
	maxSpeed   = 100
)

func (o *options) check() error {
	switch {
	case o.clients < 1 || o.clients > maxClients:
		return fmt.Errorf("-clients: %d is not between 1 and %d", o.clients, maxClients)
	case o.rounds < 1 || o.rounds > maxRounds:
		return fmt.Errorf("-rounds: %d is not between 1 and %d", o.rounds, maxRounds)
	case o.servers < 1 || o.servers > maxServers:
		return fmt.Errorf("-servers: %d is not between 1 and %d", o.servers, maxServers)
	case o.kill < 0 || o.kill > time.Hour:
		return fmt.Errorf("-kill: %v is not between 0s and 1h", o.kill)
	case o.kill > 0 && len(o.backends) > 0:
		return errors.New("-kill: recognisers that run already are not killed: leave out -backend")
	case o.kill > 0 && o.servers < 2:
		return errors.New("-kill: sessions need a second recogniser to go on with: use -servers 2 or more")
	case !(o.speed >= 0 && o.speed <= maxSpeed):
		return fmt.Errorf("-speed: %v is not between 0 and %d", o.speed, maxSpeed)
	}
	return nil
}

func main() {
	o := options{}
	flag.IntVar(&o.clients, "clients", 4, "number of clients that stream at the same time")
	flag.IntVar(&o.rounds, "rounds", 2, "number of clips that each client streams, one session for each")
	flag.Float64Var(&o.speed, "speed", 1, "speed as a multiple of real time; 0: as fast as answers come")
	flag.IntVar(&o.servers, "servers", 2, "number of recognisers to start")
	flag.Func("backend", "`URL` of a Vosk server that runs already, instead of starting any (repeat for several)", func(url string) error {
		if !strings.HasPrefix(url, "ws://") {
			return errors.New("use ws://host:port/path")
		}
		o.backends = append(o.backends, url)
		return nil
	})
	flag.DurationVar(&o.kill, "kill", 0, "kill the recogniser that serves most sessions this often; 0: never")
	flag.BoolVar(&o.translate, "translate", false, "start simulated servers that translate (-profile openai-translations), instead of recognisers")
	flag.StringVar(&o.profile, "profile", "vosk", "profile of the proxy (wsbouncer serve --profile)")
	flag.StringVar(&o.python, "python", ".cache/pocketsphinx/bin/python", "Python with the packages that the server needs")
	flag.StringVar(&o.server, "server", "examples/pocketsphinx/server.py", "the server's script")
	flag.StringVar(&o.proxy, "wsbouncer", "bin/wsbouncer", "the proxy's binary")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Usage: stt [flags] [file.wav ...]\n\nStreams the files, or a few that are built in, through the proxy to real recognisers.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.clips = flag.Args()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "stt:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	show := run
	switch {
	case o.translate:
		show = interpret
	case o.kill > 0:
		show = survive
	}
	if err := show(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stt:", err)
		os.Exit(1)
	}
}
