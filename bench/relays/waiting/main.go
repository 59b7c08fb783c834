//go:build linux

// Command waiting is the C relay's counterpart in Go: the same TCP relay
// without parsing, with a choice of how an event loop waits for its next
// events. It exists to measure that choice alone.
//
//	waiting -wait poller -loops 1 127.0.0.1:9000 127.0.0.1:9001 127.0.0.1:9002
//
// The first address is listened on, the others are backends, taken round robin.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"syscall"
)

func main() {
	log.SetFlags(0)
	wait := flag.String("wait", "poller", "how a loop waits: "+waiterNames()+", or goroutines for no loop at all")
	loops := flag.Int("loops", 1, "number of event loops")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: waiting [flags] LISTEN BACKEND...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 || *loops < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if *wait == "goroutines" {
		log.Fatal(serveGoroutines(flag.Arg(0), flag.Args()[1:]))
	}
	run, ok := waiters[*wait]
	if !ok {
		log.Fatalf("unknown -wait %q: want one of %s", *wait, waiterNames())
	}
	if *wait == "raw" || *wait == "alert" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + *loops)
	}
	log.Fatal(serveLoops(flag.Arg(0), flag.Args()[1:], *loops, run))
}

// serveLoops starts the loops and hands each new session to the next of them.
// It accepts in an ordinary goroutine: that is rare, and not what is measured.
func serveLoops(listen string, backends []string, count int, run waiter) error {
	listener, err := listenTCP(listen)
	if err != nil {
		return err
	}
	targets := make([]syscall.SockaddrInet4, len(backends))
	for i, b := range backends {
		if targets[i], err = resolve(b); err != nil {
			return err
		}
	}
	loops := make([]*loop, count)
	for i := range loops {
		if loops[i], err = newLoop(); err != nil {
			return err
		}
		go run(loops[i])
	}
	for i := 0; ; i++ {
		client, _, err := syscall.Accept4(listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			if err == syscall.EINTR || err == syscall.ECONNABORTED {
				continue
			}
			return fmt.Errorf("accept: %w", err)
		}
		backend, err := connect(&targets[i%len(targets)])
		if err != nil {
			log.Printf("backend: %v", err)
			syscall.Close(client)
			continue
		}
		loops[i%count].add(client, backend)
	}
}
