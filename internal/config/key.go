package config

import (
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Key is an API key, by which clients are authenticated. The configuration has its hash only. Begin with [NewKey]. Its name is its key in
// [Content].
type Key struct {
	Tenant   string        // whose key it is; empty for none
	Hash     string        // of the key: "sha256:" and 64 hexadecimal digits
	Expires  time.Time     // in UTC, whole seconds; zero for never
	Services []string      // that it is good for; none for all
	Limits   limits.Limits // of all that use it, beside those of its tenant
}

// NewKey returns a key with all defaults. Hash has none.
func NewKey() Key { return withDefaults[Key]() }

// fields returns the fields of a key: see [Service.fields].
func (k *Key) fields() []field {
	return append([]field{
		{"tenant", "", "tenant of the key; empty for none", value.NewText(&k.Tenant, "a name", orEmptyName)},
		{"hash", "", "SHA-256 of the key; required", value.NewText(
			&k.Hash, "sha256: and 64 hexadecimal digits", checkHash)},
		{"expires", "", "time from which the key is refused; empty for never", timeValue{&k.Expires}},
		{"services", "", "services that accept the key; empty for all", value.NewList(&k.Services, "names of services", CheckName)},
	}, limitFields(&k.Limits)...)
}

func orEmptyName(text string) error {
	if text == "" {
		return nil
	}
	return CheckName(text)
}

// checkHash checks a key's hash. The error does not repeat it.
func checkHash(text string) error {
	if text == "" { // that it is missing is for Validate
		return nil
	}
	if isPlaceholder(text) {
		return errPlaceholder
	}
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
		return value.Invalid("hash", secret.Hidden, "sha256: and 64 hexadecimal digits, which 'wsbouncer key add' makes")
	}
	return nil
}

// timeValue is the value for a point in time; the zero time is none.
type timeValue struct{ p *time.Time }

const timeAllowed = "a time such as 2027-01-31T00:00:00Z (RFC 3339)"

func (v timeValue) Allowed() string { return timeAllowed }

func (v timeValue) Text() string {
	if v.p.IsZero() {
		return ""
	}
	return v.p.UTC().Format(time.RFC3339)
}

func (v timeValue) Set(text string) error {
	if text == "" {
		*v.p = time.Time{}
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return value.Invalid("time", text, timeAllowed)
	}
	*v.p = at.UTC().Truncate(time.Second)
	return nil
}
