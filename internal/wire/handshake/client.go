package handshake

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Target is a WebSocket server to connect to. ParseTarget returns one. It must not be changed while it is in use; then any goroutine
// may dial it.
type Target struct {
	// URL is the server's address as it may be shown.
	URL string
	// Protocol is the subprotocol to ask for; empty for none.
	Protocol string
	// Lookalike tells people, behind the error, what a server may be that does not choose Protocol; empty for nothing.
	Lookalike string
	// UserTimeout ends a connection whose server has not acknowledged data for this long (TCP_USER_TIMEOUT, RFC 5482), if the system
	// supports that; 0 for the system's own limit.
	UserTimeout time.Duration
	// From dials the server from chosen local addresses; nil for the system's choice.
	From *dialfrom.Dialer
	// Log gets a line when dials begin to use what was read before because a file is bad, and one when that ends; nil for none.
	Log *slog.Logger

	// Header is additional fields of the upgrade request. Names and values must be valid in HTTP.
	Header []Field
	// Resolve returns more fields, which replace those of Header with the same names; nil for none. It is called for each dial, so
	// that a secret can be read from, and replaced in, the place where it is kept. If Resolve returns an error, the dial uses what it
	// returned before, and fails if there is nothing. It also fails if Resolve returns a field that the handshake sets itself.
	Resolve func() (http.Header, error)
	// ResolveQuery returns the query of the URL with the secrets that it refers to; nil for the query as it is. It is called for each dial,
	// and never with what a client has said. Its errors are treated as those of Resolve.
	ResolveQuery func(query string) (string, error)

	given   string         // the URL as it was given
	tls     *secure.Source // nil for ws
	kept    kept           // shared by copies, unless SetTLS or TakeOver is called
	address string         // host:port
	ip      netip.Addr     // what to connect to instead of looking the host up; the zero value for looking it up
	host    string         // for the Host header
	request string         // path and query
	// clientQuery is what clients have said in their queries: it is never resolved.
	clientQuery string
	query       string      // added to the query for all connections, encoded; empty for nothing
	client      *ClientPart // nil for a connection that is not dialed for a certain client
}

// kept is what dials have read.
type kept struct {
	header *lastGood[http.Header] // of Resolve
	query  *lastGood[string]      // of ResolveQuery
	tls    *lastGood[*tls.Config] // nil for ws
}

// ParseTarget parses the URL of a WebSocket server: ws://host[:port][/path][?query], or wss for a server that is reached over TLS. The
// certificate of such a server is verified against the system's authorities, unless SetTLS changes that.
func ParseTarget(text string) (*Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		if !strings.Contains(text, "://") { // package url would complain about something else
			return nil, noScheme(text)
		}
		if strings.Contains(text, "@") { // what package url says may repeat a password
			err = errors.New("it cannot be parsed")
		}
		return nil, fmt.Errorf("invalid URL %q: %w", secret.URL(text), err)
	}
	switch {
	case u.Scheme == "" || u.Opaque != "":
		return nil, noScheme(text)
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, fmt.Errorf("invalid URL %q: the scheme must be ws or wss", secret.URL(text))
	case u.Hostname() == "":
		return nil, fmt.Errorf("invalid URL %q: the host is missing", secret.URL(text))
	case u.User != nil:
		return nil, fmt.Errorf("invalid URL %q: a WebSocket URL cannot have a user name", secret.URL(text))
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, fmt.Errorf("invalid URL %q: a WebSocket URL cannot have a fragment (#)", secret.URL(text))
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("invalid URL %q: the port must be a number from 1 to 65535", secret.URL(text))
	}
	// Package url accepts these characters, but they would break the request.
	other := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case strings.ContainsFunc(u.Host, other):
		return nil, fmt.Errorf("invalid URL %q: the host name must be in ASCII (xn--...)", secret.URL(text))
	case strings.ContainsFunc(u.RequestURI(), other):
		return nil, fmt.Errorf("invalid URL %q: characters of the query that are not printable ASCII must be percent-encoded (%%xx)", secret.URL(text))
	}
	target := &Target{
		URL:     secret.URL(text),
		given:   text,
		kept:    kept{header: new(lastGood[http.Header]), query: new(lastGood[string])},
		address: net.JoinHostPort(u.Hostname(), port),
		host:    u.Host,
		request: u.RequestURI(),
	}
	if u.Scheme == "wss" {
		target.SetTLS(secure.Settings{})
	}
	return target, nil
}

// defaultPorts are the default ports of the schemes (RFC 6455, section 3).
var defaultPorts = map[string]string{"ws": "80", "wss": "443"}

func noScheme(text string) error {
	return fmt.Errorf("invalid URL %q: the scheme is missing: use a URL such as ws://127.0.0.1:9001/path", secret.URL(text))
}

