// Package freeport finds ports for programs that cannot choose one themselves. Tests, proofs and benchmarks may import it.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// Address returns an address of the first host with a port that is free at all of the hosts. The system does not give this port to sockets
// that ask for any, so that it stays free even while a program that listens there is restarted. Without a host, it is 127.0.0.1.
func Address(hosts ...string) (string, error) {
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	var err error
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if err = free(hosts, port); err == nil {
			return net.JoinHostPort(hosts[0], port), nil
		}
	}
	return "", err
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
