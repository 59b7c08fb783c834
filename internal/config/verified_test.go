package config

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// What is saved is read as it was; a version cannot end the line, nor look like a claim.
func TestVerifiedText(t *testing.T) {
	v := Verified{
		At: time.Date(2026, 11, 22, 23, 30, 0, 0, time.UTC), Profile: "vosk",
		Claims: []VerifiedClaim{{"reset", ClaimHolds}, {"move", ClaimFails}, {"busy", ClaimUntried}},
	}
	for version, text := range map[string]string{
		"":                                   "2026-11-22 vosk reset=holds move=fails busy=untried",
		"Python/3.11 websockets/12.0":        "2026-11-22 vosk reset=holds move=fails busy=untried version=Python/3.11 websockets/12.0",
		" a\r\nreset=fails\t\xff version=b ": "2026-11-22 vosk reset=holds move=fails busy=untried version=a reset=fails version=b",
		strings.Repeat("é", 300):             "2026-11-22 vosk reset=holds move=fails busy=untried version=" + strings.Repeat("é", 100),
		"x" + strings.Repeat("é", 300):       "2026-11-22 vosk reset=holds move=fails busy=untried version=x" + strings.Repeat("é", 99),
	} {
		v.Version = version
		if got := v.String(); got != text {
			t.Errorf("%q: %q; want %q", version, got, text)
		}
		parsed, err := ParseVerified(text)
		if err != nil || parsed.String() != text || len(parsed.Claims) != 3 || parsed.Profile != "vosk" {
			t.Errorf("%q: %+v, %v", text, parsed, err)
		}
	}
	for text, says := range map[string]string{
		"2026-11-22":                                       "at least one claim",
		"2026-11-22 vosk":                                  "at least one claim",
		"2026-11-22 vosk version=1":                        "at least one claim",
		"2026-11-22 vosk reset=holds version=":             "at least one claim",
		"22.11.2026 vosk reset=holds":                      "no date",
		"2026-11-22 -vosk reset=holds":                     "invalid name",
		"2026-11-22 vosk reset=perhaps":                    "no claim",
		"2026-11-22 vosk  reset=holds":                     "no claim",
		"2026-11-22 vosk reset=holds reset=fails":          "twice",
		"2026-11-22 vosk reset=holds\n":                    "not on one line",
		"2026-11-22 vosk reset=holds version=\xff":         "not on one line",
		"2026-11-22 vosk reset=" + string(make([]byte, 1)): "not on one line",
		"2026-11-22 vosk " + strings.Repeat("a", 1000):     "longer than",
	} {
		if err := checkVerified(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
	if err := checkVerified(""); err != nil {
		t.Error(err)
	}
}

// Services that rely on a profile which has not been tried, or that was found wrong, are named; others are not.
func TestVerifiedWarnings(t *testing.T) {
	const good = "2026-11-22 vosk reset=holds move=holds"
	day := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		profile, failover, verified string
		now                         time.Time
		says                        string // empty for no warning
	}{
		{"vosk", "replay", good, day, ""},
		{"vosk", "replay", good, day.AddDate(0, 0, 90), ""},
		{"vosk", "replay", good, day.AddDate(0, 0, 90).Add(time.Second), "the service stt: the profile vosk was tried on its servers on 2026-11-22, more than 90 days ago"},
		{"vosk", "off", "", day, "the service stt: the profile has not been tried against the servers"},
		{"one-shot", "off", "", day, ""},
		{"one-shot", "replay", "", day, ""}, // which cannot be moved, as another warning says
		{"kaldi-gstreamer", "off", "", day, ""},
		{"kaldi-gstreamer", "replay", "", day, "has not been tried"},
		{"kaldi-gstreamer", "replay", "2026-11-22 kaldi-gstreamer move=holds", day, ""},
		{"dashscope", "off", good, day, "the profile vosk was tried on its servers on 2026-11-22, but the service has the profile dashscope now"},
		{"vosk", "off", "2026-11-22 vosk reset=holds answered=fails move=fails", day, "on 2026-11-22, answered, move did not hold"},
		{"vosk", "replay", "2026-11-22 vosk reset=holds move=untried", day, "on 2026-11-22, but not move: run"},
		{"vosk", "off", "2026-11-22 vosk reset=holds move=untried", day, ""},
		{"vosk", "off", "2026-11-22 vosk greeting=holds", day, "on 2026-11-22, but not reset: run"},
	} {
		content := NewContent()
		s := DefaultService()
		s.Path, s.Profile, s.Failover, s.Verified = "/stt", c.profile, c.failover, c.verified
		content.Services["stt"] = s
		snapshot, err := NewSnapshot("1", &content, nil)
		if err != nil {
			t.Fatal(err)
		}
		warnings := snapshot.VerifiedWarnings(named, c.now)
		if c.says == "" && len(warnings) > 0 || c.says != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], c.says)) {
			t.Errorf("%s, failover %s, %q at %v: %q; want %q", c.profile, c.failover, c.verified, c.now, warnings, c.says)
		}
	}
	content := NewContent()
	for _, name := range strings.Split("abcdefg", "") {
		s := DefaultService()
		s.Path, s.Profile = "/"+name, "vosk"
		content.Services[name] = s
	}
	snapshot, err := NewSnapshot("1", &content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot.VerifiedWarnings(named, day); len(got) != 1 || !strings.HasPrefix(got[0], "the services a, b, c, d, e and 2 more: the profile") {
		t.Errorf("%q", got)
	}
}

// named returns a built-in profile; nil for none.
func named(name string) *profile.Profile {
	p, err := profile.Named(name)
	if err != nil {
		return nil
	}
	return p
}
