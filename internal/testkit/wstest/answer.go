package wstest

import (
	"net"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Answer answers an upgrade request, and reports whether it accepted it. The server calls it on a goroutine of the connection.
type Answer func(net.Conn, *handshake.Request) (accepted bool)

// Accept accepts every request, selects a subprotocol ("" for none), and sends a greeting in the same write.
func Accept(protocol string, greeting ...byte) Answer {
	return func(nc net.Conn, req *handshake.Request) bool {
		_, err := nc.Write(append(req.AppendAccept(nil, protocol), greeting...))
		return err == nil
	}
}

// AcceptUnless accepts every request for which refusal returns nil, and answers the others with what it returns.
func AcceptUnless(refusal func(*handshake.Request) *handshake.Refusal) Answer {
	accept := Accept("")
	return func(nc net.Conn, req *handshake.Request) bool {
		if refused := refusal(req); refused != nil {
			handshake.Refuse(nc, refused)
			return false
		}
		return accept(nc, req)
	}
}

// Refuse refuses every request with an HTTP status and a line of text.
func Refuse(status int, reason string) Answer {
	return AcceptUnless(func(*handshake.Request) *handshake.Refusal {
		return &handshake.Refusal{Status: status, Reason: reason}
	})
}

// Hang answers nothing. It returns when the client ends the connection.
func Hang(nc net.Conn, _ *handshake.Request) bool {
	_, _ = nc.Read(make([]byte, 1))
	return false
}
