// Package external authenticates clients by asking an HTTP server about them, as auth_request of nginx does. The server gets the header of
// the client's upgrade request, and answers with a status: 2xx lets the client in, 401, 403 and 429 turn it away, and anything else, or no
// answer in time, is a failure of the server.
//
// A server that fails is not asked for a moment, so that it does not hold up clients who would hear the same a time-out later.
package external

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

const (
	// maxParallel is how many questions a server is asked at once. Others wait for their turn.
	maxParallel = 64
	// maxAnswer is how much is read of an answer's body, in bytes, so that its connection can be used again.
	maxAnswer = 16 << 10
)

// Options are the settings of a [Checker]. All of it is static.
type Options struct {
	// URL is where the server is asked.
	URL string
	// Timeout bounds a question. The wait for its turn, which says nothing about the server, is bounded by the context.
	Timeout time.Duration
	// Cache is how long an answer holds for the same question; 0 for this client only.
	Cache time.Duration
	// AskAnonymous asks about clients that give no credential, too. Otherwise they are turned away with 401: any client can send any number of them.
	AskAnonymous bool
	// Allow lets clients in when the server fails. Otherwise they get a 503.
	Allow bool
	// Log gets a line when the server begins to fail, and when it answers again.
	Log *slog.Logger
}

// Checker asks one server for one service. It is an [auth.Method], and may be used by any goroutine. Close frees its connections.
type Checker struct {
	o       Options      // static
	client  *http.Client // static
	turns   *turns       // static
	again   again        // static
	answers auth.Recent[*answer]
	circuit circuit
}

// New returns a checker.
func New(o Options) *Checker {
	return &Checker{
		o: o, turns: newTurns(), answers: auth.Recent[*answer]{Most: maxAnswers}, again: newAgain(), circuit: circuit{log: o.Log, allow: o.Allow},
		client: &http.Client{
			Transport: &http.Transport{
				MaxIdleConnsPerHost: maxParallel / 4, MaxConnsPerHost: maxParallel + againAtOnce, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 32 << 10,
				DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Options returns what the checker was made with.
func (c *Checker) Options() Options { return c.o }

// Close closes connections to the server that no question uses.
func (c *Checker) Close() { c.client.CloseIdleConnections() }

// Name implements [auth.Method].
func (c *Checker) Name() string { return identity.MethodExternal }

// Authenticate implements [auth.Method]. It has an answer for each client, also for one without a credential.
func (c *Checker) Authenticate(ctx context.Context, a *auth.Attempt) (*identity.Identity, error) {
	if givesNothing(a) && !c.o.AskAnonymous {
		return nil, &auth.Denied{Status: http.StatusUnauthorized, Err: errors.New("no credential"), Missing: true}
	}
	header, err := question(a)
	if err != nil {
		return nil, err
	}
	var key [sha256.Size]byte
	cacheable := c.o.Cache > 0 && a.Credential != "" // without a credential, anything else may decide
	if cacheable {
		key = keyOf(header)
		if known, ok := c.answers.Find(key, time.Now()); ok {
			keepQuestion(a, header)
			return known.result(a)
		}
	}
	keepQuestion(a, header)
	answer, err := c.ask(ctx, a, header)
	if err != nil {
		if c.o.Allow && ctx.Err() == nil && !errors.As(err, new(*badAnswer)) && !errors.As(err, new(*auth.Denied)) {
			return &identity.Identity{Method: identity.MethodExternal}, nil
		}
		return nil, err
	}
	if cacheable && answer.holds > 0 {
		c.remember(key, answer)
	}
	return answer.result(a)
}

// remember lets an answer hold for as long as it may, in place of the last one.
func (c *Checker) remember(key [sha256.Size]byte, answer *answer) {
	c.answers.Add(key, answer, time.Now().Add(min(c.o.Cache, answer.holds)))
}

// ask asks the server, unless it has just failed several times. An error means that the server fails.
func (c *Checker) ask(ctx context.Context, a *auth.Attempt, header http.Header) (*answer, error) {
	if err := a.Wait(); err != nil {
		return nil, err
	}
	network := auth.Network(a.Client)
	if !c.turns.take(ctx, network) {
		return nil, &auth.Denied{Status: http.StatusServiceUnavailable, Err: fmt.Errorf("%d questions are being asked, and no turn came in time", maxParallel)}
	}
	defer c.turns.give(network)
	return c.askNow(ctx, network, header)
}

// askNow asks the server without waiting for a turn. The network is that of a client which only arrives; invalid for another.
func (c *Checker) askNow(ctx context.Context, network netip.Addr, header http.Header) (*answer, error) {
	if err := c.circuit.enter(time.Now()); err != nil {
		return nil, err
	}
	result, counts := errUnfinished, false
	defer func() { c.circuit.leave(network, result, counts, time.Now()) }() // also after a panic, or the server would never be asked again
	within, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	answer, err := c.request(within, header)
	result, counts = err, ctx.Err() == nil && !errors.As(err, new(*badAnswer))
	return answer, err
}

// errUnfinished is the result of a question that was not asked.
var errUnfinished = errors.New("the question was not asked")

// badAnswer is the error for an answer that means nothing here. The client's request may have provoked it, so it neither lets the client in
// nor counts as a failure of the server.
type badAnswer struct{ text string }

func (e *badAnswer) Error() string {
	return "the authentication server's answer cannot be used: " + e.text
}

// isProvoked reports whether the client's request may have provoked a failure: the server has read it, and ends it with a status of its own, or the
// connection.
func isProvoked(err error) bool {
	return errors.As(err, new(*failedAnswer)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// failedAnswer is the error for an answer that says that the server fails.
type failedAnswer struct{ status int }

func (e *failedAnswer) Error() string {
	return fmt.Sprintf("it answers %d %s", e.status, http.StatusText(e.status))
}

// unquoted returns a [badAnswer] if the answer is malformed or too long. Package http quotes such an answer, and what the server repeats in it may
// be a secret of the client. Other errors, which say that the server cannot be reached, it returns as they are.
func unquoted(err error) error {
	text, _, quotes := strings.Cut(err.Error(), `"`)
	if errors.As(err, new(net.Error)) || errors.As(err, new(*tls.CertificateVerificationError)) || !quotes && !strings.Contains(text, "headers exceeded") {
		return err
	}
	return &badAnswer{strings.TrimRight(text, ": ")}
}

// request asks the server.
func (c *Checker) request(ctx context.Context, header http.Header) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.o.URL, nil)
	if err != nil {
		return nil, errors.New("invalid auth-url")
	}
	request.Header = header
	response, err := c.client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // its text has the URL's query
			err = failed.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", c.o.Timeout)
		}
		return nil, unquoted(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
	return read(response)
}
