package token

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// claims are the claims of a token whose signature is right, by name.
type claims map[string]json.RawMessage

// claims judges the claims of a token whose signature is right, and returns who it is about.
func (v *Verifier) claims(payload []byte) (*identity.Identity, error) {
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil || c == nil {
		return nil, errors.New("the claims of the token are malformed")
	}
	now := v.now()
	expires, err := v.times(c, now)
	if err != nil {
		return nil, err
	}
	if v.Issuer != "" {
		issuer, _, err := c.text("iss")
		if err != nil {
			return nil, err
		}
		if issuer != v.Issuer {
			return nil, fmt.Errorf("the token's issuer is %.64q: the service accepts %q", issuer, v.Issuer)
		}
	}
	if len(v.Audiences) > 0 {
		if err := v.audience(c); err != nil {
			return nil, err
		}
	}
	who := &identity.Identity{Method: identity.MethodJWT, Expires: expires}
	if err := v.describe(who, c); err != nil {
		return nil, err
	}
	return who, nil
}

// times judges exp, nbf and iat (RFC 7519, sections 4.1.4 to 4.1.6), and returns when the token is no longer accepted.
func (v *Verifier) times(c claims, now time.Time) (expires time.Time, err error) {
	expires, ok, err := c.time("exp")
	switch {
	case err != nil:
		return time.Time{}, err
	case !ok:
		return time.Time{}, errors.New("the token has no expiry (exp)")
	}
	if expires = expires.Add(v.Leeway); !now.Before(expires) {
		return time.Time{}, fmt.Errorf("the token has expired %s ago", age(now.Sub(expires.Add(-v.Leeway))))
	}
	for _, claim := range []struct{ name, reason string }{{"nbf", "the token is not valid yet, but in"}, {"iat", "the token is from the future: it was issued in"}} {
		at, ok, err := c.time(claim.name)
		switch {
		case err != nil:
			return time.Time{}, err
		case ok && now.Add(v.Leeway).Before(at):
			return time.Time{}, fmt.Errorf("%s %s (%s)", claim.reason, age(at.Sub(now)), claim.name)
		}
	}
	return expires, nil
}

// age returns a duration for the log.
func age(d time.Duration) time.Duration { return d.Round(time.Second) }

// audience judges aud (RFC 7519, section 4.1.3).
func (v *Verifier) audience(c claims) error {
	raw, ok := c["aud"]
	if !ok {
		return errors.New("the token has no audience (aud)")
	}
	var list []string
	if raw[0] == '"' {
		list = make([]string, 1)
		ok = json.Unmarshal(raw, &list[0]) == nil
	} else {
		ok = json.Unmarshal(raw, &list) == nil
	}
	if !ok {
		return errWrongType("aud", "a text or a list of texts")
	}
	for _, audience := range list {
		if slices.Contains(v.Audiences, audience) {
			return nil
		}
	}
	shown := ""
	if len(list) > 0 {
		shown = list[0]
	}
	return fmt.Errorf("the token is for another audience (%.64q)", shown)
}

// describe sets what the claims say of the client. A token must have the claims that the settings name for tenant and subject, but not the
// usual ones, which hold where the settings name none: without a subject, all users of a tenant would share their limits.
func (v *Verifier) describe(who *identity.Identity, c claims) error {
	mapped := maps.Clone(usualClaims)
	maps.Copy(mapped, v.Claims)
	for _, what := range slices.Sorted(maps.Keys(mapped)) {
		name := mapped[what]
		raw, ok := c[name]
		if named := v.Claims[what] != ""; !ok && named && (what == "tenant" || what == "subject") {
			return fmt.Errorf("the token has no claim %q, which says the %s", name, what)
		}
		if !ok {
			continue
		}
		if err := set(who, what, name, c, raw); err != nil {
			return err
		}
	}
	return nil
}

// usualClaims are the claims for what the settings do not name.
var usualClaims = map[string]string{"tenant": "tenant", "subject": "sub"}

// set sets what one claim says of the client.
func set(who *identity.Identity, what, name string, c claims, raw json.RawMessage) (err error) {
	switch what {
	case "tenant", "subject":
		text, _, err := c.text(name)
		if err != nil {
			return err
		}
		if err := identity.CheckText(what, text); err != nil {
			return fmt.Errorf("the claim %q: %w", name, err)
		}
		if what == "tenant" {
			who.Tenant = text
		} else {
			who.Subject = text
		}
		return nil
	}
	text, ok := scalar(raw)
	if !ok {
		return errWrongType(name, "a number or a text")
	}
	if err := who.Limits.Set(what, text); err != nil {
		return fmt.Errorf("the claim %q, which says the %s: %w", name, what, err)
	}
	return nil
}

// scalar returns the text of a limit: a JSON string, or a whole number as it is written.
func scalar(raw json.RawMessage) (text string, ok bool) {
	if raw[0] == '"' {
		return text, json.Unmarshal(raw, &text) == nil
	}
	_, err := strconv.ParseInt(string(raw), 10, 64)
	return string(raw), err == nil
}

// text returns a claim that must be a text. ok is false if the token does not have it.
func (c claims) text(name string) (text string, ok bool, err error) {
	raw, ok := c[name]
	if !ok {
		return "", false, nil
	}
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", true, errWrongType(name, "a text")
	}
	return text, true, nil
}

// time returns a claim that must be a NumericDate: seconds since 1970, with or without a fraction (RFC 7519, section 2). ok is false if
// the token does not have it.
func (c claims) time(name string) (at time.Time, ok bool, err error) {
	raw, ok := c[name]
	if !ok {
		return time.Time{}, false, nil
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxDate) { // beyond that, times overflow
		return time.Time{}, true, errWrongType(name, "a number of seconds since 1970")
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), true, nil
}

// maxDate is the last second of the year 9999.
const maxDate = 253402300799

func errWrongType(claim, allowed string) error {
	return fmt.Errorf("the claim %q of the token is not %s", claim, allowed)
}
