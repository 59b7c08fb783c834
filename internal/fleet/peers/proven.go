package peers

import (
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file has the proofs of other proxies' requests to this one: [Peers.Handler] gives challenges, and the guard of the admin API asks [Peers.Proven].

// challenged answers a request that asks for a challenge, or whose proof has none that holds. It returns false for all others.
func (p *Peers) challenged(w http.ResponseWriter, r *http.Request) bool {
	said, ok := proofOf(r)
	if !ok {
		return false
	}
	from := r.Header.Get(api.PeerHeader)
	life := nonceLife
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		life = actionLife
	}
	text := "a proof is needed that this is a proxy of the fleet: here is the challenge"
	switch {
	case said == nil:
	case p.challenges.holds(said.nonce, from, life):
		return false
	default:
		text = "the challenge is not of this process, or has expired: here is another"
	}
	w.Header().Set("WWW-Authenticate", scheme+" "+p.challenges.issue(from))
	fail(w, http.StatusUnauthorized, api.KindRefused, text)
	return true
}

var errReplay = errors.New("the request was made before: a proof holds for one request")

// Proven returns what a request to this proxy proves, for the guard of the admin API: which proxy sent it, and which of the two tokens that
// has; neither for a wrong one. name is empty for requests without a proof. An error says why a proof is not taken although the
// token is right, or may be. operator and reader are the tokens of this proxy; empty for none. It reads the body, and puts it back.
func (p *Peers) Proven(r *http.Request, operator, reader string) (name string, isOperator, isReader bool, err error) {
	said, ok := proofOf(r)
	if !ok || said == nil {
		return "", false, false, nil
	}
	from := r.Header.Get(api.PeerHeader)
	view := p.options.Ledger.View()
	name = fmt.Sprintf("proxy %.40s", view.label(fleet.ID(from)))
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return name, false, false, fmt.Errorf("the request cannot be read: %w", err)
	case len(body) > maxBody:
		return name, false, false, fmt.Errorf("the request of another proxy has more than %d bytes", maxBody)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s := said.about(r, from, view.Self, body)
	// Both are always compared, so that the time tells nothing.
	isOperator = hmac.Equal(said.mac, s.mac(operator)) && operator != ""
	isReader = hmac.Equal(said.mac, s.mac(reader)) && reader != ""
	if (isOperator || isReader) && !p.options.Announced(said.address) { // strangers do not hear whether they have guessed the address
		return name, false, false, fmt.Errorf("the request is for a proxy at %.200q, which is not an address of this one: does it lead to another proxy?", said.address)
	}
	if (isOperator || isReader) && !p.challenges.use(said.nonce, from, said.count) {
		return name, false, false, errReplay
	}
	return name, isOperator, isReader, nil
}
