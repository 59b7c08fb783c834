//go:build linux

// Command waiting is the C relay's counterpart in Go: the same TCP relay without parsing, with a choice of how an event loop waits
// for its next events. It exists to measure that choice alone.
//
//	waiting -wait poller -loops 1 127.0.0.1:9000 127.0.0.1:9001 127.0.0.1:9002
//
// The first address is listened on, the others are backends, taken in turn.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
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
	run, ok := waiters[*wait]
	if flag.NArg() < 2 || *loops < 1 || !ok && *wait != "goroutines" {
		flag.Usage()
		os.Exit(2)
	}
	if *wait == "raw" || *wait == "alert" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + *loops)
	}
	hold := relay
	if ok {
		var err error
		if hold, err = onLoops(*loops, run); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(serve(flag.Arg(0), flag.Args()[1:], hold))
}

// serve accepts clients, dials a backend for each, and calls hold with the two in a goroutine. These are ordinary goroutines: they
// run rarely and are not what is measured.
func serve(listen string, backends []string, hold func(client, backend *net.TCPConn)) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			backend, err := net.Dial("tcp", backends[i%len(backends)])
			if err != nil {
				log.Printf("backend: %v", err)
				client.Close()
				return
			}
			hold(client.(*net.TCPConn), backend.(*net.TCPConn))
		}()
	}
}

// onLoops starts loops that wait in a given way. It returns a function that adds a session to the next of them.
func onLoops(count int, run waiter) (func(client, backend *net.TCPConn), error) {
	loops := make(chan *loop, count)
	for range count {
		l, err := newLoop()
		if err != nil {
			return nil, err
		}
		go run(l)
		loops <- l
	}
	return func(client, backend *net.TCPConn) {
		l := <-loops
		loops <- l
		a, errA := detach(client)
		b, errB := detach(backend)
		if errA != nil || errB != nil {
			log.Fatalf("descriptors: %v, %v", errA, errB)
		}
		l.add(a, b)
	}, nil
}
