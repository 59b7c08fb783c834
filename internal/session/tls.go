package session

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// tlsResult is how a TLS handshake ended.
type tlsResult int

// The results. The first two are successes.
const (
	tlsFull        tlsResult = iota
	tlsResumed               // with a ticket of an earlier connection
	tlsNotTLS                // the client speaks something else
	tlsTimeout               // it did not end in time
	tlsLeft                  // the client closed the connection
	tlsVersion               // the client knows no version that is allowed
	tlsParameters            // no common cipher suite, signature algorithm, curve or protocol
	tlsCertificate           // the client presented no certificate, or a bad one
	tlsRefused               // the client sent an alert: it does not trust the proxy's certificate, perhaps
	tlsBroken                // anything else: the client broke the protocol
	tlsResults
)

// tlsResultNames are the results as metrics and logs have them.
var tlsResultNames = [tlsResults]string{
	"full", "resumed", "not-tls", "timeout", "left", "version", "parameters", "certificate", "refused-by-client", "broken",
}

// tlsFailure is a TLS handshake that failed. There is nobody to answer: TLS has told the client what it could.
type tlsFailure struct {
	result  tlsResult
	version uint16 // that was agreed on; 0 if it had not come so far
	err     error
}

func (f *tlsFailure) Error() string { return f.err.Error() }

// handshakeTLS carries out the TLS handshake with a client whose connection began with early. The connection's deadline bounds it. It
// returns the TLS connection, and notes the client's certificate. If it fails, it returns nc: with a [*handshake.Refusal] if the client
// speaks HTTP without TLS and can be answered so, otherwise with a [*tlsFailure].
func (g *Gate) handshakeTLS(nc net.Conn, early []byte, config *tls.Config, a *arrival) (net.Conn, error) {
	conn, err := g.tlsTurns.handshake(nc, early, config, a.opening)
	state := conn.ConnectionState()
	if err == nil && state.NegotiatedProtocol == secure.ChallengeProtocol { // RFC 8737, section 3: the authority has seen what it wanted
		_ = conn.Close()
		err = io.EOF
	}
	if err != nil {
		failure := &tlsFailure{resultOf(err), state.Version, err}
		g.tls.count(failure.result, failure.version)
		if header := (tls.RecordHeaderError{}); failure.result == tlsNotTLS && errors.As(err, &header) && header.Conn != nil {
			if answer := answerWithoutTLS(header.RecordHeader[:]); answer != nil {
				return nc, answer
			}
		}
		return nc, failure
	}
	if state.DidResume {
		g.tls.count(tlsResumed, state.Version)
	} else {
		g.tls.count(tlsFull, state.Version)
	}
	if len(state.VerifiedChains) > 0 {
		a.certificate = state.PeerCertificates[0]
	}
	return conn, nil
}

// methods are what requests of HTTP/1.1 begin with, cut to the five bytes of a TLS record's header.
var methods = []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "CONNE", "TRACE", "PRI *"}

// answerWithoutTLS returns the answer to a client that speaks HTTP without TLS, from the first bytes that it sent; nil for one that
// speaks something else.
func answerWithoutTLS(begins []byte) *handshake.Refusal {
	for _, method := range methods {
		if string(begins) == method {
			return &handshake.Refusal{Status: http.StatusBadRequest, Reason: "this port speaks TLS, and the client does not: use wss:// or https://"}
		}
	}
	if string(begins) == "PROXY" || bytes.HasPrefix(begins, []byte("\r\n\r\n")) {
		return &handshake.Refusal{
			Status: http.StatusBadRequest, Reason: "unexpected PROXY header",
			Logged: "unexpected PROXY header before TLS: proxy-protocol is off, trusted-proxies does not have this address, or it is the second header",
		}
	}
	return nil
}

// resultOf says why a handshake failed. Package crypto/tls has types for a few of its errors only, so that the texts of others decide.
func resultOf(err error) tlsResult {
	var alert tls.AlertError
	var remote *net.OpError
	var certificate *tls.CertificateVerificationError
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(err.Error(), part) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		return tlsNotTLS
	case errors.Is(err, os.ErrDeadlineExceeded):
		return tlsTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return tlsLeft
	case errors.As(err, &remote) && remote.Op == "remote error", errors.As(err, &alert):
		return tlsRefused
	case errors.As(err, &certificate), has("client didn't provide a certificate", "failed to parse client certificate", "invalid signature by the client certificate"):
		return tlsCertificate
	case has("unsupported versions", "protocol version"):
		return tlsVersion
	case has("no cipher suite", "unsupported application protocols", "no ECDHE", "signature algorithm", "incompatible point formats", "supported_groups", "key exchange", "uncompressed"):
		return tlsParameters
	}
	return tlsBroken
}

// certified returns what the log says of a client whose listener has verified its certificate, and whose service does not authenticate
// clients; nil without a certificate. It has no tenant, since nothing says which part of a certificate names one.
func certified(c *x509.Certificate) *identity.Identity {
	if c == nil {
		return nil
	}
	return &identity.Identity{Subject: holder(c), Method: identity.MethodCertificate}
}

// holder describes the holder of a certificate: its subject, or, if that is empty, its first name.
func holder(c *x509.Certificate) string {
	switch {
	case len(c.Subject.Names) > 0:
		return c.Subject.String()
	case len(c.DNSNames) > 0:
		return "DNS:" + c.DNSNames[0]
	case len(c.EmailAddresses) > 0:
		return "email:" + c.EmailAddresses[0]
	case len(c.URIs) > 0:
		return "URI:" + c.URIs[0].String()
	}
	return fmt.Sprintf("serial %x", c.SerialNumber)
}
