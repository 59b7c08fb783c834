package tlsrecord

import (
	"crypto/tls"
	"errors"
	"io"
)

// The alerts that are sent, or looked at when they arrive (RFC 8446, section 6, and RFC 5246, section 7.2).
const (
	closeNotify       tls.AlertError = 0
	unexpectedMessage tls.AlertError = 10
	badRecordMAC      tls.AlertError = 20
	recordOverflow    tls.AlertError = 22
	illegalParameter  tls.AlertError = 47
	decodeError       tls.AlertError = 50
	protocolVersion   tls.AlertError = 70
	userCanceled      tls.AlertError = 90
	noRenegotiation   tls.AlertError = 100

	warning byte = 1
	fatal   byte = 2
)

// localError is what the peer did wrong. [Conn.SealError] reports it.
type localError struct{ alert tls.AlertError }

func (e localError) Error() string { return "local error: " + e.alert.Error() }

// Unwrap returns the alert.
func (e localError) Unwrap() error { return e.alert }

// remoteError is an alert that the peer has sent.
type remoteError struct{ alert tls.AlertError }

func (e remoteError) Error() string { return "remote error: " + e.alert.Error() }

// Unwrap returns the alert.
func (e remoteError) Unwrap() error { return e.alert }

// receiveAlert returns what an alert that has arrived means: nil if it means nothing.
func (c *Conn) receiveAlert(content []byte) error {
	if len(content) != 2 {
		return localError{unexpectedMessage}
	}
	level, alert := content[0], tls.AlertError(content[1])
	switch {
	case alert == closeNotify:
		return io.EOF
	case c.version == tls.VersionTLS13:
		if alert == userCanceled { // close_notify follows; implementations misuse it (RFC 8446, section 6.1)
			return nil
		}
		return remoteError{alert}
	case level == warning:
		return nil
	case level == fatal:
		return remoteError{alert}
	}
	return localError{unexpectedMessage}
}

// SealClose appends to dst the alert that ends this direction of the stream: nothing may be sealed after it.
func (c *Conn) SealClose(dst []byte) []byte { return c.sealAlert(dst, closeNotify) }

// SealError appends to dst the alert that reports err to the peer, if err is one of [Conn.Open] that the peer is to learn.
// Nothing may be sealed after it.
func (c *Conn) SealError(dst []byte, err error) []byte {
	var local localError
	if !errors.As(err, &local) {
		return dst
	}
	return c.sealAlert(dst, local.alert)
}

func (c *Conn) sealAlert(dst []byte, alert tls.AlertError) []byte {
	level := fatal
	if alert == closeNotify || alert == noRenegotiation {
		level = warning
	}
	return c.seal(dst, alertRecord, []byte{level, byte(alert)})
}
