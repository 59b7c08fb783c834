package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
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

func (r tlsResult) String() string { return tlsResultNames[r] }

// tlsFailure is a TLS handshake that failed. There is no answer: TLS has told the client what it could.
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

// tlsTurns are the turns of TLS handshakes: one element for each that computes. A full handshake takes up to some milliseconds of a
// processor, so that a flood of them would take all processors from the running sessions. Those that wait for a turn wait in order.
// Waiting for the client takes no turn.
type tlsTurns chan struct{}

// newTLSTurns returns the turns for the processors that the process may use: half of them are left to the sessions.
func newTLSTurns() tlsTurns { return make(tlsTurns, max(1, loop.Processors()/2)) }

// handshake carries out the server's side of a TLS handshake over nc, which began with early. The connection's deadline bounds it.
func (t tlsTurns) handshake(nc net.Conn, early []byte, config *tls.Config, o *opening) (*tls.Conn, error) {
	turn := &tlsTurn{Conn: nc, turns: t, opening: o}
	defer turn.pass()
	conn := secure.Server(turn, config, early)
	var err error
	if len(early) > 0 {
		err = turn.take()
	}
	if err == nil {
		err = conn.Handshake()
	}
	conn.NetConn().(*secure.Line).Conn = nc // nothing reads or writes it now
	o.work(false)                           // the client's request comes next
	return conn, err
}

// tlsTurn is the connection of a client during its TLS handshake. It has a turn between two calls of Read or Write, each of which may have to
// wait for the client. The goroutine of the handshake owns it.
type tlsTurn struct {
	net.Conn
	turns   tlsTurns
	opening *opening
	has     bool
}

// Read implements [net.Conn].
func (t *tlsTurn) Read(b []byte) (int, error) { return t.exchange(t.Conn.Read, b) }

// Write implements [net.Conn].
func (t *tlsTurn) Write(b []byte) (int, error) { return t.exchange(t.Conn.Write, b) }

func (t *tlsTurn) exchange(call func([]byte) (int, error), b []byte) (int, error) {
	t.pass()
	t.opening.work(false)
	n, err := call(b)
	if err == nil {
		err = t.take()
	}
	return n, err
}

// take waits for a turn, which is the proxy's work and not the client's. It returns an error if the handshake was dropped.
func (t *tlsTurn) take() error {
	if !t.opening.work(true) {
		return net.ErrClosed
	}
	t.turns <- struct{}{}
	t.has = true
	return nil
}

func (t *tlsTurn) pass() {
	if t.has {
		t.has = false
		<-t.turns
	}
}

// tlsVersions are the versions that are counted: those that a listener may allow, and none for handshakes that failed before the version was
// agreed on.
var tlsVersions = [...]uint16{0, tls.VersionTLS12, tls.VersionTLS13}

// tlsVersionName returns a version as metrics have it.
func tlsVersionName(version uint16) string {
	if version == 0 {
		return "none"
	}
	return strings.TrimPrefix(tls.VersionName(version), "TLS ")
}

// TLSHandshakes is how many TLS handshakes of clients had a result.
type TLSHandshakes struct {
	Result  string // see tlsResultNames
	Version string // 1.2 or 1.3; none if it failed before the version was agreed on
	Count   uint64
}

// tlsHandshakes counts TLS handshakes of clients, and logs those that fail: of each result a few at once, and a few a second after that. It
// may be used from any goroutine.
type tlsHandshakes struct {
	out     *slog.Logger // static
	results [tlsResults][len(tlsVersions)]atomic.Uint64
	lines   lineLimiter[tlsResult]
}

func (h *tlsHandshakes) init(log *slog.Logger) {
	h.out = log
	h.lines.report = func(count uint64, by []string) {
		log.Info("failed TLS handshakes left out of the log", "count", count, "by_result", strings.Join(by, ", "))
	}
}

// count counts a handshake.
func (h *tlsHandshakes) count(result tlsResult, version uint16) {
	h.results[result][max(0, slices.Index(tlsVersions[:], version))].Add(1)
}

// counts returns the counts that are not 0.
func (h *tlsHandshakes) counts() (all []TLSHandshakes) {
	for result := range h.results {
		for i := range h.results[result] {
			if n := h.results[result][i].Load(); n > 0 {
				all = append(all, TLSHandshakes{tlsResultNames[result], tlsVersionName(tlsVersions[i]), n})
			}
		}
	}
	return all
}

// failed writes a line about a handshake that failed, unless there were too many. Clients that leave, as load balancers do that only see
// whether the port is open, are worth a line to those only who want to see each step.
func (h *tlsHandshakes) failed(f *tlsFailure, a *arrival) {
	level := slog.LevelInfo
	if f.result == tlsLeft {
		level = slog.LevelDebug
	}
	now := time.Now()
	if !h.out.Enabled(context.Background(), level) || level == slog.LevelInfo && !h.lines.allow(f.result, now) {
		return
	}
	attrs := record.AppendTexts([]slog.Attr{slog.String("client", a.Address.String())}, "peer", a.Peer.Text())
	h.out.LogAttrs(context.Background(), level, "TLS handshake failed", append(attrs,
		slog.String("result", tlsResultNames[f.result]), slog.String("reason", printable.Text(f.Error(), record.MaxReason)), slog.Duration("after", now.Sub(a.Arrived)))...)
}
