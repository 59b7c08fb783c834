package token

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
)

func TestParseKeySet(t *testing.T) {
	es, rs, ed := tokentest.NewSigner(t, "a", "ES256"), tokentest.NewSigner(t, "b", "RS256"), tokentest.NewSigner(t, "c", "EdDSA")
	other, same := tokentest.NewSigner(t, "a", "ES256"), tokentest.NewSigner(t, "a", "EdDSA")
	for name, c := range map[string]struct {
		entries []tokentest.Fields
		keys    int
		ignored string // what is said of an entry that is not used
		shared  bool   // keys share an id
	}{
		"all types":                {[]tokentest.Fields{es.JWK(), rs.JWK(), ed.JWK()}, 3, "", false},
		"the same twice":           {[]tokentest.Fields{es.JWK(), es.JWK()}, 1, "", false},
		"id twice":                 {[]tokentest.Fields{es.JWK(), other.JWK()}, 2, "", true},
		"id twice, another type":   {[]tokentest.Fields{es.JWK(), same.JWK()}, 2, "", false},
		"no ids":                   {[]tokentest.Fields{es.JWK().With(tokentest.Fields{"kid": nil}), other.JWK().With(tokentest.Fields{"kid": nil})}, 2, "", false},
		"name of RFC 9864":         {[]tokentest.Fields{ed.JWK().With(tokentest.Fields{"alg": "Ed25519"})}, 1, "", false},
		"a secret":                 {[]tokentest.Fields{es.JWK(), {"kty": "oct", "k": "AAAA", "alg": "HS256"}}, 1, "key 2: it is a secret", false},
		"a private key":            {[]tokentest.Fields{es.JWK(), es.JWK().With(tokentest.Fields{"d": "AAAA"})}, 1, "key 2: it is a private key", false},
		"for encryption":           {[]tokentest.Fields{es.JWK(), rs.JWK().With(tokentest.Fields{"use": "enc"})}, 1, `key 2: it is not for signatures (use "enc")`, false},
		"for signing only":         {[]tokentest.Fields{es.JWK(), rs.JWK().With(tokentest.Fields{"key_ops": []string{"sign"}})}, 1, "key 2: it is not for verifying", false},
		"algorithm of another":     {[]tokentest.Fields{es.JWK(), rs.JWK().With(tokentest.Fields{"alg": "ES256"})}, 1, `key 2: its algorithm "ES256" is not known, or not one of its type`, false},
		"secret's algorithm":       {[]tokentest.Fields{es.JWK(), rs.JWK().With(tokentest.Fields{"alg": "HS256"})}, 1, `key 2: its algorithm "HS256"`, false},
		"short":                    {[]tokentest.Fields{es.JWK(), rs.JWK().With(tokentest.Fields{"n": tokentest.Encode(append([]byte{0x80}, make([]byte, 127)...))})}, 1, "key 2: it has 1024 bits: RSA needs", false},
		"long":                     {[]tokentest.Fields{es.JWK(), rs.JWK().With(tokentest.Fields{"n": tokentest.Encode(append([]byte{0x80}, make([]byte, 1024)...))})}, 1, "key 2: its type", false},
		"not on the curve":         {[]tokentest.Fields{rs.JWK(), es.JWK().With(tokentest.Fields{"x": tokentest.Encode(make([]byte, 32))})}, 1, `key 2: its type "EC" is not known, or its values are wrong`, false},
		"another curve":            {[]tokentest.Fields{es.JWK(), {"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA"}}, 1, "key 2: its type", false},
		"unknown type":             {[]tokentest.Fields{es.JWK(), {"kty": "XYZ"}}, 1, `key 2: its type "XYZ"`, false},
		"no type":                  {[]tokentest.Fields{es.JWK(), {"kid": "x"}}, 1, "key 2: its type", false},
		"X25519, for encryption":   {[]tokentest.Fields{es.JWK(), {"kty": "OKP", "crv": "X25519", "x": "AAAA"}}, 1, "key 2: its type", false},
		"without alg, all of type": {[]tokentest.Fields{rs.JWK().With(tokentest.Fields{"alg": nil, "use": nil})}, 1, "", false},
	} {
		set, err := parseKeySet(tokentest.KeySet(c.entries...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if said := strings.Join(set.ignored, "; "); len(set.keys) != c.keys || c.ignored == "" && said != "" || !strings.Contains(said, c.ignored) || c.shared != (len(set.doubtful) > 0) {
			t.Errorf("%s: %d keys, ignored %q, shared %q", name, len(set.keys), said, set.doubtful)
		}
	}
	set, err := parseKeySet(tokentest.KeySet(rs.JWK().With(tokentest.Fields{"alg": nil})))
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, want := range map[string]int{"RS256": 1, "PS256": 1, "ES256": 0, "HS256": 0, "none": 0, "": 0} {
		if fit, err := set.matching("b", algorithm); err != nil || len(fit) != want {
			t.Errorf("%q: %d keys, %v", algorithm, len(fit), err)
		}
	}
}

// A set with more keys than any issuer has costs no more than one with maxKeys.
func TestManyKeys(t *testing.T) {
	var entries []tokentest.Fields
	for range maxKeys + 20 {
		entries = append(entries, tokentest.NewSigner(t, "", "EdDSA").JWK())
	}
	set, err := parseKeySet(tokentest.KeySet(entries...))
	if err != nil || len(set.keys) != maxKeys || !strings.Contains(set.ignored[0], "all after the first 100") {
		t.Fatalf("%v", err)
	}
	if fit, err := set.matching("", "EdDSA"); err == nil || fit != nil || !strings.Contains(err.Error(), "does not say which of 100 keys") {
		t.Errorf("%d keys would be tried: %v", len(fit), err)
	}
}

func TestKeySetIsMalformed(t *testing.T) {
	for _, document := range []string{``, `{`, `[]`, `{"keys":{}}`, `{"keys":[[]]}`, `{"keys":null}`, `{"KEYS":[{"kty":"EC"}]}`, `{"keys":[],"keys":[]}`, strings.Repeat("[", 100_000)} {
		if set, err := parseKeySet([]byte(document)); err == nil {
			t.Errorf("%.40q is a set of %d keys", document, len(set.keys))
		}
	}
	document := tokentest.KeySet(tokentest.NewSigner(t, "a", "ES256").JWK())
	if _, err := parseKeySet(append([]byte("\xef\xbb\xbf"), document...)); err != nil {
		t.Errorf("with a byte order mark: %v", err)
	}
	if !json.Valid(document) {
		t.Error("the test's own document is malformed")
	}
}
