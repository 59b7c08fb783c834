package settings

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// orEmpty returns a check that also accepts an empty text, which stands for the default.
func orEmpty(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

// or is a value, or a word, which stands for another one.
type or[T comparable] struct {
	value.Value
	p      *T
	word   string
	stands T
}

// and returns how an enumeration of what is allowed ends.
func (v or[T]) and() string {
	if v.word == "" {
		return ""
	}
	return ", or " + v.word
}

// Allowed implements [value.Value].
func (v or[T]) Allowed() string { return v.Value.Allowed() + v.and() }

// Text implements [value.Value].
func (v or[T]) Text() string {
	if *v.p == v.stands {
		return v.word
	}
	return v.Value.Text()
}

// Set implements [value.Value].
func (v or[T]) Set(text string) error {
	if text == v.word {
		*v.p = v.stands
		return nil
	}
	if err := v.Value.Set(text); err != nil {
		return errors.New(err.Error() + v.and())
	}
	return nil
}

func checkNetwork(text string) error {
	_, err := origin.ParseNetwork(text)
	return err
}

// checkServer checks a host:port to connect to.
func checkServer(address string) error {
	if err := value.CheckAddress(address); err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(address); host == "" || value.AnyPort(address) {
		return value.Invalid("address", address, "a host and a port from 1 to 65535, such as 127.0.0.1:8600")
	}
	return nil
}

func checkPath(path string) error {
	if strings.ContainsRune(path, 0) || strings.TrimSpace(path) == "" {
		return fmt.Errorf("invalid path %q", path)
	}
	return nil
}

// checkSource checks a local address to dial from.
func checkSource(text string) error {
	_, err := dialfrom.Parse(text)
	return err
}

// What the configuration may refer to by default.
const (
	defaultSecretEnv       = secretPrefix + "*"
	defaultSecretDirectory = "/etc/wsbouncer/secrets"
)

// checkVariable checks the name of an environment variable that the configuration may refer to.
func checkVariable(text string) error {
	name := strings.TrimSuffix(text, "*")
	if name == "" || strings.Trim(strings.ToUpper(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return fmt.Errorf("invalid name %q: use letters, digits and _, and perhaps * at the end", text)
	}
	return nil
}

func checkDirectory(path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) == filepath.VolumeName(path)+string(filepath.Separator) {
		return fmt.Errorf("invalid directory %q: use an absolute path, but not the root", path)
	}
	return nil
}

// reference returns the value of a setting that refers to a token of the admin API. Its error does not repeat the text, which may be the token.
func reference(p *string, name string) value.Value {
	wrong := errors.New("invalid reference: use env:NAME or file:/path, or put the token itself into the environment variable " + Variable(name))
	return value.NewText(p, "env:NAME or file:/path; "+Variable(name)+" may also be the token itself", orEmpty(func(text string) error {
		if !isReference(text) || strings.ContainsAny(text, " \t\r\n") {
			return wrong
		}
		return nil
	}))
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// checkToken checks a token: it must be text that a header can have without quotes (RFC 6750, section 2.1, is narrower).
func checkToken(reference, token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s: invalid token: use printable ASCII without spaces", reference)
	}
	return nil
}

// checkHealthPath checks a path that clients request.
func checkHealthPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("invalid path %q: begin it with /", path)
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("?#%", r) }) {
		return fmt.Errorf("invalid path %q: use printable ASCII without spaces, ?, # and %%", path)
	}
	return nil
}
