//go:build !linux

package admin

import (
	"context"
	"net"
)

// withPeer adds nothing: only the file permissions of the socket say who may use it.
func withPeer(ctx context.Context, _ net.Conn) context.Context { return ctx }
