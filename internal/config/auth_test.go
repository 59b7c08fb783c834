package config

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// What is wrong with authentication, tenants and keys is named with what is allowed.
func TestValidateAuthRefuses(t *testing.T) {
	const hash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		kind   Kind
		values Values
		says   string
	}{
		{KindService, Values{"auth": "key"}, `unknown method "key": did you mean "keys"? Use one of keys, jwt, certificate, external, none`},
		{KindService, Values{"auth": "none,keys"}, `"none" stands beside other methods`},
		{KindService, Values{"auth": "jwt"}, `jwt-keys: the value is missing: the method jwt needs a URL`},
		{KindService, Values{"auth": "external"}, `auth-url: the value is missing: the method external needs a URL`},
		{KindService, Values{"auth-from": "body"}, `invalid source "body": use header (Authorization), header:NAME`},
		{KindService, Values{"auth-from": "cookie:a b"}, `invalid source "cookie:a b"`},
		{KindService, Values{"auth-from": "header:Sec-WebSocket-Key"}, `"header:Sec-WebSocket-Key": this header belongs to the handshake itself`},
		{KindService, Values{"auth-from": "query:"}, `invalid source "query:"`},
		{KindService, Values{"jwt-keys": "http://id.example.org/"}, `use https, since anyone who changes it on the way can make keys`},
		{KindService, Values{"jwt-keys": "file:keys.json"}, `invalid key set "file:keys.json"`},
		{KindService, Values{"jwt-keys": "https://me:secret@id.example.org/"}, `invalid key set "https://(hidden)@id.example.org/"`},
		{KindService, Values{"jwt-algorithms": "none"}, `unknown algorithm "none": use one of RS256, PS256, ES256, EdDSA`},
		{KindService, Values{"jwt-algorithms": "HS256"}, `unknown algorithm "HS256"`},
		{KindService, Values{"jwt-claims.tennant": "org"}, `unknown name "tennant": did you mean "tenant"?`},
		{KindService, Values{"auth-url": "ftp://x/"}, `invalid URL "ftp://x/"`},
		{KindService, Values{"auth-failure": "ask"}, `unknown answer "ask": use one of deny, allow`},
		{KindService, Values{"set-header.X-Tenant": "{tennant}"}, `unknown placeholder "tennant": did you mean "tenant"?`},
		{KindService, Values{"set-header.X-Tenant": "{tenant"}, `each { needs its }`},
		{KindService, Values{"set-header.X-Tenant": "tenant}"}, `each { needs its }`},
		{KindService, Values{"set-header.Host": "{tenant}"}, `invalid header name "Host": the proxy sets it`},
		{KindService, Values{"set-header.Sec-WebSocket-Key": "x"}, `the proxy sets it`},
		{KindService, Values{"set-header.X-A": "a\r\nb"}, `use printable ASCII`},
		{KindService, Values{"set-query.x": "{nobody}"}, `unknown placeholder "nobody"`},
		{KindService, Values{"set-header.Authorization": "Bearer s3cret\n"}, `Authorization: invalid text, which is not shown: use printable ASCII`},
		{KindService, Values{"set-header.Authorization": "Bearer s3cret{"}, `Authorization: invalid text, which is not shown`},
		{KindService, Values{"set-header.X-Api-Key": "{s3cret}"}, `X-Api-Key: invalid text, which is not shown`},
		{KindService, Values{"set-query.token": "s3cret}"}, `token: invalid text, which is not shown`},
		{KindService, Values{"byte-rate": "64kB/s"}, `invalid rate "64kB/s": use a size for each second, minute or hour`},
		{KindService, Values{"client-session-rate": "10"}, `invalid rate "10": use a number for each second, minute or hour`},
		{KindTenant, Values{"share": "0"}, `invalid number "0": use a number from 0.01 to 1000`},
		{KindTenant, Values{"share": "NaN"}, `invalid number "NaN"`},
		{KindTenant, Values{"guaranteed.stt": "many"}, `invalid number "many": use a whole number from 1 to 100000`},
		{KindKey, Values{"tenant": "acme"}, `hash: the value is missing: 'wsbouncer key add' makes a key and its hash`},
		{KindKey, Values{"hash": "wsb_secret"}, `invalid hash "(hidden)"`},
		{KindKey, Values{"hash": hash, "expires": "tomorrow"}, `invalid time "tomorrow": use a time such as 2027-01-31T00:00:00Z`},
	} {
		content := valid()
		name := "stt"
		if c.kind != KindService {
			name = "acme"
		}
		problems := content.Set(c.kind, name, c.values)
		err := problems.With(content.Validate(nil)).err()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s %v: the error is\n%v\nand should say\n%s", c.kind, c.values, err, c.says)
		}
	}
	content := valid()
	content.Set(KindKey, "a", Values{"hash": hash})
	content.Set(KindKey, "b", Values{"hash": hash})
	if err := content.Validate(nil); err == nil || !strings.Contains(err.Error(), "key b: hash: the key a already has this hash") {
		t.Errorf("two keys with one hash: %v", err)
	}
}

// A key's hash is no secret that opens anything, but no one needs to see it.
func TestHashIsHidden(t *testing.T) {
	content := valid()
	content.Set(KindKey, "a", Values{"hash": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"})
	if got := content.Shown(KindKey, "a")["hash"]; got != secret.Hidden {
		t.Errorf("shown as %q", got)
	}
	before := valid()
	if edits := Diff(&before, &content); strings.Contains(edits[0].Values["hash"], "0123") {
		t.Errorf("the difference shows %v", edits[0].Values)
	}
}
