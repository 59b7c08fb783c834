// Package token authenticates clients by JSON Web Tokens (RFC 7519) that are signed with a key of a key set (RFC 7517). The advice of RFC
// 8725 applies throughout: the service says which algorithms it accepts, a key verifies only what its type and its own alg allow, and
// nothing in a token says where a key comes from.
//
// [Verifier] judges tokens for one service. [KeySets] has the key sets of all services, and renews them in the background.
package token

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// maxToken is the longest token, in bytes, that is looked at.
const maxToken = 8 << 10

// Options say which tokens are accepted. All of it is static.
type Options struct {
	// Keys are the keys that tokens are verified with.
	Keys *Keys
	// Issuer is what a token's iss must be; empty for anything.
	Issuer string
	// Audiences are those of which a token's aud must have one; none for anything.
	Audiences []string
	// Algorithms are those that signatures may have: of RS256, PS256, ES256, EdDSA.
	Algorithms []string
	// Leeway is by how much the issuer's clock may differ from this machine's.
	Leeway time.Duration
	// Claims are the names of claims, by what they say of a client: tenant, subject, or a limit as the configuration calls it. A token
	// without the claim of the tenant or subject is refused. None at all means the claims tenant and sub, which a token need not have.
	Claims map[string]string
}

// Verifier judges the tokens of one service's clients. It is an [auth.Method], and may be used by any goroutine.
type Verifier struct {
	Options
	algorithms []jose.SignatureAlgorithm
	now        func() time.Time      // static; [time.Now] except in tests
	verified   auth.Recent[verified] // by the token's hash
}

// NewVerifier returns a verifier. The algorithms must be known ones.
func NewVerifier(o Options) *Verifier {
	v := &Verifier{Options: o, now: time.Now, verified: auth.Recent[verified]{Most: maxVerified}}
	for _, name := range o.Algorithms {
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
	}
	return v
}

// Name implements [auth.Method].
func (v *Verifier) Name() string { return identity.MethodJWT }

// Authenticate implements [auth.Method]. A credential that does not look like a token is left to the next method. If no key set has ever
// been read, the error is no [auth.Denied]: the client may be right.
func (v *Verifier) Authenticate(ctx context.Context, a *auth.Attempt) (*identity.Identity, error) {
	if !looksLikeToken(a.Credential) {
		return nil, auth.ErrAbsent
	}
	who, err := v.verify(ctx, a.Wait, a.Credential)
	if err != nil && !errors.As(err, new(*Unavailable)) && !errors.As(err, new(*auth.Denied)) && ctx.Err() == nil {
		err = &auth.Denied{Err: err}
	}
	return who, err
}

// Revoked implements [auth.Revoker]: a token is good until it expires, or until the key that has signed it has left the key set.
func (v *Verifier) Revoked(_ string, who *identity.Identity) (expires time.Time, reason string) {
	switch {
	case !v.now().Before(who.Expires):
		return time.Time{}, "the credential has expired"
	case v.Keys.revoked(who.Signer):
		return time.Time{}, "the key that signed the token is no longer valid"
	}
	return who.Expires, ""
}

// looksLikeToken reports whether a credential has the form of a JWS or JWE: at least three parts, and a JSON object at its
// beginning.
func looksLikeToken(credential string) bool {
	return strings.HasPrefix(credential, "ey") && strings.Count(credential, ".") >= 2
}

// verify returns who the token is about. The error says, for the log, why it is not accepted, and never quotes the token.
func (v *Verifier) verify(ctx context.Context, wait func() error, text string) (*identity.Identity, error) {
	if len(text) > maxToken {
		return nil, fmt.Errorf("the token is longer than %d bytes", maxToken)
	}
	sum, set := sha256.Sum256([]byte(text)), v.Keys.set.Load()
	if known, ok := v.verified.Find(sum, v.now()); ok && known.set == set {
		return known.who, nil
	}
	h, err := v.header(text)
	if err != nil {
		return nil, err
	}
	keys, set, err := v.Keys.find(ctx, wait, h.KeyID, h.Algorithm)
	if err != nil {
		return nil, err
	}
	parsed, err := jose.ParseSignedCompact(text, v.algorithms)
	if err != nil { // what it says may quote the token
		return nil, errMalformed
	}
	for _, k := range keys {
		payload, err := parsed.Verify(k.public)
		if err != nil {
			continue
		}
		who, err := v.claims(payload)
		if err == nil {
			who.Signer = k.thumbprint
			v.verified.Add(sum, verified{set, who}, who.Expires)
		}
		return who, err
	}
	return nil, errors.New("the signature of the token is wrong")
}

var errMalformed = errors.New("the token is malformed")

// header is the part of a token's header that matters here.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Content   string `json:"cty"`
}

// header reads a token's header and refuses what is never accepted, before anything is computed.
func (v *Verifier) header(text string) (h header, err error) {
	parts := strings.Split(text, ".")
	switch {
	case len(parts) == 5: // RFC 7516, section 9
		return h, errors.New("the token is encrypted")
	case len(parts) != 3:
		return h, errMalformed
	}
	for _, part := range parts { // package base64 skips line ends
		if strings.ContainsAny(part, "\r\n") {
			return h, errMalformed
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		return h, errMalformed
	}
	var fields map[string]json.RawMessage // package json of go-jose refuses duplicate names
	if err := json.Unmarshal(raw, &fields); err != nil || json.Unmarshal(raw, &h) != nil {
		return h, errMalformed
	}
	for _, f := range []struct{ name, reason string }{
		{"crit", "the token has extensions that must be understood (crit)"},
		{"b64", "the token has extensions that must be understood (b64)"},
		{"enc", "the token is encrypted"},
		{"jwk", "the token brings its own key (jwk)"},
	} {
		if _, ok := fields[f.name]; ok {
			return h, errors.New(f.reason)
		}
	}
	switch {
	case strings.EqualFold(h.Content, "JWT"):
		return h, errors.New("the token contains another token (cty)")
	case !slices.Contains(v.Algorithms, h.Algorithm):
		return h, fmt.Errorf("the token's algorithm is %.20q: the service accepts %s", h.Algorithm, strings.Join(v.Algorithms, ", "))
	case len(h.KeyID) > maxKeyID:
		return h, fmt.Errorf("the id of the token's key is longer than %d bytes", maxKeyID)
	}
	return h, nil
}

// maxKeyID is the longest id of a key, in bytes.
const maxKeyID = 512

// maxVerified is how many tokens each of the two generations of them remembers: some 500 KiB in all.
const maxVerified = 1024

// verified is a token that was found good: a client often comes again with the same token, and comparing a signature takes far longer than a
// hash. It counts as long as the key set is the one that it was verified with.
type verified struct {
	set *keySet
	who *identity.Identity
}
