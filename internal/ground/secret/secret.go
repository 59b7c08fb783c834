// Package secret keeps secrets from being shown, and reads those that a configuration refers to.
//
// Whatever prints a URL, a header or a parameter prints what [URL], [Header] or [Parameter] makes of it. A configuration names a secret by a
// reference, env:NAME or file:/path, which a [Source] reads when a server is dialed.
package secret

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
)

// Hidden is shown instead of what may be secret.
const Hidden = "(hidden)"

// IsName reports whether what bears this name, such as a header or a parameter, is likely a secret.
func IsName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "cookie", "secret", "password", "passwd", "passphrase", "credential", "signature", "bearer"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if slices.Contains([]string{"sig", "sas", "pwd", "pass", "jwt"}, word) {
			return true
		}
		if strings.HasSuffix(word, "key") || strings.HasSuffix(word, "token") {
			return true
		}
	}
	return false
}

// Parameter returns the value of a URL's parameter, or of anything else with a name, as it may be shown.
func Parameter(name, value string) string {
	if value != "" && isParameterSecret(name) && !isParameterReference(value) {
		return Hidden
	}
	if i, _ := literalBehind(value); i >= 0 {
		return value[:i] + Hidden
	}
	return value
}

// isParameterSecret reports whether the value of a parameter with this name, percent-encoded or not, is likely a secret.
func isParameterSecret(name string) bool {
	plain, err := url.QueryUnescape(name)
	return err != nil || IsName(plain)
}

// literalBehind looks for a likely secret among the parameters that a value has behind semicolons, which some servers take for separators. It
// returns where the secret begins, and its parameter's name; -1 for none.
func literalBehind(value string) (at int, name string) {
	for at = 0; ; {
		i := strings.IndexByte(value[at:], ';')
		if i < 0 {
			return -1, ""
		}
		at += i + 1
		parameter, _, _ := strings.Cut(value[at:], ";")
		name, rest, _ := strings.Cut(parameter, "=")
		if rest != "" && isParameterSecret(name) && !isParameterReference(rest) {
			return at + len(name) + 1, name
		}
	}
}

// Header returns a header's value as it may be shown: its reference to a secret, with the scheme before it, but no value.
func Header(value string) string {
	if before, reference, ok := CutReference(value); ok {
		if !isScheme(before) {
			before = Hidden + " "
		}
		return before + reference
	}
	if value == "" {
		return ""
	}
	return Hidden
}

// isScheme reports whether what stands before a reference is nothing, or the name of a scheme such as Bearer, which is no secret.
func isScheme(before string) bool {
	name := strings.TrimSuffix(before, " ")
	return before == "" || len(name) <= 20 && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz-") == ""
}

// URL returns a URL as it may be shown: without a user and a password, without a fragment, and without parameters that are likely secrets. It
// may be invalid, or only a path.
func URL(text string) string {
	before, after, ok := strings.Cut(text, "://")
	if !ok || strings.ContainsAny(before, "@/?#") {
		before, after = "", text
	} else {
		before += "://"
	}
	if strings.Contains(after, "@") && mayHaveUser(text) { // in doubt, all before the last @ is the password
		after = Hidden + after[strings.LastIndexByte(after, '@'):]
	}
	after, fragment, _ := strings.Cut(after, "#")
	if fragment != "" {
		fragment = "#" + Hidden
	}
	address, query, ok := strings.Cut(after, "?")
	if !ok {
		return before + address + fragment
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		if name, value, ok := strings.Cut(parameter, "="); ok {
			parameters[i] = name + "=" + Parameter(name, value)
		}
	}
	return before + address + "?" + strings.Join(parameters, "&") + fragment
}

// mayHaveUser reports whether a URL with an @ has a user before it, or is too malformed to tell. A path is no such URL.
func mayHaveUser(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.User != nil || u.Host == "" && !strings.HasPrefix(text, "/")
}

// Error returns an error of package net/http or net/url without the secrets of its URL.
func Error(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		of.URL = URL(of.URL)
	}
	return err
}

// parameters returns the names and values of a URL's parameters as they are written.
func parameters(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		_, query, _ := strings.Cut(text, "?")
		for parameter := range strings.SplitSeq(query, "&") {
			if name, value, _ := strings.Cut(parameter, "="); !yield(name, value) {
				return
			}
		}
	}
}

// Literal returns the name of a URL's first parameter that is likely a secret and whose value is not a reference; empty for none. [Hidden] is no
// reference.
func Literal(text string) string {
	for name, value := range parameters(text) {
		if value != "" && isParameterSecret(name) && !isParameterReference(value) {
			return name
		}
		if at, behind := literalBehind(value); at >= 0 {
			return behind
		}
	}
	return ""
}

// Placeholder returns the name of a URL's first parameter whose value is [Hidden], percent-encoded or not, and "user" if that stands for its
// user and password; empty for none.
func Placeholder(text string) string {
	if address, _, _ := strings.Cut(text, "?"); strings.Contains(address, Hidden+"@") {
		return "user"
	}
	for name, value := range parameters(text) {
		if plain, err := url.QueryUnescape(value); err == nil && plain == Hidden {
			return name
		}
	}
	return ""
}

// CutReference separates a header's reference to a secret from what stands before it: "Bearer env:NAME" is "Bearer " and "env:NAME". ok is
// false when the value has none.
func CutReference(value string) (before, reference string, ok bool) {
	i := strings.LastIndexByte(value, ' ') + 1
	before, reference = value[:i], value[i:]
	return before, reference, isReference(reference)
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// isParameterReference reports whether the value of a URL's parameter, percent-encoded or not, is a reference.
func isParameterReference(value string) bool {
	plain, err := url.QueryUnescape(value)
	return err == nil && isReference(plain)
}

// HasReference reports whether a parameter of a URL refers to a secret.
func HasReference(text string) bool {
	all, _ := References(text, nil)
	return len(all) > 0
}

// CheckReference checks how a secret is referred to.
func CheckReference(reference string) error {
	name, isVariable := strings.CutPrefix(reference, "env:")
	if !isVariable {
		if strings.TrimPrefix(reference, "file:") == "" {
			return fmt.Errorf("invalid reference %q: use file:/path", reference)
		}
		return nil
	}
	if name == "" || strings.Trim(strings.ToUpper(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return fmt.Errorf("invalid reference %q: use env:NAME with letters, digits and _", reference)
	}
	return nil
}

// References returns the references of a URL's parameters and of headers. The error is that of the first one that is not well formed.
func References(address string, headers map[string]string) (all []string, err error) {
	for _, value := range parameters(address) {
		if plain, failed := url.QueryUnescape(value); failed == nil && isReference(plain) {
			all = append(all, plain)
		}
	}
	for _, value := range headers {
		if _, reference, ok := CutReference(value); ok {
			all = append(all, reference)
		}
	}
	for _, reference := range all {
		if err == nil {
			err = CheckReference(reference)
		}
	}
	return all, err
}
