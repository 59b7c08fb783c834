//go:build linux

package main

import "net"

// relay is the usual way: two goroutines for each session, each with a buffer, in Read and Write. It does not use io.Copy, which
// would find splice: a proxy that looks at frames cannot use that.
func relay(client, backend *net.TCPConn) {
	defer client.Close()
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
