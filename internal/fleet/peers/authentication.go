package peers

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Proxies do not send each other the token: the address of another proxy comes from the ledger, and may be that of an attacker who has written to
// it. They prove that they know the token, as HTTP Digest does (RFC 7616): a proxy asks another one for a challenge, a nonce, and sends
// with each request a MAC over the request, the nonce, a count, and the two proxies. A server that gets such a request learns nothing that another proxy
// takes: the MAC names the process and the address that it is for, and holds for one request.
//
// Known schemes are no smaller without being weaker: mutual TLS needs an authority, which a fleet with a token alone does not have, and RFC 9421 and
// HMAC with a time stamp replace only the MAC and need clocks that agree, which no proxy assumes: with wrong ones, an order that was held up could be
// carried out minutes later, or none would be.

// scheme is the authentication scheme (RFC 9110, section 11.1) of proofs. Its credentials are address.nonce.count.mac, or nothing to ask for
// a challenge; a challenge is a nonce.
const scheme = "Wsbouncer-Fleet"

// keyPurpose tells the key of proofs from others that may be derived from the same token.
const keyPurpose = "wsbouncer: proof of a request between proxies of a fleet, version 1"

// socketAddress is what a proof names as the address of a proxy that is asked at its admin socket, where no other user's process can listen.
const socketAddress = "unix:"

// statement is what a proof is about.
type statement struct {
	nonce   string
	count   uint64 // goes up with each request with the nonce
	method  string
	target  string // path and query
	from    string // ID of the proxy that asks
	to      string // ID of the one that is asked
	address string // at which it is asked
	body    []byte
}

// mac returns the proof of a statement by one who knows the token.
func (s *statement) mac(token string) []byte {
	key, err := hkdf.Key(sha256.New, []byte(token), nil, keyPurpose, sha256.Size)
	if err != nil {
		panic(err) // only for keys that are longer
	}
	h := hmac.New(sha256.New, key)
	body := sha256.Sum256(s.body)
	for _, field := range []string{s.nonce, strconv.FormatUint(s.count, 10), s.method, s.target, s.from, s.to, s.address, string(body[:])} {
		fmt.Fprintf(h, "%d:%s", len(field), field) // so that no field can take over a part of the next
	}
	return h.Sum(nil)
}

// proof is the credentials of a request.
type proof struct {
	address string
	nonce   string
	count   uint64
	mac     []byte
}

var encoding = base64.RawURLEncoding

// String returns the value of the header Authorization.
func (p *proof) String() string {
	return fmt.Sprintf("%s %s.%s.%d.%s", scheme, encoding.EncodeToString([]byte(p.address)), p.nonce, p.count, encoding.EncodeToString(p.mac))
}

// proofOf returns the proof of a request; nil for one that asks for a challenge or is malformed. ok is false if the request has none, but
// maybe other credentials.
func proofOf(r *http.Request) (p *proof, ok bool) {
	name, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(name, scheme) {
		return nil, false
	}
	fields := strings.Split(credentials, ".")
	if len(fields) != 4 {
		return nil, true
	}
	p = &proof{nonce: fields[1]}
	address, err := encoding.DecodeString(fields[0])
	if err != nil {
		return nil, true
	}
	p.address = string(address)
	if p.count, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		return nil, true
	}
	if p.mac, err = encoding.DecodeString(fields[3]); err != nil {
		return nil, true
	}
	return p, true
}

// about returns what the proof of a request that this proxy, self, has got must state.
func (p *proof) about(r *http.Request, from string, self fleet.ID, body []byte) *statement {
	return &statement{
		nonce: p.nonce, count: p.count, method: r.Method, target: r.RequestURI, from: from, to: string(self), address: p.address, body: body,
	}
}

