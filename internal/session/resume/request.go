package resume

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The names of the protocol (docs/reconnect.md). In a query and in subprotocols they are in lower case.
const (
	tokenField    = record.ResumeHeader
	receivedField = "Wsbouncer-Received"
	sentField     = "Wsbouncer-Sent"
	// Subprotocol is offered by clients that read no header fields: they get messages in their place.
	Subprotocol = "wsbouncer.v1"
)

// Asked is what a client asks for with its upgrade request.
type Asked struct {
	Token    string // empty for a new session
	Received int64  // messages that it has got; -1 if it does not say
	Messages bool   // it gets messages in place of header fields
}

// Take reads what a client asks for, and takes it out of the request, so that no server sees it. The error is a [handshake.Refusal].
func Take(req *handshake.Request) (Asked, error) {
	asked := Asked{Received: -1}
	received := ""
	take := func(name, value string) {
		switch name {
		case tokenField:
			asked.Token = strings.Clone(value)
		case receivedField:
			received = value
		}
	}
	offers := req.Subprotocols()
	kept := slices.DeleteFunc(slices.Clone(offers), func(offer string) bool {
		if offer == Subprotocol {
			asked.Messages = true
			return true
		}
		for _, name := range [...]string{tokenField, receivedField} {
			if value, ok := strings.CutPrefix(offer, strings.ToLower(name)+"."); ok {
				take(name, value)
				return true
			}
		}
		return false
	})
	if len(kept) < len(offers) {
		req.Header.Del("Sec-Websocket-Protocol")
		if len(kept) > 0 {
			req.Header.Set("Sec-Websocket-Protocol", strings.Join(kept, ", "))
		}
	}
	takeQuery(req.URL, take)
	for _, name := range [...]string{tokenField, receivedField} {
		if values := req.Header.Values(name); len(values) > 0 {
			take(name, values[0])
			req.Header.Del(name)
		}
	}
	if received != "" {
		n, err := strconv.ParseInt(received, 10, 64)
		if err != nil || n < 0 {
			return asked, badReceived(received)
		}
		asked.Received = n
	}
	return asked, nil
}

// Restore adds to the header of a request what Take has taken out, for another proxy.
func (a *Asked) Restore(header http.Header) {
	header.Set(tokenField, a.Token)
	if a.Received >= 0 {
		header.Set(receivedField, strconv.FormatInt(a.Received, 10))
	}
	if a.Messages {
		header.Add("Sec-Websocket-Protocol", Subprotocol)
	}
}

// takeQuery takes the protocol's parameters out of a URL's query, and leaves the rest as the client wrote it.
func takeQuery(u *url.URL, take func(name, value string)) {
	if !strings.Contains(u.RawQuery, "wsbouncer-re") {
		return
	}
	var kept []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		switch value, err := url.QueryUnescape(value); {
		case err == nil && name == strings.ToLower(tokenField):
			take(tokenField, value)
		case err == nil && name == strings.ToLower(receivedField):
			take(receivedField, value)
		default:
			kept = append(kept, pair)
		}
	}
	u.RawQuery = strings.Join(kept, "&")
}

// badReceived refuses a number of messages that cannot be.
func badReceived(value string) *handshake.Refusal {
	return &handshake.Refusal{
		Status: http.StatusBadRequest,
		Reason: receivedField + " is " + strconv.Quote(value) + ": use the number of messages that the session has sent and the client has got",
	}
}

// tokenBytes is how long the part of a token is that cannot be guessed: 128 bits.
const tokenBytes = 16

// ProcessOf returns the process whose session a token is of; ok is false if it names none.
func ProcessOf(token string) (p record.Process, ok bool) {
	name, _, ok := strings.Cut(token, ".")
	copy(p[:], name)
	return p, ok && len(name) == len(p)
}

// NewToken returns a new token of a session of this process. It begins with the process's part of ids.
func NewToken(p record.Process) string {
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // it never fails
	return string(p[:]) + "." + base64.RawURLEncoding.EncodeToString(secret[:])
}
