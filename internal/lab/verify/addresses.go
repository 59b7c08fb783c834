package verify

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// addresses are those of a server and of this machine, as errors and messages may name them: with their port, and without.
type addresses []string

// dialed notes the addresses of a connection, or of an attempt that failed.
func (a *addresses) dialed(target *handshake.Target, conn net.Conn, err error) {
	a.add(target.Address())
	if conn != nil {
		a.add(conn.LocalAddr().String(), conn.RemoteAddr().String())
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		for _, end := range []net.Addr{failed.Source, failed.Addr} {
			if end != nil {
				a.add(end.String())
			}
		}
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		a.add(unknown.Name, unknown.Server)
	}
}

func (a *addresses) add(more ...string) {
	for _, address := range more {
		host, _, err := net.SplitHostPort(address)
		for _, name := range []string{address, host} {
			if (name == address || err == nil) && name != "" && !slices.Contains(*a, name) {
				*a = append(*a, name)
			}
		}
	}
	slices.SortStableFunc(*a, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be the beginning of another
}

// hide returns a text without the addresses.
func (a addresses) hide(text string) string {
	for _, address := range a {
		text = replaceName(text, address, "(address)")
	}
	return text
}

// replaceName replaces a name in a text where it is not a part of a longer one.
func replaceName(text, name, with string) string {
	var b strings.Builder
	inName := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' }
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		i += from
		end := i + len(name)
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[from:i])
		if inName(before) || inName(after) {
			b.WriteString(name)
		} else {
			b.WriteString(with)
		}
		from = end
	}
}
