package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Verified is the result of 'wsbouncer profile verify' on a service's servers. Its text is one line:
//
//	2026-11-22 vosk reset=holds answered=holds move=fails version=Python/3.11 websockets/12.0
type Verified struct {
	At      time.Time // the day, in UTC
	Profile string    // that was tried
	Claims  []VerifiedClaim
	Version string // of the server, as it says itself; empty if it does not say
}

// VerifiedClaim is what was found about one claim of a profile.
type VerifiedClaim struct{ Name, Verdict string }

// The verdicts about a claim.
const (
	ClaimHolds   = "holds"
	ClaimFails   = "fails"
	ClaimUntried = "untried"
)

// The limits of a result's text, and of the version in it, in bytes.
const (
	mostVerified        = 1000
	mostVerifiedVersion = 200
)

// verifiedFor is for how long a result counts: servers are updated.
const verifiedFor = 90 * 24 * time.Hour

// versionMark begins the server's version, which may have spaces.
const versionMark = " version="

// String returns the result as a text on one line.
func (v *Verified) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", v.At.UTC().Format(time.DateOnly), v.Profile)
	for _, c := range v.Claims {
		fmt.Fprintf(&b, " %s=%s", c.Name, c.Verdict)
	}
	return b.String() + versionWords(v.Version)
}

// versionWords returns the end of a line, with a server's version; empty if it has none.
func versionWords(version string) string {
	version = strings.ToValidUTF8(version, "")
	version = strings.Join(strings.FieldsFunc(version, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if version == "" {
		return ""
	}
	return versionMark + strings.TrimSpace(strings.ToValidUTF8(version[:min(len(version), mostVerifiedVersion)], ""))
}

// ParseVerified is the reverse of [Verified.String].
func ParseVerified(text string) (*Verified, error) {
	invalid := func(format string, args ...any) (*Verified, error) {
		return nil, fmt.Errorf("invalid result: "+format+": use a line that 'wsbouncer profile verify --save' has written", args...)
	}
	if len(text) > mostVerified || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return invalid("it is longer than %d bytes, or not on one line", mostVerified)
	}
	found, version, hasVersion := strings.Cut(text, versionMark)
	words := strings.Split(found, " ")
	if len(words) < 3 || hasVersion && strings.TrimSpace(version) != version || hasVersion && version == "" {
		return invalid("a date, a profile and at least one claim with its verdict belong in it")
	}
	at, err := time.Parse(time.DateOnly, words[0])
	if err != nil {
		return invalid("%.40q is no date such as 2026-11-22", words[0])
	}
	v := &Verified{At: at, Profile: words[1], Version: version}
	if err := CheckName(v.Profile); err != nil {
		return nil, err
	}
	for _, word := range words[2:] {
		name, verdict, _ := strings.Cut(word, "=")
		if CheckName(name) != nil || !slices.Contains([]string{ClaimHolds, ClaimFails, ClaimUntried}, verdict) {
			return invalid("%.40q is no claim with holds, fails or untried", word)
		}
		if v.verdict(name) != "" {
			return invalid("the claim %s is in it twice", name)
		}
		v.Claims = append(v.Claims, VerifiedClaim{name, verdict})
	}
	return v, nil
}

func checkVerified(text string) error {
	if text == "" {
		return nil
	}
	_, err := ParseVerified(text)
	return err
}

// verdict returns what was found about a claim; empty for nothing.
func (v *Verified) verdict(claim string) string {
	for _, c := range v.Claims {
		if c.Name == claim {
			return c.Verdict
		}
	}
	return ""
}

// with returns the claims that have a verdict.
func (v *Verified) with(verdict string) (claims []string) {
	for _, c := range v.Claims {
		if c.Verdict == verdict {
			claims = append(claims, c.Name)
		}
	}
	return claims
}

// VerifiedWarnings returns which services rely on a profile without knowing that it is right about their servers: those that reuse connections, or
// have failover, and whose result of 'wsbouncer profile verify' is missing, old, of another profile, or not good. lookup returns a profile by
// its name, nil if it is not known.
func (s *Snapshot) VerifiedWarnings(lookup func(name string) *profile.Profile, now time.Time) (warnings []string) {
	var missing []string
	for name, service := range s.Services() {
		p := lookup(service.Profile)
		if p == nil {
			continue
		}
		switch err := service.verified(p, now); {
		case errors.Is(err, errNotVerified):
			missing = append(missing, name)
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("the service %s: %v", name, err))
		}
	}
	if len(missing) == 0 {
		return warnings
	}
	const most = 5
	names, these := strings.Join(missing[:min(most, len(missing))], ", "), "the service"
	if len(missing) > 1 {
		these = "the services"
	}
	if more := len(missing) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return append(warnings, fmt.Sprintf("%s %s: the profile has not been tried against the servers: run 'wsbouncer profile verify' with --save", these, names))
}

// errNotVerified tells that there is no result.
var errNotVerified = errors.New("not verified")

// verified says why the service's profile may be wrong about its servers; nil if it was found right, or is not relied on.
func (s *Service) verified(p *profile.Profile, now time.Time) error {
	var needed []string // claims
	if p.Reuse != profile.OneShot {
		needed = append(needed, "reset")
	}
	if s.Replays() && p.Failover().Verdict != profile.Never {
		needed = append(needed, "move")
	}
	if len(needed) == 0 {
		return nil
	}
	if s.Verified == "" {
		return errNotVerified
	}
	v, err := ParseVerified(s.Verified)
	if err != nil {
		return err
	}
	day := v.At.Format(time.DateOnly)
	again := "run 'wsbouncer profile verify' with --save again"
	if v.Profile != s.Profile {
		return fmt.Errorf("the profile %s was tried on its servers on %s, but the service has the profile %s now: %s", v.Profile, day, s.Profile, again)
	}
	if fails := v.with(ClaimFails); len(fails) > 0 {
		return fmt.Errorf("the profile %s is wrong about its servers: on %s, %s did not hold: use a profile of your own with reuse: one-shot or failover: {verdict: never}, and %s",
			v.Profile, day, strings.Join(fails, ", "), again)
	}
	if now.Sub(v.At) > verifiedFor {
		return fmt.Errorf("the profile %s was tried on its servers on %s, more than %d days ago: %s", v.Profile, day, int(verifiedFor/(24*time.Hour)), again)
	}
	needed = slices.DeleteFunc(needed, func(claim string) bool { return v.verdict(claim) == ClaimHolds })
	if len(needed) > 0 {
		return fmt.Errorf("the profile %s was tried on its servers on %s, but not %s: %s", v.Profile, day, strings.Join(needed, " and "), again)
	}
	return nil
}
