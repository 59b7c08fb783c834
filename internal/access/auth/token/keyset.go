package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	// maxDocument is the largest key set, in bytes. Those of large issuers have about 20 KiB.
	maxDocument = 512 << 10
	// maxKeys is how many keys of a set are used. Each issuer has a few.
	maxKeys = 100
	// maxTried is with how many keys a signature is compared. More than one fits only if keys share an id, or a token names none.
	maxTried = 4
	// minRSA is the shortest RSA key, in bits, that is safe (RFC 7518, section 3.3). The longest is [jose.MaxRSAModulusBits].
	minRSA = 2048
)

// key is a public key of a set.
type key struct {
	id         string   // kid; empty for none
	algorithms []string // that it verifies: those of its type, or the one that it is bound to
	public     any      // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	thumbprint thumbprint
}

// thumbprint distinguishes a key from all others, whatever a set calls it (RFC 7638).
type thumbprint [sha256.Size]byte

// keySet is the usable keys of one document. It is immutable.
type keySet struct {
	keys []key
	// ignored says which entries of the document are not used, and why.
	ignored []string
	// doubtful are ids that several keys share. All of these keys are tried.
	doubtful []string
}

// parseKeySet reads a JWK Set (RFC 7517, section 5). Entries that are unfit are ignored, as section 5 asks for, and named in the result. It
// is an error if none is usable: an issuer that signs tokens has keys, so such a document is invalid.
func parseKeySet(document []byte) (*keySet, error) {
	if len(document) > maxDocument {
		return nil, fmt.Errorf("the key set is larger than %d bytes", maxDocument)
	}
	var outer struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(document, []byte("\xef\xbb\xbf")), &outer); err != nil {
		return nil, errors.New("the key set is not a JSON object with a list of keys")
	}
	set := new(keySet)
	for i, raw := range outer.Keys {
		if i == maxKeys {
			set.ignored = append(set.ignored, fmt.Sprintf("all after the first %d", maxKeys))
			break
		}
		k, err := parseKey(raw)
		if err != nil {
			set.ignored = append(set.ignored, fmt.Sprintf("key %d: %v", i+1, err))
			continue
		}
		if slices.ContainsFunc(set.keys, func(other key) bool { return k.equal(other) }) {
			continue // the same entry twice does no harm
		}
		if slices.ContainsFunc(set.keys, func(other key) bool { return k.clashes(other) }) {
			set.doubtful = append(set.doubtful, k.id)
		}
		set.keys = append(set.keys, k)
	}
	if len(set.keys) == 0 {
		return nil, fmt.Errorf("the key set has no usable key%s", set.because())
	}
	return set, nil
}

// because says why keys are ignored, as the end of a sentence.
func (s *keySet) because() string {
	if len(s.ignored) == 0 {
		return ""
	}
	return " (" + s.ignored[0] + ")"
}

// parseKey reads one entry of a set.
func parseKey(raw []byte) (key, error) {
	var about struct {
		Type string   `json:"kty"`
		Ops  []string `json:"key_ops"`
		D    any      `json:"d"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		return key{}, errors.New("it is malformed")
	}
	switch {
	case about.Type == "oct":
		return key{}, errors.New("it is a secret (kty oct), which a key set must not have")
	case about.D != nil:
		return key{}, errors.New("it is a private key: every reader of the key set can sign tokens with it")
	case len(about.Ops) > 0 && !slices.Contains(about.Ops, "verify"):
		return key{}, errors.New("it is not for verifying (key_ops)")
	}
	var parsed jose.JSONWebKey
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return key{}, fmt.Errorf("its type %.20q is not known, or its values are wrong", about.Type)
	}
	if parsed.Use != "" && parsed.Use != "sig" {
		return key{}, fmt.Errorf("it is not for signatures (use %.20q)", parsed.Use)
	}
	k := key{id: parsed.KeyID, public: parsed.Key}
	sum, err := parsed.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, fmt.Errorf("its type %.20q is not known, or its values are wrong", about.Type)
	}
	k.thumbprint = thumbprint(sum)
	switch public := parsed.Key.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSA {
			return key{}, fmt.Errorf("it has %d bits: RSA needs at least %d", bits, minRSA)
		}
		k.algorithms = []string{"RS256", "PS256"}
	case *ecdsa.PublicKey:
		if public.Curve != elliptic.P256() {
			return key{}, fmt.Errorf("its curve is %s: P-256 is allowed", public.Curve.Params().Name)
		}
		k.algorithms = []string{"ES256"}
	case ed25519.PublicKey:
		k.algorithms = []string{"EdDSA"}
	default:
		return key{}, fmt.Errorf("its type %.20q is not for the algorithms of tokens", about.Type)
	}
	bound := parsed.Algorithm
	if bound == "Ed25519" { // the name of the same algorithm in RFC 9864
		bound = "EdDSA"
	}
	if bound != "" {
		if !slices.Contains(k.algorithms, bound) {
			return key{}, fmt.Errorf("its algorithm %.20q is not known, or not one of its type", bound)
		}
		k.algorithms = []string{bound}
	}
	return k, nil
}

// equal reports whether another key has the same id, algorithms and value.
func (k *key) equal(other key) bool {
	public, ok := k.public.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && k.id == other.id && slices.Equal(k.algorithms, other.algorithms) && public.Equal(other.public)
}

// clashes reports whether both keys fit the same tokens that name their key.
func (k *key) clashes(other key) bool {
	return k.id != "" && k.id == other.id && slices.ContainsFunc(k.algorithms, func(a string) bool { return slices.Contains(other.algorithms, a) })
}

// matching returns the keys for a token that names this key, empty if it names none, and this algorithm. The error, for the log, says that
// they are too many.
func (s *keySet) matching(id, algorithm string) (fit []key, err error) {
	for _, k := range s.keys {
		if (id == "" || k.id == id) && slices.Contains(k.algorithms, algorithm) {
			fit = append(fit, k)
		}
	}
	if len(fit) > maxTried {
		return nil, fmt.Errorf("the token does not say which of %d keys has signed it", len(fit))
	}
	return fit, nil
}
