package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
)

// noon is the present of the tests.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

var allAlgorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}

// fixed returns keys that are in force and never read again.
func fixed(t testing.TB, document []byte) *Keys {
	t.Helper()
	k := newKeys(&urlSource{url: "https://id.example.org/jwks.json"}, slog.New(slog.DiscardHandler), nil)
	if document != nil {
		if err := k.use(document); err != nil {
			t.Fatal(err)
		}
	}
	k.began = time.Now().Add(time.Hour) // so that no reading is asked for
	k.cancel()
	return k
}

// rig is a verifier with one key of each algorithm.
type rig struct {
	*Verifier
	signers map[string]*tokentest.Signer
}

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	r := &rig{signers: make(map[string]*tokentest.Signer)}
	var keys []tokentest.Fields
	for _, algorithm := range allAlgorithms {
		s := tokentest.NewSigner(t, "key-"+algorithm, algorithm)
		r.signers[algorithm] = s
		keys = append(keys, s.JWK())
	}
	o := Options{
		Keys: fixed(t, tokentest.KeySet(keys...)), Issuer: "https://id.example.org", Audiences: []string{"speech", "other"},
		Algorithms: allAlgorithms, Leeway: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	r.Verifier = NewVerifier(o)
	r.now = func() time.Time { return noon }
	return r
}

// good are the claims of a token that is accepted.
var good = tokentest.Fields{
	"iss": "https://id.example.org", "aud": "speech", "sub": "user-7", "tenant": "acme",
	"iat": noon.Unix(), "nbf": noon.Unix(), "exp": noon.Add(time.Hour).Unix(),
}

func authenticate(v *Verifier, text string) (who *result, err error) {
	id, err := v.Authenticate(context.Background(), &auth.Attempt{Credential: text})
	if err != nil {
		return nil, err
	}
	return &result{id.Tenant, id.Subject, id.Expires, id.Limits}, nil
}

type result struct {
	tenant, subject string
	expires         time.Time
	limits          limits.Limits
}

