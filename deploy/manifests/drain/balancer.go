package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// balancer stands for a Kubernetes Service: it passes each connection on to one of the pods that are its endpoints at the moment. A connection
// stays with its pod, whether that is still an endpoint or not. Any goroutine may call its methods.
type balancer struct {
	listener net.Listener
	tasks    sync.WaitGroup
	refused  atomic.Int64 // connections that no pod took

	mu    sync.Mutex
	pods  []*pod            // guarded by mu
	conns map[net.Conn]bool // guarded by mu: of clients and to pods
}

// newBalancer starts a balancer without endpoints. The caller closes it.
func newBalancer() (*balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: listener, conns: make(map[net.Conn]bool)}
	b.tasks.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			b.tasks.Go(func() { b.pass(conn) })
		}
	})
	return b, nil
}

// close ends it, and all connections.
func (b *balancer) close() {
	_ = b.listener.Close()
	b.mu.Lock()
	for conn := range b.conns {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.tasks.Wait()
}

// add makes a pod an endpoint.
func (b *balancer) add(p *pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods = append(b.pods, p)
}

// remove has a pod get no new connections.
func (b *balancer) remove(p *pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods = slices.DeleteFunc(b.pods, func(other *pod) bool { return other == p })
}

// keep notes a connection, so that close ends it.
func (b *balancer) keep(conn net.Conn) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[conn] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, conn)
		_ = conn.Close()
	}
}

// pass carries the bytes of one client.
func (b *balancer) pass(client net.Conn) {
	defer b.keep(client)()
	b.mu.Lock()
	var address string
	if len(b.pods) > 0 {
		address = b.pods[rand.IntN(len(b.pods))].address
	}
	b.mu.Unlock()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		b.refused.Add(1)
		return
	}
	defer b.keep(server)()
	var answers sync.WaitGroup
	answers.Go(func() { copyHalf(client, server) })
	copyHalf(server, client)
	answers.Wait()
}

// copyHalf copies one direction to its end.
func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}
