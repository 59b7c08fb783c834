// Package auth decides who a client is: it finds the credential in the client's upgrade request, and asks the methods of the client's
// service, one after the other. The methods have their own packages, such as auth/apikey. Package admission calls it, in the
// goroutine of the client's handshake, before the client joins the queue.
package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// Attempt is what one client gives to be authenticated by. It is static, and only used until its answer: a method must not keep it, or
// any part of it.
type Attempt struct {
	// Service is the name of the service that the client asks for.
	Service string
	// Credential is what the service's [Sources] found in the request, without the word Bearer or Token before it; empty for none.
	Credential string
	// Client is the client's address, as the log shows it; invalid if it is not known.
	Client netip.Addr
	// Certificate is that of the client's TLS connection, verified; nil for none.
	Certificate *x509.Certificate
	// Request is the client's upgrade request, for methods that pass it on. It holds secrets. It must not be changed.
	Request *http.Request
	// Waits is called by a method before it waits for others. An error, which is a [*Denied], means that too many clients wait already.
	// nil if it is not wanted.
	Waits func() error
	// Question is where an [Asker] that lets the client in puts what it needs to ask again; nil if it will not be asked to.
	Question *string
}

// Wait says that a method is about to wait for others. An error is the method's answer.
func (a *Attempt) Wait() error {
	if a.Waits == nil {
		return nil
	}
	return a.Waits()
}

// Method is one way to authenticate clients. Any goroutine may call it.
type Method interface {
	// Name returns one of the names of package identity, such as [identity.MethodKeys].
	Name() string
	// Authenticate returns who the client is. It may wait, but not longer than ctx, and calls [Attempt.Wait] before. The error is [ErrAbsent] if the client gives nothing
	// that this method could judge, so that the next method is asked; a [*Denied] if the client is turned away; any other error means
	// that the method does not work at present. The returned identity is immutable.
	Authenticate(ctx context.Context, a *Attempt) (*identity.Identity, error)
}

// Revoker is a method that can say later whether a client that it has authenticated may stay. Any goroutine may call it.
type Revoker interface {
	Method
	// Revoked returns when the identity expires by what is known now, zero for never. If it is no longer accepted, it returns the reason,
	// as the client gets it in its close frame.
	Revoked(service string, who *identity.Identity) (expires time.Time, reason string)
}

// Asker is a method that can ask later once more about a client that it has let in. Any goroutine may call it.
type Asker interface {
	Method
	// Turn returns how long to wait before the next question. Each call takes a turn, so that questions about many clients keep to a rate.
	Turn() time.Duration
	// Again asks about a client once more, with what the method has put into [Attempt.Question]. It may wait, but not longer than ctx. It
	// returns the reason, as the client gets it in its close frame, if the client is turned away now, and an empty text otherwise, also if
	// no server has answered.
	Again(ctx context.Context, question string) (reason string)
}

// ErrAbsent is a method's answer to a client that gives nothing which the method could judge.
var ErrAbsent = errors.New("no credential for this method")

// Denied is the answer to a client that is turned away. What it says is for the log: the client gets the same text whatever is wrong, so
// that it cannot find out which keys exist.
type Denied struct {
	// Status is the HTTP status: 401 if the client is not known, 403 if it is known and may not use the service, or what another server
	// answered. 0 is 401.
	Status int
	// Header has further fields for the client, such as Retry-After; nil for none. WWW-Authenticate replaces the proxy's own.
	Header http.Header
	// Err is the reason, for the log. It must not contain the credential.
	Err error
	// Missing means that the client gave no credential at all, which is no guess.
	Missing bool
	// Identity is who the client is, if that is known; nil otherwise. Only the log says it.
	Identity *identity.Identity
}

// Error returns the reason for the log.
func (d *Denied) Error() string { return d.Err.Error() }

// Unwrap returns the reason.
func (d *Denied) Unwrap() error { return d.Err }

// Code returns the HTTP status.
func (d *Denied) Code() int {
	if d.Status == 0 {
		return http.StatusUnauthorized
	}
	return d.Status
}

// Chain is a list of methods. It is immutable once it is in use.
type Chain []Method

