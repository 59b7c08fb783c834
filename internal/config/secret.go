package config

import (
	"fmt"
	"os"
	"strings"
)

// hidden is shown in the place of what may be secret.
const hidden = "(hidden)"

// isSecretName reports whether what bears this name is likely a secret.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "cookie", "token", "secret", "password", "passwd", "key", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// cutReference separates a value's reference to a secret from what stands before it: "Bearer env:NAME" is "Bearer " and
// "env:NAME". ok is false when the value has none.
func cutReference(value string) (before, reference string, ok bool) {
	i := strings.LastIndexByte(value, ' ') + 1
	before, reference = value[:i], value[i:]
	return before, reference, strings.HasPrefix(reference, "env:") || strings.HasPrefix(reference, "file:")
}

// Resolve returns a header's value with its secret in place: the last word of the value may be env:NAME, for an environment
// variable of this process, or file:/path, for a file's content without the line's end. The error names the reference, not
// the secret.
func Resolve(value string) (string, error) {
	before, reference, ok := cutReference(value)
	if !ok {
		return value, nil
	}
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		secret, ok := os.LookupEnv(name)
		if !ok {
			return "", fmt.Errorf("%s: the environment variable is not set", reference)
		}
		return checkSecret(before, reference, secret)
	}
	secret, err := os.ReadFile(strings.TrimPrefix(reference, "file:"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", reference, err)
	}
	return checkSecret(before, reference, strings.TrimRight(string(secret), "\r\n"))
}

func checkSecret(before, reference, secret string) (string, error) {
	if secret == "" {
		return "", fmt.Errorf("%s: the value is empty", reference)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "", fmt.Errorf("%s: the value has control characters, which a header cannot have", reference)
	}
	return before + secret, nil
}

// checkReference checks how a secret is referred to.
func checkReference(reference string) error {
	name, isVariable := strings.CutPrefix(reference, "env:")
	if !isVariable {
		if path := strings.TrimPrefix(reference, "file:"); path == "" {
			return fmt.Errorf("invalid reference %q: use file:/path", reference)
		}
		return nil
	}
	if name == "" || strings.Trim(strings.ToUpper(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return fmt.Errorf("invalid reference %q: use env:NAME with letters, digits and _", reference)
	}
	return nil
}

// showHeader returns a header's value as it may be shown: references, but no values.
func showHeader(value string) string {
	if _, reference, ok := cutReference(value); ok {
		return reference
	}
	if value == "" {
		return ""
	}
	return hidden
}

// showURL returns a URL as it may be shown: the values of parameters that look like secrets are hidden.
func showURL(text string) string {
	address, query, ok := strings.Cut(text, "?")
	if !ok {
		return text
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		if name, value, _ := strings.Cut(parameter, "="); value != "" && isSecretName(name) {
			parameters[i] = name + "=" + hidden
		}
	}
	return address + "?" + strings.Join(parameters, "&")
}
