//go:build linux

package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// smallBuffer makes sockets fill soon.
const smallBuffer = 32 << 10

// TestBackpressure sends more than the sockets hold before it reads an echo, so
// that both directions stall and resume: every byte must come back, however the
// loop waits.
func TestBackpressure(t *testing.T) {
	backend := echoServer(t)
	ways := map[string]func(client, backend *net.TCPConn){"goroutines": relay}
	for name, wait := range waiters {
		hold, err := onLoops(1, wait)
		if err != nil {
			t.Fatal(err)
		}
		ways[name] = hold
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1) // for raw, as in main
	for name, hold := range ways {
		t.Run(name, func(t *testing.T) {
			listen := wstest.FreeAddress(t)
			go serve(listen, []string{backend}, hold)
			for range 3 {
				roundTrip(t, listen)
			}
		})
	}
}

func roundTrip(t *testing.T, address string) {
	conn, err := net.Dial("tcp", address)
	for attempt := 0; err != nil && attempt < 100; attempt++ {
		time.Sleep(10 * time.Millisecond)
		conn, err = net.Dial("tcp", address)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(smallBuffer)
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	sent := make([]byte, 4<<20)
	rand.Read(sent)
	go func() {
		conn.Write(sent)
		conn.(*net.TCPConn).CloseWrite()
	}()
	time.Sleep(100 * time.Millisecond)
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("got %d of %d bytes back: %v", len(got), len(sent), err)
	}
}

func echoServer(t *testing.T) string {
	listener := wstest.Listen(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.(*net.TCPConn).SetReadBuffer(smallBuffer)
			go func() {
				defer conn.Close()
				io.Copy(struct{ io.Writer }{conn}, conn)
			}()
		}
	}()
	return listener.Addr().String()
}
