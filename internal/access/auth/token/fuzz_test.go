package token

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
)

// Nothing but a token that was signed is accepted, whatever else a client sends, and nothing makes the verifier panic.
func FuzzToken(f *testing.F) {
	r := newRig(f, nil)
	signed := make(map[string]bool)
	for _, algorithm := range allAlgorithms {
		text := r.signers[algorithm].Sign(good)
		signed[text] = true
		f.Add(text)
		head, rest, _ := strings.Cut(text, ".")
		f.Add(tokentest.Encode([]byte(`{"alg":"none"}`)) + "." + rest)
		f.Add(head + "." + rest + ".AAAA.BBBB")
	}
	f.Add(tokentest.SignHMAC([]byte("x"), tokentest.Fields{"alg": "HS256", "kid": "key-RS256"}, good))
	f.Fuzz(func(t *testing.T, text string) {
		who, err := r.Authenticate(context.Background(), &auth.Attempt{Credential: text})
		if err == nil && !signed[text] {
			// The last character of a signature may have bits that do not count (RFC 4648, section 3.5).
			for known := range signed {
				if len(known) == len(text) && known[:len(known)-1] == text[:len(text)-1] {
					return
				}
			}
			t.Errorf("%q is %+v", text, who)
		}
	})
}

// Claims of a token whose signature is right cannot be trusted to be well formed.
func FuzzClaims(f *testing.F) {
	r := newRig(f, func(o *Options) {
		o.Issuer, o.Audiences = "", nil
		o.Claims = map[string]string{"tenant": "tenant", "session-limit": "limit", "byte-rate": "rate", "max-session": "time"}
	})
	f.Add([]byte(`{"exp":1900000000,"tenant":"acme","limit":3,"rate":"64KiB/s","time":"1m"}`))
	f.Add([]byte(`{"exp":1e300}`))
	f.Add([]byte(`{"exp":[],"aud":{}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		who, err := r.claims(payload)
		if err != nil {
			return
		}
		l := who.Limits
		if who.Tenant == "" || strings.ContainsAny(who.Tenant, "\r\n\x00") || !who.Expires.After(noon) || who.Expires.After(time.Unix(maxDate, 0).Add(time.Hour)) ||
			l.Sessions < 0 || l.ByteRate.N < 0 || l.MaxSession < 0 {
			t.Errorf("%q is %+v", payload, who)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	for _, algorithm := range allAlgorithms {
		f.Add(tokentest.KeySet(tokentest.NewSigner(f, "a", algorithm).JWK()))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		set, err := parseKeySet(document)
		if err == nil && len(set.keys) == 0 || err != nil && set != nil {
			t.Errorf("%q: %v", document, err)
		}
	})
}