func TestAccepts(t *testing.T) {
	r := newRig(t, nil)
	want := result{tenant: "acme", subject: "user-7", expires: noon.Add(time.Hour + time.Minute)}
	for _, algorithm := range allAlgorithms {
		s := r.signers[algorithm]
		got, err := authenticate(r.Verifier, s.Sign(good))
		if err != nil || got.tenant != want.tenant || got.subject != want.subject || !got.expires.Equal(want.expires) {
			t.Errorf("%s: %+v, %v", algorithm, got, err)
		}
	}
	es := r.signers["ES256"]
	for name, text := range map[string]string{
		"several audiences":        es.Sign(good.With(tokentest.Fields{"aud": []string{"x", "other"}})),
		"clock a minute behind":    es.Sign(good.With(tokentest.Fields{"iat": noon.Unix() + 60, "nbf": noon.Unix() + 60})),
		"clock a minute ahead":     es.Sign(good.With(tokentest.Fields{"exp": noon.Unix() - 59})),
		"a fraction of a second":   es.Sign(good.With(tokentest.Fields{"exp": 1.9e9 + 0.5})),
		"only what is required":    es.Sign(tokentest.Fields{"iss": good["iss"], "aud": "speech", "exp": good["exp"]}),
		"no key id":                es.SignWith(tokentest.Fields{"alg": "ES256"}, good),
		"another type":             es.SignWith(tokentest.Fields{"alg": "ES256", "typ": "at+jwt", "kid": "key-ES256"}, good),
		"spaces in header, claims": es.SignRaw([]byte(`{ "alg" : "ES256" , "kid" : "key-ES256" }`), []byte(` { "iss" : "https://id.example.org" , "aud" : [ "speech" ] , "exp" : 1900000000 , "tenant" : "acme" } `)),
	} {
		if _, err := authenticate(r.Verifier, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each token is refused for its own reason, which the log shows, and which never quotes the token.
func TestRefuses(t *testing.T) {
	r := newRig(t, nil)
	es, rs, ps := r.signers["ES256"], r.signers["RS256"], r.signers["PS256"]
	stranger := tokentest.NewSigner(t, "key-ES256", "ES256")
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long := &tokentest.Signer{ID: "key-ES256", Algorithm: "ES256", Private: p384}
	public, err := x509.MarshalPKIXPublicKey(rs.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	with := func(changes tokentest.Fields) string { return es.Sign(good.With(changes)) }
	header := func(changes tokentest.Fields) string {
		return es.SignWith(tokentest.Fields{"alg": "ES256", "kid": "key-ES256"}.With(changes), good)
	}
	parts := strings.Split(es.Sign(good), ".")
	for name, c := range map[string]struct{ text, want string }{
		"no signature":             {tokentest.Encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", `algorithm is "none"`},
		"none in other letters":    {tokentest.Encode([]byte(`{"alg":"nOnE"}`)) + "." + parts[1] + ".", `algorithm is "nOnE"`},
		"no algorithm":             {tokentest.Encode([]byte(`{"typ":"JWT"}`)) + "." + parts[1] + "." + parts[2], `algorithm is ""`},
		"algorithm is no text":     {tokentest.Encode([]byte(`{"alg":["ES256"]}`)) + "." + parts[1] + "." + parts[2], "malformed"},
		"empty signature":          {parts[0] + "." + parts[1] + ".", "signature of the token is wrong"},
		"public key as secret":     {tokentest.SignHMAC(asPEM, tokentest.Fields{"alg": "HS256", "kid": "key-RS256"}, good), `algorithm is "HS256"`},
		"HMAC called RS256":        {tokentest.SignHMAC(asPEM, tokentest.Fields{"alg": "RS256", "kid": "key-RS256"}, good), "signature of the token is wrong"},
		"PS256 with key for RS256": {ps.SignWith(tokentest.Fields{"alg": "PS256", "kid": "key-RS256"}, good), `no key "key-RS256" for the algorithm PS256`},
		"ES256 with an RSA key":    {es.SignWith(tokentest.Fields{"alg": "ES256", "kid": "key-RS256"}, good), `no key "key-RS256" for the algorithm ES256`},
		"EdDSA called ES256":       {r.signers["EdDSA"].SignWith(tokentest.Fields{"alg": "ES256", "kid": "key-ES256"}, good), "signature of the token is wrong"},
		"another curve":            {long.Sign(good), "signature of the token is wrong"},
		"another issuer's key":     {stranger.Sign(good), "signature of the token is wrong"},
		"unknown key":              {header(tokentest.Fields{"kid": "key-9"}), `no key "key-9"`},
		"id of the key is no text": {header(tokentest.Fields{"kid": 7}), "malformed"},
		"long id of the key":       {header(tokentest.Fields{"kid": strings.Repeat("x", 600)}), "longer than 512 bytes"},
		"brings its key":           {stranger.SignWith(tokentest.Fields{"alg": "ES256", "jwk": stranger.JWK()}, good), "brings its own key"},
		"extension":                {header(tokentest.Fields{"crit": []string{"exp"}, "exp": 1}), "must be understood (crit)"},
		"empty list of extensions": {header(tokentest.Fields{"crit": []string{}}), "must be understood (crit)"},
		"claims not encoded":       {header(tokentest.Fields{"b64": false}), "must be understood (b64)"},
		"nested":                   {es.SignRaw([]byte(`{"alg":"ES256","cty":"JWT"}`), []byte(es.Sign(good))), "another token (cty)"},
		"nested, not announced":    {es.SignRaw([]byte(`{"alg":"ES256"}`), []byte(es.Sign(good))), "claims of the token are malformed"},
		"encrypted":                {es.Sign(good) + ".AAAA.BBBB", "encrypted"},
		"encrypted header":         {header(tokentest.Fields{"enc": "A128GCM"}), "encrypted"},
		"four parts":               {es.Sign(good) + ".AAAA", "malformed"},
		"member twice":             {es.SignRaw([]byte(`{"alg":"ES256","alg":"none"}`), []byte(`{}`)), "malformed"},
		"claim twice":              {es.SignRaw([]byte(`{"alg":"ES256"}`), []byte(`{"exp":1,"exp":99999999999}`)), "claims of the token are malformed"},
		"claims are a list":        {es.SignRaw([]byte(`{"alg":"ES256"}`), []byte(`[]`)), "claims of the token are malformed"},
		"claims are null":          {es.SignRaw([]byte(`{"alg":"ES256"}`), []byte(`null`)), "claims of the token are malformed"},
		"line end":                 {parts[0] + "\n." + parts[1] + "." + parts[2], "malformed"},
		"padding":                  {parts[0] + "=." + parts[1] + "." + parts[2], "malformed"},
		"claims changed":           {parts[0] + "." + tokentest.Encode([]byte(`{"exp":1900000000,"tenant":"evil"}`)) + "." + parts[2], "signature of the token is wrong"},
		"huge":                     {with(tokentest.Fields{"x": strings.Repeat("x", 9000)}), "longer than 8192 bytes"},
		"deep":                     {es.SignRaw([]byte(`{"alg":"ES256"}`), []byte(`{"exp":1900000000,"x":`+strings.Repeat("[", 4000))), "claims of the token are malformed"},

		"no expiry":              {with(tokentest.Fields{"exp": nil}), "no expiry"},
		"expiry is a text":       {with(tokentest.Fields{"exp": "1900000000"}), `"exp" of the token is not a number`},
		"expiry is negative":     {with(tokentest.Fields{"exp": -1}), `"exp" of the token is not a number`},
		"expiry overflows":       {with(tokentest.Fields{"exp": 1e300}), `"exp" of the token is not a number`},
		"expired":                {with(tokentest.Fields{"exp": noon.Unix() - 60}), "has expired 1m0s ago"},
		"not yet valid":          {with(tokentest.Fields{"nbf": noon.Unix() + 61}), "not valid yet, but in 1m1s (nbf)"},
		"start overflows":        {with(tokentest.Fields{"nbf": 9.3e18}), `"nbf" of the token is not a number`},
		"from the future":        {with(tokentest.Fields{"iat": noon.Unix() + 61}), "issued in 1m1s (iat)"},
		"another issuer":         {with(tokentest.Fields{"iss": "https://id.example.org/"}), `issuer is "https://id.example.org/"`},
		"no issuer":              {with(tokentest.Fields{"iss": nil}), `issuer is ""`},
		"issuer is a list":       {with(tokentest.Fields{"iss": []string{"https://id.example.org"}}), `"iss" of the token is not a text`},
		"another audience":       {with(tokentest.Fields{"aud": []string{"mail"}}), `another audience ("mail")`},
		"no audience":            {with(tokentest.Fields{"aud": nil}), "no audience"},
		"audience is empty":      {with(tokentest.Fields{"aud": []string{}}), "another audience"},
		"audience is a number":   {with(tokentest.Fields{"aud": 7}), `"aud" of the token is not a text`},
		"tenant is a number":     {with(tokentest.Fields{"tenant": 7}), `"tenant" of the token is not a text`},
		"tenant is null":         {es.SignRaw([]byte(`{"alg":"ES256"}`), []byte(`{"iss":"https://id.example.org","aud":"speech","exp":1900000000,"tenant":null}`)), `"tenant" of the token is not a text`},
		"tenant is empty":        {with(tokentest.Fields{"tenant": ""}), "the tenant is empty"},
		"tenant on two lines":    {with(tokentest.Fields{"tenant": "a\r\nX-Admin: 1"}), "not printable"},
		"tenant is long":         {with(tokentest.Fields{"tenant": strings.Repeat("x", 257)}), "longer than 256"},
		"subject is an object":   {with(tokentest.Fields{"sub": tokentest.Fields{}}), `"sub" of the token is not a text`},
		"subject with an escape": {with(tokentest.Fields{"sub": "\x1b[31m"}), "not printable"},
	} {
		who, err := authenticate(r.Verifier, c.text)
		var denied *auth.Denied
		if !errors.As(err, &denied) || denied.Code() != http.StatusUnauthorized || !strings.Contains(err.Error(), c.want) || who != nil {
			t.Errorf("%s: %+v, %v; want %q", name, who, err, c.want)
			continue
		}
		for part := range strings.SplitSeq(c.text, ".") {
			if len(part) > 20 && strings.Contains(err.Error(), part) {
				t.Errorf("%s: the reason %q quotes the token", name, err)
			}
		}
	}
}

// What is no token is left to the other methods.
func TestLeavesOtherCredentials(t *testing.T) {
	r := newRig(t, nil)
	for _, text := range []string{"", "wsb_4f2a", "a.b.c", "ey", "eyJhbGciOiJub25lIn0", "eyJ.x"} {
		if _, err := authenticate(r.Verifier, text); !errors.Is(err, auth.ErrAbsent) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A service that accepts one algorithm accepts no other, though the key set has keys for it.
func TestAlgorithms(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Algorithms = []string{"ES256"} })
	for _, algorithm := range allAlgorithms {
		_, err := authenticate(r.Verifier, r.signers[algorithm].Sign(good))
		if accepted := err == nil; accepted != (algorithm == "ES256") {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

func TestClaims(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Issuer, o.Audiences, o.Leeway = "", nil, 0
		o.Claims = map[string]string{
			"tenant": "https://example.org/org", "subject": "email", "session-limit": "max", "message-rate": "rate", "max-session": "seconds", "byte-rate": "bytes",
		}
	})
	es := r.signers["ES256"]
	claims := tokentest.Fields{"exp": noon.Unix() + 5, "https://example.org/org": "acme", "email": "a@example.org", "sub": "ignored", "tenant": "ignored"}
	got, err := authenticate(r.Verifier, es.Sign(claims))
	if want := (result{tenant: "acme", subject: "a@example.org", expires: got.expires}); err != nil || *got != want || !got.expires.Equal(noon.Add(5*time.Second)) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = authenticate(r.Verifier, es.Sign(claims.With(tokentest.Fields{"max": 3, "rate": "100/m", "seconds": 90, "bytes": "64KiB/s"})))
	want := limits.Limits{
		Sessions: 3, MessageRate: limits.Rate{N: 100, Per: time.Minute}, MaxSession: 90 * time.Second, ByteRate: limits.Rate{N: 64 << 10, Per: time.Second},
	}
	if err != nil || got.limits != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for name, c := range map[string]struct {
		change tokentest.Fields
		want   string
	}{
		"no tenant":             {tokentest.Fields{"https://example.org/org": nil}, `no claim "https://example.org/org", which says the tenant`},
		"no subject":            {tokentest.Fields{"email": nil}, `no claim "email", which says the subject`},
		"limit is a list":       {tokentest.Fields{"max": []int{3}}, `"max" of the token is not a number or a text`},
		"limit is true":         {tokentest.Fields{"max": true}, `"max" of the token is not a number or a text`},
		"limit has a fraction":  {tokentest.Fields{"max": 1.5}, `"max" of the token is not a number or a text`},
		"limit is negative":     {tokentest.Fields{"max": -3}, `"max", which says the session-limit: invalid number`},
		"rate of another shape": {tokentest.Fields{"rate": "fast"}, `"rate", which says the message-rate: invalid rate`},
	} {
		if _, err := authenticate(r.Verifier, es.Sign(claims.With(c.change))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A configuration that names one claim keeps the usual ones for the rest: users whose tokens have limits do not share these with each other.
func TestUsualClaims(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Claims = map[string]string{"session-limit": "max"} })
	es := r.signers["ES256"]
	got, err := authenticate(r.Verifier, es.Sign(good.With(tokentest.Fields{"max": 3})))
	if err != nil || got.tenant != "acme" || got.subject != "user-7" || got.limits.Sessions != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = authenticate(r.Verifier, es.Sign(good.With(tokentest.Fields{"sub": nil, "tenant": nil})))
	if err != nil || got.tenant != "" || got.subject != "" {
		t.Errorf("without the usual claims: %+v, %v", got, err)
	}
}

// Without any keys, it is not known whether a token is wrong.
func TestNoKeys(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Keys = fixed(t, nil) })
	_, err := authenticate(r.Verifier, r.signers["ES256"].Sign(good))
	var unavailable *Unavailable
	if denied := (*auth.Denied)(nil); errors.As(err, &denied) || !errors.As(err, &unavailable) {
		t.Errorf("%v", err)
	}
}

func BenchmarkVerify(b *testing.B) {
	r := newRig(b, nil)
	for _, algorithm := range allAlgorithms {
		text := r.signers[algorithm].Sign(good)
		b.Run(algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.verified = auth.Recent[verified]{Most: maxVerified}
				if _, err := r.Authenticate(context.Background(), &auth.Attempt{Credential: text}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A client that comes again with the same token.
func BenchmarkVerifyAgain(b *testing.B) {
	r := newRig(b, nil)
	text := r.signers["ES256"].Sign(good)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Authenticate(context.Background(), &auth.Attempt{Credential: text}); err != nil {
			b.Fatal(err)
		}
	}
}

// A token that was found good is found again until it expires, or its key goes.
func TestVerifiedAgain(t *testing.T) {
	r := newRig(t, nil)
	now := noon
	r.now = func() time.Time { return now }
	text := r.signers["ES256"].Sign(good)
	first, err := authenticate(r.Verifier, text)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := authenticate(r.Verifier, text); err != nil || *again != *first || r.verified.Len() != 1 {
		t.Errorf("%+v, %v; %d are remembered", again, err, r.verified.Len())
	}
	now = noon.Add(time.Hour + time.Minute)
	if _, err := authenticate(r.Verifier, text); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its end: %v", err)
	}
	if r.verified.Len() != 0 {
		t.Error("it is still remembered")
	}
	now = noon
	if _, err := authenticate(r.Verifier, text); err != nil {
		t.Fatal(err)
	}
	if err := r.Keys.use(tokentest.KeySet(r.signers["RS256"].JWK())); err != nil {
		t.Fatal(err)
	}
	if _, err := authenticate(r.Verifier, text); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("after its key has gone: %v", err)
	}
}
