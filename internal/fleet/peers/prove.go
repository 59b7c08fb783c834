package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file has the proofs of this proxy's requests to others.

// prover proves to one other proxy that this one knows the token. Its methods may be called from any goroutine.
type prover struct {
	// static
	token    string // never sent; empty for none
	from, to string // IDs
	address  string // of the other proxy

	mu    sync.Mutex
	nonce string    // the other proxy's latest challenge; empty for none
	got   time.Time // when that came
	count uint64    // of the requests with the nonce
}

// do sends a request to the other proxy. Without a challenge of the last minute it asks for one first, so that it gives away nothing to an address
// that is none of the fleet's.
func (p *prover) do(ctx context.Context, c *client.Client, r client.Request, to any) error {
	if p.token == "" {
		return c.Do(ctx, r, to)
	}
	if !p.isChallenged() {
		ask := client.Request{Path: api.ProxiesPath, Timeout: r.Timeout, Take: r.Take, Authorize: func(r *http.Request, _ []byte) { r.Header.Set("Authorization", scheme) }}
		err := c.Do(ctx, ask, nil)
		switch {
		case p.take(err):
		case err == nil:
			return errors.New("it answers without asking for a proof that this is a proxy of the fleet: is it another program, or another version?")
		default:
			return err
		}
	}
	r.Authorize = p.authorize
	err := c.Do(ctx, r, to)
	if p.take(err) { // it has been restarted, say, and has done nothing
		err = c.Do(ctx, r, to)
	}
	return err
}

// isChallenged reports whether there is a challenge that can still be answered.
func (p *prover) isChallenged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nonce != "" && time.Since(p.got) < nonceUse
}

// take takes the challenge of a refused request. It returns false if there is none.
func (p *prover) take(err error) bool {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return false
	}
	var nonce string
	if n, _ := fmt.Sscanf(refused.Challenge, scheme+" %s", &nonce); n != 1 || len(nonce) > 2*nonceSize {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nonce, p.got, p.count = nonce, time.Now(), 0
	return true
}

// authorize adds a proof to a request.
func (p *prover) authorize(r *http.Request, body []byte) {
	p.mu.Lock()
	p.count++
	s := statement{
		nonce: p.nonce, count: p.count, method: r.Method, target: r.URL.RequestURI(), from: p.from, to: p.to, address: p.address, body: body,
	}
	p.mu.Unlock()
	said := proof{address: s.address, nonce: s.nonce, count: s.count, mac: s.mac(p.token)}
	r.Header.Set("Authorization", said.String())
}