// Field is a field of an HTTP header.
type Field struct{ Name, Value string }

// append appends the field in its wire form to dst.
func (f Field) append(dst []byte) []byte {
	return append(append(append(append(dst, f.Name...), ": "...), f.Value...), "\r\n"...)
}

// ClientPart is the part of a client's handshake that is passed on to the server.
type ClientPart struct {
	// Path is appended to the target's path, percent-encoded and with a leading slash; empty for nothing.
	Path string
	// Query is appended to the target's query, encoded and without the question mark; empty for nothing.
	Query string
	// Header is additional fields.
	Header []Field
	// Offers are the subprotocols to offer instead of the target's, of which the server may choose one or none; nil for the target's.
	Offers []string
	// Private: this part may contain secrets, so that no error may quote what the server answers.
	Private bool
}

// With returns a copy of the target with what a client has said.
func (t *Target) With(c ClientPart) *Target {
	with := *t
	with.Header = append(slices.Clip(t.Header), c.Header...)
	if c.Path != "" {
		path, query, has := strings.Cut(t.request, "?")
		// A target that begins with two slashes could be taken for a host.
		with.request = "/" + strings.TrimLeft(strings.TrimRight(path, "/")+c.Path, "/")
		if has {
			with.request += "?" + query
		}
	}
	with.clientQuery = joinQuery(t.clientQuery, c.Query)
	with.client = &c
	return &with
}

// AddQuery adds parameters, encoded, to the query of all requests. It must be called before the target is in use. Server does not show them.
func (t *Target) AddQuery(query string) { t.query = query }

// requestTarget returns what follows the request's method, and notes the secrets in it. What a client has said is none of them.
func (t *Target) requestTarget(sent *secret.Sent) (string, error) {
	path, configured, _ := strings.Cut(t.request, "?")
	query := configured
	if t.ResolveQuery != nil {
		var err error
		query, err = t.ResolveQuery(query)
		if query, err = t.kept.query.or(t.Log, query, err); err != nil {
			return "", fmt.Errorf("URL: %w", err)
		}
	}
	sent.AddQuery(configured, query)
	sent.AddQuery(t.query, t.query)
	for _, more := range []string{t.clientQuery, t.query} {
		query = joinQuery(query, more)
	}
	if query == "" {
		return path, nil
	}
	return path + "?" + query, nil
}

// joinQuery returns a query with more parameters.
func joinQuery(query, more string) string {
	if query == "" || more == "" {
		return query + more
	}
	return query + "&" + more
}

// At returns a copy of the target that connects to this address instead of looking the URL's host up. The Host header, and the name that
// the server's certificate must have, stay those of the URL.
func (t *Target) At(address netip.AddrPort) *Target {
	at := *t
	host, _, _ := net.SplitHostPort(t.address)
	at.address, at.ip = net.JoinHostPort(host, strconv.Itoa(int(address.Port()))), address.Addr()
	return &at
}

// Address returns the server's host as in the URL, and the port that Dial connects to.
func (t *Target) Address() string { return t.address }

// Path returns the path of the server's URL, as it is sent.
func (t *Target) Path() string {
	path, _, _ := strings.Cut(t.request, "?")
	return path
}

// Endpoint returns what to connect to for a host:port: the address that At was given if it is that of this target's host, and otherwise
// the same. Any goroutine may call it.
func (t *Target) Endpoint(address string) string {
	host, port, err := net.SplitHostPort(address)
	if own, _, _ := net.SplitHostPort(t.address); err != nil || !t.ip.IsValid() || !strings.EqualFold(host, own) {
		return address
	}
	return net.JoinHostPort(t.ip.String(), port)
}

// Server returns what distinguishes the server from all others, also in other processes: its URL, with the address that At was given. It may
// have secrets in it, and is not to be shown.
func (t *Target) Server() string {
	if !t.ip.IsValid() {
		return t.given
	}
	scheme, _, _ := strings.Cut(t.given, "://")
	return scheme + "://" + t.Endpoint(t.address) + t.request
}

// Established is an open WebSocket connection.
type Established struct {
	Conn     net.Conn
	Early    []byte      // what the server has sent after its answer
	Protocol string      // the subprotocol that the server chose; empty for none
	Server   string      // what the server says of itself (the header Server); empty for nothing
	Sent     secret.Sent // what the server got, and may repeat, that must stay secret
}

// ErrNotOffered means that the server chose a subprotocol that is not among those of [ClientPart.Offers], or, in answer to one client's own values,
// an extension or a subprotocol that it was not offered.
var ErrNotOffered = errors.New("server chose a subprotocol or an extension that its client did not offer")

// UpgradeError is why a server that could be reached did not upgrade the connection.
type UpgradeError struct{ error }

