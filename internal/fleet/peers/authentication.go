package peers

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Proxies do not send each other the token: the address of another proxy comes from the ledger, and may be that of somebody who has written to
// it. They prove that they know the token, as HTTP Digest does (RFC 7616): a proxy asks another one for a challenge, a nonce, and sends
// with each request a MAC over the request, the nonce, a count, and the two proxies. Whoever gets such a request learns nothing that another proxy
// takes: the MAC names the process and the address that it is for, and holds for one request.

// scheme is the authentication scheme (RFC 9110, section 11.1) of proofs. Its credentials are address.nonce.count.mac, or nothing to ask for
// a challenge; a challenge is a nonce.
const scheme = "Wsbouncer-Fleet"

// keyPurpose tells the key of proofs from others that may be derived from the same token.
const keyPurpose = "wsbouncer: proof of a request between proxies of a fleet, version 1"

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
