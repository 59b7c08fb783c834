//go:build linux

package main

import (
	"log"
	"net"
)

// serveGoroutines is the usual way: two goroutines for each session, each with
// a buffer, in Read and Write. It hides the connections' types where io.Copy
// would find splice, which a proxy that looks at frames cannot use.
func serveGoroutines(listen string, backends []string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go relay(client.(*net.TCPConn), backends[i%len(backends)])
	}
}

func relay(client *net.TCPConn, address string) {
	defer client.Close()
	c, err := net.Dial("tcp", address)
	if err != nil {
		log.Printf("backend: %v", err)
		return
	}
	backend := c.(*net.TCPConn)
	defer backend.Close()
	done := make(chan struct{})
	go func() {
		copyBytes(client, backend)
		close(done)
	}()
	copyBytes(backend, client)
	<-done
}

// copyBytes relays until src ends, and passes the end on.
func copyBytes(dst, src *net.TCPConn) {
	buffer := make([]byte, 4<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			if _, err := dst.Write(buffer[:n]); err != nil {
				src.CloseRead()
				return
			}
		}
		if err != nil {
			dst.CloseWrite()
			return
		}
	}
}
