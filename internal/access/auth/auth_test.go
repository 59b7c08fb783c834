package auth

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// fixed is a method with one answer.
type fixed struct {
	name string
	who  *identity.Identity
	err  error
}

func (f fixed) Name() string { return f.name }

func (f fixed) Authenticate(context.Context, *Attempt) (*identity.Identity, error) {
	return f.who, f.err
}

func TestChain(t *testing.T) {
	alice, broken := &identity.Identity{Subject: "alice"}, errors.New("the server is unreachable")
	absent, denied := fixed{name: "absent", err: ErrAbsent}, fixed{name: "denied", err: &Denied{Err: errors.New("no"), Status: http.StatusForbidden}}
	accepts, fails := fixed{name: "accepts", who: alice}, fixed{name: "fails", err: broken}
	for _, c := range []struct {
		name           string
		chain          Chain
		credential     string
		who            *identity.Identity
		method         string
		status         int
		missing, fails bool
	}{
		{name: "first", chain: Chain{accepts, denied}, who: alice, method: "accepts"},
		{name: "second", chain: Chain{absent, accepts}, who: alice, method: "accepts"},
		{name: "denied is final", chain: Chain{absent, denied, accepts}, method: "denied", status: 403},
		{name: "a failure is final", chain: Chain{fails, accepts}, method: "fails", fails: true},
		{name: "nothing given", chain: Chain{absent}, status: 401, missing: true},
		{name: "nothing that fits", chain: Chain{absent, absent}, credential: "x", status: 401},
		{name: "no methods", status: 401, missing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			who, method, err := c.chain.Authenticate(t.Context(), &Attempt{Credential: c.credential})
			if who != c.who || method != c.method {
				t.Errorf("%v by %q", who, method)
			}
			var d *Denied
			switch {
			case c.status != 0 && (!errors.As(err, &d) || d.Code() != c.status || d.Missing != c.missing):
				t.Errorf("%#v", err)
			case c.fails && (err != broken || errors.As(err, &d)):
				t.Errorf("%v", err)
			case c.status == 0 && !c.fails && err != nil:
				t.Error(err)
			}
		})
	}
}

// What no method takes back holds until it expires.
func TestRevokedByTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	who := &identity.Identity{Method: "accepts", Expires: now.Add(time.Minute)}
	chain := Chain{fixed{name: "accepts"}}
	if expires, reason := chain.Revoked("stt", who, now); !expires.Equal(who.Expires) || reason != "" {
		t.Errorf("%v, %q", expires, reason)
	}
	if _, reason := chain.Revoked("stt", who, now.Add(time.Minute)); reason == "" {
		t.Error("it does not expire")
	}
}