// Unwrap returns the reason.
func (e UpgradeError) Unwrap() error { return e.error }

// Dial connects to the server and completes the opening handshake (RFC 6455, section 4.1). It fails if ctx ends before that. If the
// upgrade request got no good answer, the error is an [UpgradeError], and also a [*StatusError] if the answer's status was not 101.
func (t *Target) Dial(ctx context.Context) (Established, error) {
	var dialer net.Dialer
	if t.UserTimeout > 0 {
		dialer.KeepAliveConfig = KeepAlive(t.UserTimeout) // otherwise one lost probe may end a connection that is at rest
		dialer.Control = func(_, _ string, c syscall.RawConn) error { return SetUserTimeout(c, t.UserTimeout) }
	}
	var sent secret.Sent
	header, err := t.header(&sent)
	if err != nil {
		return Established{}, err
	}
	request, err := t.requestTarget(&sent)
	if err != nil {
		return Established{}, err
	}
	config, err := t.TLS()
	if err != nil {
		return Established{}, err
	}
	raw, err := t.From.Dial(ctx, dialer, t.Endpoint(t.address))
	if err != nil {
		return Established{}, err
	}
	nc := raw
	if config != nil {
		if nc, err = t.secure(ctx, raw, config); err != nil {
			_ = raw.Close()
			return Established{}, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	established, err := t.upgrade(nc, request, header, sent)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
			err = fmt.Errorf("no answer to the upgrade request: %w", context.Cause(ctx))
		}
		return Established{}, UpgradeError{err}
	}
	return established, nil
}

// offers returns the subprotocols to offer to the server.
func (t *Target) offers() []string {
	switch {
	case t.client != nil && len(t.client.Offers) > 0:
		return t.client.Offers
	case t.Protocol != "":
		return []string{t.Protocol}
	}
	return nil
}

// private reports whether the handshake may contain a client's secrets.
func (t *Target) private() bool { return t.client != nil && t.client.Private }

// maxInterim is how many interim responses (RFC 9110, section 15.2) may stand before the answer.
const maxInterim = 5

// upgrade sends the upgrade request and checks the answer. Nothing that it returns repeats the secrets that were sent.
func (t *Target) upgrade(nc net.Conn, target, header string, sent secret.Sent) (established Established, err error) {
	defer func() { err = sent.Error(err) }()
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	key := base64.StdEncoding.EncodeToString(nonce[:])
	request := "GET " + target + " HTTP/1.1\r\nHost: " + t.host +
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n"
	offers := t.offers()
	if len(offers) > 0 {
		request += "Sec-WebSocket-Protocol: " + strings.Join(offers, ", ") + "\r\n"
	}
	if _, err := nc.Write([]byte(request + header + "\r\n")); err != nil {
		return Established{}, err
	}
	established = Established{Conn: nc}
	var response *http.Response
	parse := func(head []byte) (err error) {
		if !bytes.HasPrefix(head, []byte("HTTP/1.")) {
			return errors.New("server did not answer with HTTP/1.1")
		}
		reader := bufio.NewReaderSize(bytes.NewReader(head), len(head))
		response, err = http.ReadResponse(reader, nil)
		if err == nil {
			err = wholeHead(reader)
		}
		switch {
		case err != nil && t.private():
			return errors.New("server's answer is malformed: " + unquoted(err))
		case err != nil:
			return fmt.Errorf("server's answer is malformed: %w", err)
		}
		return nil
	}
	var early []byte
	for range maxInterim + 1 {
		behind := bytes.NewReader(early) // an interim response
		if early, err = readHead(io.MultiReader(behind, nc), DefaultMaxHead, parse); err != nil {
			return Established{}, fmt.Errorf("reading the answer to the upgrade request: %w", err)
		}
		unread, _ := io.ReadAll(behind) // never fails
		early = append(early, unread...)
		if response.StatusCode == http.StatusSwitchingProtocols || response.StatusCode >= http.StatusOK {
			break
		}
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		status := newStatusError(response, early, nc, sent)
		status.private = t.private()
		return Established{}, status
	}
	answer := response.Header
	chosen := strings.Join(answer["Sec-Websocket-Protocol"], ", ")
	switch {
	case !hasToken(answer["Upgrade"], "websocket"), !hasToken(answer["Connection"], "upgrade"):
		return Established{}, errors.New("server answered 101 without upgrading to websocket")
	case answer.Get("Sec-WebSocket-Accept") != acceptKey(key):
		return Established{}, errors.New("server's Sec-WebSocket-Accept does not match the key")
	case len(answer["Sec-Websocket-Extensions"]) > 0 && t.private():
		return Established{}, ErrNotOffered
	case len(answer["Sec-Websocket-Extensions"]) > 0:
		return Established{}, fmt.Errorf("server accepted an extension that was not offered: %q", answer.Get("Sec-WebSocket-Extensions"))
	case t.client != nil && len(t.client.Offers) > 0:
		if chosen != "" && !slices.Contains(offers, chosen) { // it is not quoted: it may be a secret
			return Established{}, ErrNotOffered
		}
	case chosen != t.Protocol:
		err := fmt.Errorf("server chose the subprotocol %q instead of %q", chosen, t.Protocol)
		if t.private() && chosen != "" {
			err = ErrNotOffered
		}
		if t.Lookalike != "" {
			err = fmt.Errorf("%w: %s", err, t.Lookalike)
		}
		return Established{}, err
	}
	established.Protocol, established.Early, established.Server = chosen, early, sent.Mask(answer.Get("Server"), false)
	established.Sent = sent
	return established, nil
}

