// Command stt shows the proxy in front of a real speech recogniser. It starts a few example servers (PocketSphinx behind
// the Vosk protocol, see ../pocketsphinx), the proxy in front of them, and clients that stream recorded speech, whose
// transcripts it prints as they come. In the end it streams each recording to a server without the proxy, and fails
// unless that gives the same answers, to the letter. Or it starts simulated servers that translate (-translate).
//
// `make demo-stt`, `make demo-failover` and `make demo-translation` prepare what it needs and run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// options are what can be chosen on the command line.
type options struct {
	clips    []string      // WAV files; none for those that are built in
	clients  int           // that stream at the same time
	rounds   int           // clips that each client streams, one after another
	speed    float64       // times real time; 0 for as fast as the answers come
	servers  int           // servers to start
	backends []string      // URLs of servers that run already, instead of starting any
	profile  string        // of the proxy; parse sets it
	python   string        // interpreter with the server's requirements
	kill     time.Duration // between two kills of servers; 0 for none
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

// translations is the profile of the simulated servers that translate, and recognition that of the recognisers.
const (
	translations = "openai-translations"
	recognition  = "vosk"
)

// serverNoun is what the demonstration calls one of its servers.
func (o *options) serverNoun() string {
	if o.translate {
		return "server"
	}
	return "recogniser"
}

// clientsStream begins a sentence about all clients.
func (o *options) clientsStream() string {
	if o.clients == 1 {
		return "1 client streams"
	}
	return figures.Plural(o.clients, "client") + " stream"
}

func (o *options) check() error {
	if err := errors.Join(
		kit.Within("-clients", o.clients, 1, maxClients), kit.Within("-rounds", o.rounds, 1, maxRounds), kit.Within("-servers", o.servers, 1, maxServers),
		kit.Within("-kill", o.kill, 0, time.Hour), kit.Within("-speed", o.speed, 0, maxSpeed),
	); err != nil {
		return err
	}
	switch {
	case o.kill > 0 && len(o.backends) > 0:
		return errors.New("-kill: servers that run already are not killed: leave out -backend")
	case o.kill > 0 && o.servers < 2:
		return errors.New("-kill: sessions need a second server to continue with: use -servers 2 or more")
	case o.translate && o.profile != translations:
		return fmt.Errorf("-translate: the simulated servers speak the protocol of %s: leave out -profile", translations)
	}
	return nil
}

// parse reads the command line. It writes usage and errors to out.
func parse(arguments []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("stt", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.clients, "clients", 4, "number of clients that stream at the same time")
	flags.IntVar(&o.rounds, "rounds", 2, "number of clips that each client streams, one session for each")
	flags.Float64Var(&o.speed, "speed", 1, "speed as a multiple of real time; 0: as fast as answers come")
	flags.IntVar(&o.servers, "servers", 2, "number of servers to start")
	flags.Func("backend", "`URL` of a server that runs already and speaks the profile's protocol, instead of starting any (repeat for several)", func(url string) error {
		if !strings.HasPrefix(url, "ws://") {
			return errors.New("use ws://host:port/path")
		}
		o.backends = append(o.backends, url)
		return nil
	})
	flags.DurationVar(&o.kill, "kill", 0, "kill the server that serves most sessions this often; 0: never")
	flags.BoolVar(&o.translate, "translate", false, "start simulated servers that translate, instead of recognisers")
	flags.StringVar(&o.profile, "profile", "", "profile of the proxy (default "+recognition+"; with -translate always "+translations+")")
	flags.StringVar(&o.python, "python", ".cache/pocketsphinx/bin/python", "Python with the packages that recognisers need")
	flags.StringVar(&o.server, "server", "examples/pocketsphinx/server.py", "the recogniser's script")
	flags.StringVar(&o.proxy, "wsbouncer", "bin/wsbouncer", "the proxy's binary")
	flags.Usage = func() {
		fmt.Fprint(out, "Usage: stt [flags] [file.wav ...]\n\nStreams the files, or a few that are built in, through the proxy to real recognisers,\n"+
			"or with -translate to simulated servers that translate.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	o.clips = flags.Args()
	if o.profile == "" {
		o.profile = recognition
		if o.translate {
			o.profile = translations
		}
	}
	if err = o.check(); err != nil {
		fmt.Fprintln(out, "stt:", err)
	}
	return o, err
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
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
