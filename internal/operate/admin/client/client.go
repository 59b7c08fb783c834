// Package client talks to the admin API of a running proxy: addresses, the token, requests and their errors, and streams. Commands,
// [internal/config/remote] and [internal/operate/top] use it, so that there is one way to reach a proxy and one way to say why that failed.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Timeout is how long a request waits for its answer, unless it says otherwise.
const Timeout = 30 * time.Second

// maxAnswer limits the size of an answer in bytes. A configuration of 5,000 backends takes about 1 MiB, and a list of 10,000 sessions 5.
const maxAnswer = 64 << 20

// Client talks to one proxy. Its methods may be called from any goroutine.
type Client struct {
	// static
	address   string
	target    target
	token     string
	header    http.Header
	maxAnswer int64
	fleet     atomic.Bool // ask for the whole fleet; false from when on a proxy did not understand that
	transport *http.Transport
	http      *http.Client
}

// Options are the settings of a client.
type Options struct {
	// Token is sent with every request, if there is one.
	Token string
	// Authorities may have signed the certificate of a proxy at https://; nil for those of the system.
	Authorities *x509.CertPool
	// ServerName is what that certificate must be for; empty for the address's host.
	ServerName string
	// Header is sent with every request, beside what each needs; nil for no more. It must not change.
	Header http.Header
	// Fleet asks for the whole fleet wherever a proxy can answer for it (see [api.FleetWide]).
	Fleet bool
	// OwnUser connects to a unix socket only if a process of this one's user, or of root, listens there.
	OwnUser bool
	// MaxAnswer limits the size of an answer in bytes; 0 for a limit that no answer of a proxy reaches.
	MaxAnswer int64
}

// New returns a client for the admin API at an address: host:port, http://host:port, https://host:port or unix:/path/of/socket. It sends
// the token with every request, unless it is empty. It does not connect yet.
func New(address, token string) (*Client, error) { return Open(address, Options{Token: token}) }

// Open is New with options.
func Open(address string, o Options) (*Client, error) {
	t, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	c := &Client{
		address: address, target: t, token: o.Token, header: o.Header, maxAnswer: cmp.Or(o.MaxAnswer, maxAnswer), transport: t.transport(o.OwnUser),
	}
	c.fleet.Store(o.Fleet)
	c.transport.TLSClientConfig = &tls.Config{RootCAs: o.Authorities, ServerName: o.ServerName, MinVersion: tls.VersionTLS12}
	c.http = &http.Client{
		Transport: c.transport,
		// The API never redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Address returns the address that New was called with.
func (c *Client) Address() string { return c.address }

// Local returns a client that shares the connections of this one, and asks its proxy only, never the whole fleet.
func (c *Client) Local() *Client {
	return &Client{address: c.address, target: c.target, token: c.token, header: c.header, maxAnswer: c.maxAnswer, transport: c.transport, http: c.http}
}

// Close closes connections that no request uses.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Request is one request.
type Request struct {
	Method  string // empty for GET
	Path    string
	Query   url.Values
	Body    any           // sent as JSON; nil for none
	Timeout time.Duration // how long to wait for the answer; 0 for [Timeout]
	Upgrade string        // the protocol that the connection is to speak, for [Client.Upgrade]
	// Authorize completes the request with what proves who sends it, instead of the token; nil for the token. It gets the body as it is sent.
	Authorize func(r *http.Request, body []byte)
	// Take is called with the size of each part of the answer as it is read, in bytes. Its error ends the request, and Do returns it. Nil for no limit but MaxAnswer.
	Take func(n int) error
}

// Get reads a part of the API and decodes its JSON answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, to any) error {
	return c.Do(ctx, Request{Path: path, Query: query}, to)
}

// Do sends a request and decodes the JSON answer into to, unless that is nil. It returns an [*UnreachableError] if nothing answers, an
// [*Error] for what the proxy refuses, and the context's error once that is cancelled.
func (c *Client) Do(ctx context.Context, r Request, to any) error {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	whole := c.fleet.Load() && api.FleetWide(cmp.Or(r.Method, http.MethodGet), r.Path)
	if whole {
		r.Query = maps.Clone(r.Query)
		if r.Query == nil {
			r.Query = make(url.Values)
		}
		r.Query.Set(api.FleetParameter, "true")
	}
	response, err := c.send(ctx, r, "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := c.read(ctx, response, r.Take)
	switch {
	case err != nil:
		return err
	case whole && isOlder(response, answer):
		c.fleet.Store(false)
		r.Query.Del(api.FleetParameter)
		return c.Do(ctx, r, to)
	case response.StatusCode/100 != 2:
		return c.refused(response, answer)
	case to == nil:
		return nil
	}
	if raw, ok := to.(*json.RawMessage); ok && json.Valid(answer) { // without a copy
		*raw = answer
		return nil
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("cannot read the answer of the proxy at %s to %s %s: %w", c.address, response.Request.Method, r.Path, err)
	}
	return nil
}

// Upgrade sends a request for another protocol. It returns the answer, which has no body: with the connection, of which nothing behind the answer
// was read, or without one if it is a redirection. The context bounds it. The errors are those of Do.
func (c *Client) Upgrade(ctx context.Context, r Request) (*http.Response, net.Conn, error) {
	var conn net.Conn
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn }}
	response, err := c.send(httptrace.WithClientTrace(ctx, trace), r, "application/json")
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response, conn, nil
	}
	defer response.Body.Close()
	answer, err := c.read(ctx, response, r.Take)
	if err == nil && response.StatusCode/100 != 3 {
		err = c.refused(response, answer)
	}
	return response, nil, err
}