// ownFields are the fields of an upgrade request that the handshake sets itself, or that would change where the request ends. Fields
// that begin with Sec-Websocket- belong to them, too.
var ownFields = []string{"Host", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding"}

// header returns the additional fields of the upgrade request in their wire form, and notes the secrets among them.
func (t *Target) header(sent *secret.Sent) (string, error) {
	var resolved http.Header
	if t.Resolve != nil {
		header, err := t.Resolve()
		if header, err = t.kept.header.or(t.Log, header, err); err != nil {
			return "", fmt.Errorf("header: %w", err)
		}
		resolved = make(http.Header, len(header))
		for name, values := range header {
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			if slices.Contains(ownFields, canonical) || strings.HasPrefix(canonical, "Sec-Websocket-") {
				return "", fmt.Errorf("header: the proxy sets %s itself", name)
			}
			resolved[canonical] = append(resolved[canonical], values...)
		}
	}
	var text strings.Builder
	for _, field := range t.Header {
		if _, replaced := resolved[textproto.CanonicalMIMEHeaderKey(field.Name)]; !replaced {
			fmt.Fprintf(&text, "%s: %s\r\n", field.Name, field.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resolved)) {
		for _, value := range resolved[name] {
			// Names and values that are invalid in HTTP could become other fields. The value is not shown: it may be a secret.
			if !IsToken(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return "", fmt.Errorf("header: %q or its value has characters that HTTP does not allow", name)
			}
			fmt.Fprintf(&text, "%s: %s\r\n", name, value)
			sent.AddHeader(value)
		}
	}
	return text.String(), nil
}

// IsToken reports whether a text is a token of HTTP (RFC 9110, section 5.6.2): a field's name, a subprotocol.
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// Secure reports whether the server is reached over TLS (wss).
func (t *Target) Secure() bool { return t.tls != nil }

// HTTP returns the scheme of HTTP URLs of the same server: https if it is reached over TLS, otherwise http.
func (t *Target) HTTP() string {
	if t.Secure() {
		return "https"
	}
	return "http"
}

// SetTLS sets how a server is reached over TLS. The target must be Secure. The server's certificate must be for the host in its URL,
// unless the settings name another. Files are read for each dial.
func (t *Target) SetTLS(s secure.Settings) {
	if s.ServerName == "" {
		s.ServerName, _, _ = net.SplitHostPort(t.address)
	}
	t.tls, t.kept.tls = secure.NewSource(s), new(lastGood[*tls.Config])
}

// TakeOver lets the target use what dials of another one have read, as far as both read the same: otherwise a change of something else would fail
// while a file is bad. sameHeader tells that both resolve the same header. It must be called after SetTLS, and before the target is in use.
func (t *Target) TakeOver(before *Target, sameHeader bool) {
	if sameHeader {
		t.kept.header = before.kept.header
	}
	_, query, _ := strings.Cut(t.request, "?")
	if _, former, _ := strings.Cut(before.request, "?"); query == former {
		t.kept.query = before.kept.query
	}
	if t.tls != nil && before.tls != nil && t.tls.Settings() == before.tls.Settings() {
		t.tls, t.kept.tls = before.tls, before.kept.tls
	}
}

// TLS returns the configuration for a new connection; nil for a server that is reached without TLS. The caller must not change it. While a file
// is bad, it is what was read before. If there is none, the error names the field, the file and the reason.
func (t *Target) TLS() (*tls.Config, error) {
	if t.tls == nil {
		return nil, nil
	}
	config, err := t.tls.Config()
	return t.kept.tls.or(t.Log, config, err)
}

// secure carries out the TLS handshake.
func (t *Target) secure(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	nc, err := secure.Client(ctx, raw, config)
	if err == nil {
		return nc, nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("no answer to the TLS handshake: %w", context.Cause(ctx))
	}
	return nil, err
}
