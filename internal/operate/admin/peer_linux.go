package admin

import (
	"context"
	"net"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// withPeer adds to a connection's context who is at its other end, if that is a unix socket ([http.Server.ConnContext]).
func withPeer(ctx context.Context, nc net.Conn) context.Context {
	socket, ok := secure.Under(nc).(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx
	}
	var credentials *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) // unix(7)
	})
	if failed != nil || err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer{credentials.Uid})
}