// isOlder reports whether a proxy knows no fleet yet. It has done nothing then.
func isOlder(response *http.Response, answer []byte) bool {
	var sent api.Failure
	return response.StatusCode == http.StatusBadRequest && json.Unmarshal(answer, &sent) == nil &&
		strings.HasPrefix(sent.Error.Text, fmt.Sprintf("unknown parameter %q", api.FleetParameter))
}

// send sends a request and returns the answer, whose body the caller closes.
func (c *Client) send(ctx context.Context, r Request, accept string) (*http.Response, error) {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	var (
		body io.Reader = http.NoBody
		text []byte
		err  error
	)
	if r.Body != nil {
		if text, err = json.Marshal(r.Body); err != nil {
			return nil, fmt.Errorf("encoding the request %s %s: %w", r.Method, r.Path, err)
		}
		body = bytes.NewReader(text)
	}
	target := c.target.base + r.Path
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, target, body)
	if err != nil {
		return nil, fmt.Errorf("the proxy at %s: %w", c.address, err)
	}
	maps.Copy(request.Header, c.header)
	request.Header.Set("Accept", accept)
	if r.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.Upgrade != "" {
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", r.Upgrade)
	}
	request.Header.Set(api.ChangeHeader, "1") // with GET, too: a tap needs it
	switch {
	case r.Authorize != nil:
		r.Authorize(request, text)
	case c.token != "":
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	return response, nil
}

// read reads an answer as a whole. take may be nil.
func (c *Client) read(ctx context.Context, response *http.Response, take func(n int) error) ([]byte, error) {
	body := counted{Reader: io.LimitReader(response.Body, c.maxAnswer+1), take: take}
	answer, err := io.ReadAll(&body)
	switch {
	case body.refused != nil:
		return nil, body.refused
	case err != nil:
		return nil, c.unanswered(ctx, err)
	case int64(len(answer)) > c.maxAnswer:
		return nil, fmt.Errorf("the proxy at %s answered with more than %d bytes", c.address, c.maxAnswer)
	}
	return answer, nil
}

// counted reports to take what is read. take may be nil.
type counted struct {
	io.Reader
	take    func(n int) error
	refused error // by take
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if n > 0 && c.take != nil {
		if c.refused = c.take(n); c.refused != nil {
			return 0, c.refused
		}
	}
	return n, err
}

// UnreachableError says that no admin API answered, or that it went away in the middle of its answer.
type UnreachableError struct {
	Address string
	Reason  error
}

// Error names the address and the reason.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no proxy answers at %s: %v", e.Address, e.Reason)
}

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.Reason }

// Error is an error that the proxy answered with.
type Error struct {
	Address string
	Status  int
	Kind    string // one of the kinds in package api, or of internal/config/remote
	Text    string
	Nearest string // the known name that is most like an unknown one; may be empty
	Body    []byte // the answer as it came
	// Challenge is what the proxy wants a proof to answer (WWW-Authenticate); empty for nothing.
	Challenge string
}

// Error returns the proxy's text. It names the proxy where that refuses the caller, since another token or address may help.
func (e *Error) Error() string {
	if e.Kind == api.KindRefused {
		return fmt.Sprintf("the proxy at %s refused: %s", e.Address, e.Text)
	}
	return e.Text
}

// unanswered returns the error of a request that got no whole answer.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		err = cause
	}
	return &UnreachableError{c.address, reason(err)}
}

// refused returns the error that an answer describes.
func (c *Client) refused(response *http.Response, answer []byte) error {
	if bytes.Contains(answer, []byte("HTTP request to an HTTPS server")) { // package net/http answers so
		return fmt.Errorf("the proxy at %s speaks TLS: use https:// for its address", c.address)
	}
	var sent api.Failure
	if err := json.Unmarshal(answer, &sent); err != nil || sent.Error.Text == "" {
		return fmt.Errorf("%s answered %q to %s %s: is it the admin API of wsbouncer, in a version that has this?",
			c.address, response.Status, response.Request.Method, response.Request.URL.Path)
	}
	return &Error{c.address, response.StatusCode, sent.Error.Kind, sent.Error.Text, sent.Error.Nearest, answer, response.Header.Get("WWW-Authenticate")}
}
