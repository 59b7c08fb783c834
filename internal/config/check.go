package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// The functions here check single fields. Empty is allowed where a field may be unset; that some must be set is for
// [Content.Validate].

func checkAny(string) error { return nil }

func checkPath(text string) error {
	switch {
	case text == "":
	case !strings.HasPrefix(text, "/"):
		return fmt.Errorf("invalid path %q: begin it with /", text)
	case strings.ContainsAny(text, "?#") || notPrintable(text):
		return fmt.Errorf("invalid path %q: use printable ASCII without ? and #", text)
	}
	return nil
}

func checkHost(text string) error {
	switch {
	case text == "" || net.ParseIP(text) != nil:
		return nil
	case strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || len(text) > 253 || slices.Contains(strings.Split(text, "."), ""):
		return fmt.Errorf("invalid host %q: use a name in lower case (xn--... if it is not ASCII) or an IP address, without a port", text)
	}
	return nil
}

func checkSubprotocol(text string) error {
	if text != "" && !profile.IsToken(text) {
		return fmt.Errorf("invalid subprotocol %q: use letters, digits and !#$%%&'*+-.^_`|~", text)
	}
	return nil
}

func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if text == "null" || text == "*" || err == nil && u.Scheme != "" && u.Host != "" && u.Path == "" && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	return fmt.Errorf("invalid origin %q: use one such as https://example.org or https://example.org:8443, null, or * for all", text)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	const use = "use a URL such as ws://10.0.0.5:2700/path"
	switch {
	case text == "":
		return nil
	case err != nil || u.Opaque != "" || u.Scheme == "": // what package url says may repeat a password
		return fmt.Errorf("invalid URL %q: %s", secret.URL(text), use)
	case u.Scheme != "ws" && u.Scheme != "wss":
		return fmt.Errorf("invalid URL %q: the scheme must be ws or wss", secret.URL(text))
	case u.Hostname() == "":
		return fmt.Errorf("invalid URL %q: the host is missing: %s", secret.URL(text), use)
	case u.User != nil:
		return fmt.Errorf("invalid URL %q: a WebSocket URL cannot have a user name: use a header Authorization", secret.URL(text))
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return fmt.Errorf("invalid URL %q: a WebSocket URL cannot have a fragment (#)", secret.URL(text))
	case !isPort(u.Port()):
		return fmt.Errorf("invalid URL %q: the port must be a number from 1 to 65535", secret.URL(text))
	case notPrintable(u.Host):
		return fmt.Errorf("invalid URL %q: the host name must be in ASCII (xn--...)", secret.URL(text))
	case notPrintable(u.RequestURI()):
		return fmt.Errorf("invalid URL %q: characters that are not printable ASCII must be percent-encoded (%%xx)", secret.URL(text))
	}
	if _, err := secret.References(text, nil); err != nil {
		return fmt.Errorf("invalid URL %q: %w", secret.URL(text), err)
	}
	return nil
}

func checkProbe(text string) error {
	const use = `use upgrade, a path such as /health, or a URL such as http://127.0.0.1:8000/health (http://:8000/health for that port of each backend)`
	bad := func(why string) error { return fmt.Errorf("invalid probe %q%s: %s", secret.URL(text), why, use) }
	if text == "" || text == "upgrade" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("")
	case u.Scheme == "" && u.Host == "" && strings.HasPrefix(text, "/"):
	case u.Scheme != "http" && u.Scheme != "https":
		return bad(" (the scheme must be http or https)")
	case u.Hostname() == "" && u.Port() == "":
		return bad(" (the host is missing)")
	case !isPort(u.Port()):
		return bad(" (the port must be a number from 1 to 65535)")
	case u.User != nil:
		return bad(" (it must not have a user name)")
	}
	return nil
}

func checkFile(text string) error {
	if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return fmt.Errorf("invalid path %q", text)
	}
	return nil
}

func checkLabel(key, value string) error {
	const most = 256
	switch {
	case key == "" || len(key) > most || strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz0123456789._/-") != "":
		return fmt.Errorf("invalid label name %q: use at most %d letters, digits and ._/-", key, most)
	case value == "" || len(value) > most || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: invalid value %q: use 1 to %d bytes of text without control characters", key, value, most)
	}
	return nil
}

// ownHeaders are the headers that the proxy itself sets (RFC 6455, section 4.1) or that would change where the request's
// body ends.
var ownHeaders = []string{"host", "connection", "upgrade", "content-length", "transfer-encoding"}

// checkHeader checks a header. Its errors do not show the value, which may be a secret.
func checkHeader(name, value string) error {
	lower := strings.ToLower(name)
	switch {
	case !profile.IsToken(name):
		return fmt.Errorf("invalid header name %q: use letters, digits and !#$%%&'*+-.^_`|~", name)
	case slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "sec-websocket-"):
		return fmt.Errorf("%s: the proxy itself sets this header", name)
	case value == "":
		return fmt.Errorf("%s: the value is missing", name)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: invalid value: use text without control characters, on one line", name)
	}
	if _, reference, ok := secret.CutReference(value); ok {
		if err := secret.CheckReference(reference); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	} else if secret.IsName(name) && isPlaceholder(value) {
		return fmt.Errorf("%s: %w", name, errPlaceholder)
	} else if secret.IsName(name) {
		return fmt.Errorf("%s looks like a secret, which is not stored here: end the value with env:NAME or file:/path", name)
	}
	return nil
}

// checkYAML checks what a profile may be before a parser sees it.
func checkYAML(text string) error {
	const most = 64 << 10
	switch {
	case len(text) > most:
		return fmt.Errorf("the profile has %d bytes: use at most %d", len(text), most)
	case !utf8.ValidString(text):
		return errors.New("invalid UTF-8: YAML must be UTF-8")
	case strings.ContainsRune(text, 0):
		return errors.New("the profile contains a zero byte, which YAML cannot contain")
	}
	return nil
}

func notPrintable(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isPort reports whether the text is a port to connect to, or nothing, for the scheme's own.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}
