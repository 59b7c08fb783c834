// Package freeport finds ports for programs that cannot choose one themselves. Tests, proofs and benchmarks may import it.
package freeport

import (
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// Address returns an address of the first host with a port that is free at all of the hosts. The system does not give this port to sockets
// that ask for any, so that it stays free even while a program that listens there is restarted. On Linux, no other call returns the same port while
// this process lives. Without a host, it is 127.0.0.1.
func Address(hosts ...string) (string, error) {
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	var err error
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if err = claim(port); err != nil {
			continue
		}
		if err = free(hosts, port); err == nil {
			return net.JoinHostPort(hosts[0], port), nil
		}
	}
	return "", err
}

// claims are the sockets that tell others which ports this process has drawn. They are open until it ends.
var claims struct {
	mu   sync.Mutex
	open []net.Listener // guarded by mu
}

// claim fails if another call has drawn the port, in any process of this machine. Sockets with abstract names leave no file behind (unix(7)).
func claim(port string) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	listener, err := net.Listen("unix", "@wsbouncer-port-"+port)
	if err != nil {
		return err
	}
	claims.mu.Lock()
	defer claims.mu.Unlock()
	claims.open = append(claims.open, listener)
	return nil
}

// free fails if something listens on the port at one of the hosts.
func free(hosts []string, port string) error {
	for _, host := range hosts {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		defer listener.Close()
	}
	return nil
}
