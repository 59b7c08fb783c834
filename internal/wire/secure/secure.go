// Package secure makes TLS connections whose transport can be replaced, and reads the settings of TLS from files.
//
// A connection begins in ordinary blocking code: the TLS handshake and the opening handshake of WebSocket use a connection of
// package net. Then an event loop takes the socket over, and the record layer as it is at that moment ([Line.Release]), or replaces
// that connection without the TLS connection noticing.
// [Source] makes the TLS configuration for one server. [Listeners] make those for the proxy's own listeners.
package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Client carries out the TLS handshake over nc as a client. It fails if ctx ends before that. It never closes nc.
func Client(ctx context.Context, nc net.Conn, config *tls.Config) (*tls.Conn, error) {
	line := &Line{Conn: nc}
	if config.KeyLogWriter == nil {
		line.follow(true)
		config = config.Clone() // the cache of sessions is shared
		config.KeyLogWriter = keyLog{line}
		if config.ClientSessionCache != nil {
			config.ClientSessionCache = noting{config.ClientSessionCache, line}
		}
	}
	conn := tls.Client(line, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if header := (tls.RecordHeaderError{}); errors.As(err, &header) && header.Conn != nil {
			err = errors.New("server does not speak TLS")
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return conn, nil
}

// Server returns the server's side of a TLS connection over nc. The handshake begins with the first read or write. early is what was
// received from nc already; the connection keeps it. With a configuration that [ForServer] has prepared, an event loop can continue with
// the connection at the least cost.
func Server(nc net.Conn, config *tls.Config, early []byte) *tls.Conn {
	return tls.Server(&Line{Conn: nc, early: early}, config)
}

// ForServer prepares a configuration for [Server]: it sets GetConfigForClient, and calls what was set there before. All connections
// share the configuration, and with it the keys of session tickets.
func ForServer(config *tls.Config) *tls.Config {
	config = config.Clone()
	choose := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen := config
		if choose != nil {
			other, err := choose(hello)
			if err != nil {
				return nil, err
			}
			chosen = cmp.Or(other, config)
		}
		line, ok := hello.Conn.(*Line)
		if !ok || chosen.KeyLogWriter != nil {
			return chosen, nil
		}
		line.follow(false)
		own := chosen.Clone()
		own.KeyLogWriter = keyLog{line}
		if chosen == config { // it has the keys of tickets
			noteInTickets(own, config, line)
		}
		return own, nil
	}
	return config
}
