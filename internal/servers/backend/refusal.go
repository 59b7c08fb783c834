package backend

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A server may answer an upgrade request with another HTTP status than 101. What that means depends on what the request said:
//
//   - The request bore values of a client (its key, its parameters): 4xx, and most of 5xx, is the answer to that client. It is
//     passed on to the client, says nothing about the server's health, and is not tried again. 502 to 504 are about the server. If no other
//     client has these values, what neither accepts nor refuses it (a redirect, a page, a subprotocol that it does not offer) is its answer, too.
//   - The request bore none, although the clients of the service have their own values: 4xx says that the server works, and
//     that connections cannot be dialed before their clients arrive. Clients without values that wait get the answer.
//   - Otherwise it is a failure of the server, or of its configuration.

// errFull is a working server's answer when it accepts no more connections. Dialing errors wrap it.
var errFull = errors.New("the server is full")

// ErrForClientOnly is why a client that waits is refused whose server may be full, or fail, for it only, while others are served there: it may ask again after
// a pause.
var ErrForClientOnly = errors.New("the server may be full, or fail, for this client only")

// clientRefusedError is a server's answer to what clients say in their handshake.
type clientRefusedError struct {
	error
	// failing tells that the answer may also be that of a server that fails, so that it counts in the comparison with its peers.
	failing bool
}

func (e clientRefusedError) Unwrap() error { return e.error }

// ownError is why no connection could be dialed with one client's own values.
type ownError struct {
	error
	client Client
}

func (e ownError) Unwrap() error { return e.error }

// anonymousRefusedError is a server's answer to a handshake without a client's values, when the clients have their own.
type anonymousRefusedError struct{ error }

func (e anonymousRefusedError) Unwrap() error { return e.error }

// classify wraps a failure to dial a connection with clients' values in the error that says what it means, and for whom.
func (d *dialConfig) classify(v clientValues, err error) error {
	why := d.meaningOf(v, err)
	if v.private {
		return ownError{why, v.client}
	}
	return why
}

// meaningOf wraps a failure to dial a connection with clients' values in the error that says what it means.
func (d *dialConfig) meaningOf(v clientValues, err error) error {
	status := (*handshake.StatusError)(nil)
	if errors.Is(err, handshake.ErrNotOffered) { // by that client
		return clientRefusedError{err, true}
	}
	if !errors.As(err, &status) {
		return err
	}
	code := status.Status
	switch {
	case v.private && isClientError(code):
		return clientRefusedError{error: err}
	case saysFull(code) || d.Profile.BusyStatus(code):
		return fmt.Errorf("%w: %w", errFull, err)
	case v.private && code != http.StatusBadGateway && code != http.StatusGatewayTimeout,
		v.any && isClientError(code) && code != http.StatusUnauthorized && code != http.StatusForbidden:
		return clientRefusedError{err, !isClientError(code)}
	case !v.any && isClientError(code) && d.clientsHaveValues():
		return anonymousRefusedError{err}
	}
	return err
}

// isUnanswered reports whether a server that could be reached gave an upgrade request no good answer, and no HTTP status. For one client's own values,
// that says as much about these as about the server.
func isUnanswered(err error) bool {
	return errors.As(err, new(handshake.UpgradeError)) && !errors.As(err, new(*handshake.StatusError))
}

func isClientError(status int) bool { return status >= 400 && status <= 499 }

// clientValues tells whether connections of a variant are dialed with values of clients.
type clientValues struct {
	any     bool
	private bool   // they are of one client alone
	client  Client // who that is
}

// clientValues is called before the dial, since a client that leaves meanwhile is forgotten.
func (d *dialConfig) clientValues(variant string) clientValues {
	if variant == "" || d.Variants == nil {
		return clientValues{}
	}
	v, _ := d.Variants.lookup(variant)
	return clientValues{any: v.Query != "" || len(v.Header)+len(v.Path)+len(v.Subprotocols) > 0, private: v.Private, client: v.client}
}

// clientsHaveValues reports whether clients of the service pass their own values in the handshake.
func (d *dialConfig) clientsHaveValues() bool {
	return d.Passes || d.Profile.Private() || d.Variants != nil && d.Variants.anyPrivate()
}
