// Package tokentest makes keys, key sets and tokens. It is for tests only, and signs whatever it is told to, wrong or not.
package tokentest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"sync"
	"testing"
)

// Signer is a private key of an issuer.
type Signer struct {
	ID        string // kid; empty for none
	Algorithm string // RS256, PS256, ES256 or EdDSA
	Private   crypto.Signer
}

// rsaKey is made once, since that takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// NewSigner returns a signer. All RSA signers share one key.
func NewSigner(t testing.TB, id, algorithm string) *Signer {
	t.Helper()
	s, err := &Signer{ID: id, Algorithm: algorithm}, error(nil)
	switch algorithm {
	case "RS256", "PS256":
		s.Private = rsaKey()
	case "ES256":
		s.Private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, s.Private, err = ed25519.GenerateKey(rand.Reader)
	default:
		t.Fatalf("unknown algorithm %q", algorithm)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Fields are the members of a JSON object.
type Fields map[string]any

// With returns the fields with others set, or removed where the value is nil.
func (f Fields) With(others Fields) Fields {
	all := make(Fields)
	for name, value := range f {
		all[name] = value
	}
	for name, value := range others {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// JWK returns the public key as an entry of a key set.
func (s *Signer) JWK() Fields {
	f := Fields{"alg": s.Algorithm, "use": "sig"}
	if s.ID != "" {
		f["kid"] = s.ID
	}
	switch public := s.Private.Public().(type) {
	case *rsa.PublicKey:
		f["kty"], f["n"], f["e"] = "RSA", Encode(public.N.Bytes()), Encode(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic(err)
		}
		size := len(point) / 2
		f["kty"], f["crv"], f["x"], f["y"] = "EC", public.Curve.Params().Name, Encode(point[1:1+size]), Encode(point[1+size:])
	case ed25519.PublicKey:
		f["kty"], f["crv"], f["x"] = "OKP", "Ed25519", Encode(public)
	}
	return f
}

// KeySet returns the document of a key set.
func KeySet(keys ...Fields) []byte { return encodeJSON(Fields{"keys": keys}) }

// Sign returns a token with these claims.
func (s *Signer) Sign(claims Fields) string {
	header := Fields{"alg": s.Algorithm, "typ": "JWT"}
	if s.ID != "" {
		header["kid"] = s.ID
	}
	return s.SignWith(header, claims)
}

// SignWith returns a token with this header, whatever it says. The signature is of the signer's own algorithm.
func (s *Signer) SignWith(header, claims Fields) string {
	return s.SignRaw(encodeJSON(header), encodeJSON(claims))
}

// SignRaw is SignWith for a header and claims that are no JSON.
func (s *Signer) SignRaw(header, claims []byte) string {
	text := Encode(header) + "." + Encode(claims)
	digest := sha256.Sum256([]byte(text))
	var signature []byte
	var err error
	switch private := s.Private.(type) {
	case *rsa.PrivateKey:
		if s.Algorithm == "PS256" {
			signature, err = rsa.SignPSS(rand.Reader, private, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, digest[:])
		}
	case *ecdsa.PrivateKey:
		var r, v *big.Int
		if r, v, err = ecdsa.Sign(rand.Reader, private, digest[:]); err == nil {
			size := (private.Params().BitSize + 7) / 8
			signature = append(r.FillBytes(make([]byte, size)), v.FillBytes(make([]byte, size))...)
		}
	case ed25519.PrivateKey:
		signature = ed25519.Sign(private, []byte(text))
	}
	if err != nil {
		panic(err)
	}
	return text + "." + Encode(signature)
}

// SignHMAC returns a token that is signed with a secret (HS256).
func SignHMAC(secret []byte, header, claims Fields) string {
	text := Encode(encodeJSON(header)) + "." + Encode(encodeJSON(claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + Encode(mac.Sum(nil))
}

// Encode returns the base64url form of bytes, without padding.
func Encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func encodeJSON(f Fields) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return b
}