const (
	// nonceLife is for how long a challenge may be answered, by this process's own clock. Who asks does so with the same nonce for
	// nonceUse, which leaves time for requests that are under way.
	nonceLife = 2 * time.Minute
	nonceUse  = time.Minute
	// actionLife is for how long a challenge may be answered with a request that changes something. Who asks waits no longer: a request that was
	// held up, since this process was stopped say, must not undo what an operator has ordered meanwhile.
	actionLife = 2 * timeout
	// maxNonces is how many nonces with a proof are remembered. Each of the others needs one a minute, or one in actionLife if it changes something.
	maxNonces = 4096
	// windowSize is by how many requests another one may be overtaken: each client that comes back by way of another proxy may be one. It is a multiple of 64.
	windowSize = 4096
	// tagSize is how much of a MAC a nonce has, in bytes.
	tagSize = 16
	// nonceSize is the size of a nonce in bytes: when it was made, what makes it unlike others, and a MAC.
	nonceSize = 8 + 12 + tagSize
)

// challenges makes nonces for other proxies, and remembers which requests were proven with them, so that each counts once. Only who
// has proven to know a token is remembered: strangers can have as many nonces as they like. The methods may be called from any goroutine.
type challenges struct {
	now    func() time.Time // static
	began  time.Time        // static, with the reading of a clock that does not jump
	secret []byte           // static; no other process makes nonces

	mu    sync.Mutex
	floor time.Duration      // nonces that were made by then, since began, are no longer taken; guarded by mu
	used  map[string]*window // by nonce; guarded by mu
}

// window is which counts were used with a nonce: those up to high, except the ones among the last windowSize whose bit is not set.
type window struct {
	made time.Duration // since began
	high uint64
	bits [windowSize / 64]uint64 // a ring: see bit
}

func newChallenges(now func() time.Time) *challenges {
	c := &challenges{now: now, began: now(), secret: make([]byte, sha256.Size), floor: -1, used: make(map[string]*window)}
	_, _ = rand.Read(c.secret) // never fails
	return c
}

// issue returns a nonce for the proxy with an ID.
func (c *challenges) issue(from string) string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(c.now().Sub(c.began)))
	raw = raw[:nonceSize-tagSize]
	_, _ = rand.Read(raw[8:]) // never fails
	return encoding.EncodeToString(append(raw, c.tag(raw, from)...))
}

// tag returns what proves that this process made a nonce for a proxy.
func (c *challenges) tag(raw []byte, from string) []byte {
	h := hmac.New(sha256.New, c.secret)
	h.Write(raw)
	h.Write([]byte(from))
	return h.Sum(nil)[:tagSize]
}

// holds reports whether a nonce was made here for a proxy, less than life ago, and may still be used with a count: not with one that so many have overtaken
// that it is not known whether it was used.
func (c *challenges) holds(nonce, from string, count uint64, life time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.madeLocked(nonce, from)
	w := c.used[nonce]
	return ok && c.now().Sub(c.began)-made < life && (w == nil || !w.isPast(count))
}

// madeLocked returns when a nonce was made, since c.began; ok is false if it may not be used.
func (c *challenges) madeLocked(nonce, from string) (made time.Duration, ok bool) {
	raw, err := encoding.DecodeString(nonce)
	if err != nil || len(raw) != nonceSize || !hmac.Equal(c.tag(raw[:nonceSize-tagSize], from), raw[nonceSize-tagSize:]) {
		return 0, false
	}
	made = time.Duration(binary.BigEndian.Uint64(raw))
	return made, made > c.floor && c.now().Sub(c.began)-made < nonceLife
}

// use notes that a proof with a nonce and a count was accepted. It returns false if there was one already, or the nonce may no longer be used.
func (c *challenges) use(nonce, from string, count uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.madeLocked(nonce, from) // at the same instant, or one that is just being forgotten could be used again
	if !ok {
		return false
	}
	w := c.used[nonce]
	if w == nil {
		w = &window{made: made}
		if len(c.used) < maxNonces || c.forgetLocked() {
			c.used[nonce] = w
		} // otherwise, it is no longer taken from now on
	}
	return w.use(count)
}

