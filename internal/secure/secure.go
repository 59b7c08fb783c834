// Package secure makes TLS connections that can go on over another transport than the one they began with, and reads the
// settings of TLS from files.
//
// A connection begins in ordinary blocking code: it is dialed or accepted, and TLS and the opening handshake of WebSocket are
// spoken over a connection of package net. Then an event loop takes the socket over, and puts itself in its place ([Line]),
// without the TLS connection noticing. [Source] makes the configuration of TLS towards one server.
package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Line is what lies under a [tls.Conn] of this package: tls.Conn.NetConn returns it. The connection that it holds may be replaced
// by another while neither is in use.
type Line struct{ net.Conn }

// Client carries out the TLS handshake over nc as its client, or fails when ctx ends. It does not close nc.
func Client(ctx context.Context, nc net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(&Line{nc}, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if header := (tls.RecordHeaderError{}); errors.As(err, &header) && header.Conn != nil {
			err = errors.New("server does not answer in TLS")
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return conn, nil
}

// Server returns the server's side of a TLS connection over nc. Its handshake begins with the first read or write.
func Server(nc net.Conn, config *tls.Config) *tls.Conn { return tls.Server(&Line{nc}, config) }