// Reasons of a Chain.
var (
	errMissing = errors.New("the client gives no credential")
	errUnfit   = errors.New("no method of the service accepts a credential of this form")
)

// Authenticate asks the methods in their order, until one of them does not answer [ErrAbsent]. It returns the name of the method that has
// answered, empty if none has. If the error is a [*Denied], the client is turned away; any other error means that a method does not work.
func (c Chain) Authenticate(ctx context.Context, a *Attempt) (who *identity.Identity, method string, err error) {
	for _, m := range c {
		who, err := m.Authenticate(ctx, a)
		if !errors.Is(err, ErrAbsent) {
			return who, m.Name(), err
		}
	}
	if a.Credential == "" {
		return nil, "", &Denied{Err: errMissing, Missing: true}
	}
	return nil, "", &Denied{Err: errUnfit}
}

// Asker returns the method of that name if it can ask once more about clients that it has let in; nil otherwise.
func (c Chain) Asker(method string) Asker {
	for _, m := range c {
		if a, ok := m.(Asker); ok && m.Name() == method {
			return a
		}
	}
	return nil
}

// Revoked asks the method that has authenticated a client whether the client may stay, see [Revoker]. Other methods stand by what they have
// said, until the identity expires.
func (c Chain) Revoked(service string, who *identity.Identity, now time.Time) (expires time.Time, reason string) {
	for _, m := range c {
		if r, ok := m.(Revoker); ok && m.Name() == who.Method {
			return r.Revoked(service, who)
		}
	}
	if !who.Expires.IsZero() && !now.Before(who.Expires) {
		return time.Time{}, "the credential has expired"
	}
	return who.Expires, ""
}

// Policy is how the clients of one service are authenticated. It is immutable once it is in use.
type Policy struct {
	// Methods are asked in this order.
	Methods Chain
	// Former are methods that may have authenticated clients before the service took others. They only say which of these may not stay.
	Former Chain
	// Sources say where in a request credentials are.
	Sources Sources
	// Withheld are the sources that are not passed on to backends.
	Withheld Sources
	// Timeout is how long a client may wait for the methods, if that is longer than a handshake may take.
	Timeout time.Duration
	// EndUnauthorized ends sessions whose client may not stay: see [Policy.Revoked] and [Asker].
	EndUnauthorized bool
}

// Revoked is [Chain.Revoked] of the methods, or of the former ones for a client that one of these has authenticated.
func (p *Policy) Revoked(service string, who *identity.Identity, now time.Time) (expires time.Time, reason string) {
	if slices.ContainsFunc(p.Methods, func(m Method) bool { return m.Name() == who.Method }) {
		return p.Methods.Revoked(service, who, now)
	}
	return p.Former.Revoked(service, who, now)
}

// Result is what became of a client that was to be authenticated.
type Result uint8

// The results.
const (
	Accepted Result = iota
	Refused         // the client is turned away
	Failed          // a method does not work
	results  = iota
)

// String returns the result's name in metrics.
func (r Result) String() string { return [results]string{"accepted", "refused", "failed"}[r] }

// methodNames are the methods in the order in which they are counted. The last one stands for none that has answered.
var methodNames = [...]string{"keys", "jwt", "certificate", "external", "none"}

// Counters count the results of authentication. Any goroutine may use them.
type Counters struct {
	counts [len(methodNames)][results]atomic.Uint64
}

// Add counts a result of the method of that name; empty for none that has answered.
func (c *Counters) Add(method string, result Result) {
	last := len(methodNames) - 1
	for i, name := range methodNames[:last] {
		if name == method {
			c.counts[i][result].Add(1)
			return
		}
	}
	c.counts[last][result].Add(1)
}

// Count is how often one method had one result since the start.
type Count struct {
	Method string // "none" for clients about whom no method could say anything
	Result Result
	Count  uint64
}

// Counts returns all counts, also those that are 0. Where no method has answered, a client can only be refused.
func (c *Counters) Counts() []Count {
	all := make([]Count, 0, len(methodNames)*results)
	for i, name := range methodNames {
		for result := range Result(results) {
			if i < len(methodNames)-1 || result == Refused {
				all = append(all, Count{name, result, c.counts[i][result].Load()})
			}
		}
	}
	return all
}