// forgetLocked forgets the nonces that are no longer taken. It returns false if there were none: then it forgets all, and takes only those
// that are made later.
func (c *challenges) forgetLocked() bool {
	now := c.now().Sub(c.began)
	maps.DeleteFunc(c.used, func(_ string, w *window) bool { return now-w.made >= nonceLife })
	if len(c.used) < maxNonces {
		return true
	}
	clear(c.used)
	c.floor = now
	return false
}

// isPast reports whether a count is too long ago to know whether it was used.
func (w *window) isPast(count uint64) bool { return count < w.high && w.high-count >= windowSize }

// bit returns where a count's bit is.
func (w *window) bit(count uint64) (word *uint64, mask uint64) {
	return &w.bits[count%windowSize/64], 1 << (count % 64)
}

// use returns whether a count was not used yet, and notes it. The first is 1.
func (w *window) use(count uint64) bool {
	if count == 0 || w.isPast(count) {
		return false
	}
	for next := max(w.high, count-min(count, windowSize)); next < count; next++ {
		word, mask := w.bit(next + 1)
		*word &^= mask
	}
	w.high = max(w.high, count)
	word, mask := w.bit(count)
	isNew := *word&mask == 0
	*word |= mask
	return isNew
}

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
	case p.challenges.holds(said.nonce, from, said.count, life):
		return false
	default:
		text = "the challenge is not of this process, has expired, or was answered too often since: here is another"
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
	view := (*View)(p.options.Ledger.Status())
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
	if (isOperator || isReader) && said.address != socketAddress && !p.options.Announced(said.address) { // strangers do not hear whether they have guessed the address
		return name, false, false, fmt.Errorf("the request is for a proxy at %.200q, which is not an address of this one: does it lead to another proxy?", said.address)
	}
	if (isOperator || isReader) && !p.challenges.use(said.nonce, from, said.count) {
		return name, false, false, errReplay
	}
	return name, isOperator, isReader, nil
}

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

// do sends a request to the other proxy by send. Without a challenge of the last minute it asks for one first, so that it gives away nothing to an address
// that is none of the fleet's.
func (p *prover) do(ctx context.Context, c *client.Client, r client.Request, send func(client.Request) error) error {
	if p.token == "" {
		return send(r)
	}
	answered, ok := p.challenge()
	if !ok {
		ask := client.Request{Path: api.ProxiesPath, Timeout: r.Timeout, Take: r.Take, Authorize: func(r *http.Request, _ []byte) { r.Header.Set("Authorization", scheme) }}
		err := c.Do(ctx, ask, nil)
		switch {
		case p.take(err, answered):
		case err == nil:
			return errors.New("it answers without asking for a proof that this is a proxy of the fleet: is it another program, or another version?")
		default:
			return err
		}
	}
	r.Authorize = func(r *http.Request, body []byte) { answered = p.authorize(r, body) }
	err := send(r)
	if p.take(err, answered) { // it has been restarted, say, and has done nothing
		err = send(r)
	}
	return err
}

// challenge returns the other proxy's latest challenge; ok is false if that can no longer be answered.
func (p *prover) challenge() (nonce string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nonce, p.nonce != "" && time.Since(p.got) < nonceUse
}

// take takes the challenge of a request that was refused when it answered another one. It returns false if there is none. Of many that are refused at the same
// time, the first one's is for all: the other proxy remembers a limited number.
func (p *prover) take(err error, answered string) bool {
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
	if p.nonce == answered {
		p.nonce, p.got, p.count = nonce, time.Now(), 0
	}
	return true
}

// authorize adds a proof to a request, and returns the challenge that it answers.
func (p *prover) authorize(r *http.Request, body []byte) (nonce string) {
	p.mu.Lock()
	p.count++
	s := statement{
		nonce: p.nonce, count: p.count, method: r.Method, target: r.URL.RequestURI(), from: p.from, to: p.to, address: p.address, body: body,
	}
	p.mu.Unlock()
	said := proof{address: s.address, nonce: s.nonce, count: s.count, mac: s.mac(p.token)}
	r.Header.Set("Authorization", said.String())
	return s.nonce
}
