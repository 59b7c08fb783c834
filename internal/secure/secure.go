// Package secure makes TLS connections whose transport can be replaced, and reads the settings of TLS from files.
//
// A connection begins in ordinary blocking code: the TLS handshake and the opening handshake of WebSocket use a connection of
// package net. Then an event loop takes the socket over and replaces that connection ([Line]), without the TLS connection noticing.
// [Source] makes the TLS configuration for one server. [Listeners] make those for the proxy's own listeners.
package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Line is the transport of a [tls.Conn] of this package: tls.Conn.NetConn returns it. Its connection may be replaced while the
// tls.Conn is not in use.
type Line struct {
	net.Conn
	early []byte // what was received before the handshake began; read first
}

// Read implements [net.Conn].
func (l *Line) Read(b []byte) (int, error) {
	if len(l.early) > 0 {
		n := copy(b, l.early)
		if l.early = l.early[n:]; len(l.early) == 0 {
			l.early = nil
		}
		return n, nil
	}
	return l.Conn.Read(b)
}

// Client carries out the TLS handshake over nc as a client. It fails if ctx ends before that. It never closes nc.
func Client(ctx context.Context, nc net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(&Line{Conn: nc}, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if header := (tls.RecordHeaderError{}); errors.As(err, &header) && header.Conn != nil {
			err = errors.New("server does not speak TLS")
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return conn, nil
}

// Server returns the server's side of a TLS connection over nc. The handshake begins with the first read or write. early is what was
// received from nc already; the connection keeps it.
func Server(nc net.Conn, config *tls.Config, early []byte) *tls.Conn {
	return tls.Server(&Line{Conn: nc, early: early}, config)
}
