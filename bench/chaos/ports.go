//go:build linux

package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// freeAddresses finds loopback addresses with ports that are free now: all are listened on at once, so that they differ, and
// then let go. They lie below those that the system gives to outgoing connections, of which thousands are about to be made:
// one could take the port of the server that is killed before it is started again.
func freeAddresses(count int) ([]string, error) {
	const lowest, above = 15000, 32000
	var addresses []string
	for range 100 * count {
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(lowest+rand.IntN(above-lowest)))
		if err != nil {
			continue
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
		if len(addresses) == count {
			return addresses, nil
		}
	}
	return nil, errors.New("no free ports found")
}
