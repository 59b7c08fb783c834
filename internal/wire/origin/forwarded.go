package origin

import (
	"net/http"
	"slices"
	"strings"
)

// addressList is a list of addresses in header fields, from which entries are taken at the end. It looks at no more than it must: whatever
// a client wrote stands at the beginning, and must not change how the end is read, which trusted load balancers wrote.
type addressList struct {
	lines []string // that are left; the last one may be shortened
	cut   func(line string) (rest, last string, ok bool)
	read  func(element string) (entry string, ok bool)
}

// last takes the last element from the list and returns its entry; ok is false if there is none, or if it cannot be read.
func (l *addressList) last() (entry string, ok bool) {
	for len(l.lines) > 0 {
		i := len(l.lines) - 1
		rest, element, ok := l.cut(l.lines[i])
		if !ok {
			return "", false
		}
		if l.lines[i] = rest; rest == "" {
			l.lines = l.lines[:i]
		}
		if element = strings.Trim(element, " \t"); element != "" { // empty elements do not count (RFC 9110, section 5.6.1.2)
			return l.read(element)
		}
	}
	return "", false
}

// xForwardedFor returns the list in X-Forwarded-For, to which no standard applies: addresses between commas, some with a port.
func xForwardedFor(header http.Header) addressList {
	return addressList{
		lines: slices.Clone(header["X-Forwarded-For"]),
		cut: func(line string) (rest, last string, ok bool) {
			i := strings.LastIndexByte(line, ',')
			return line[:max(i, 0)], line[i+1:], true
		},
		read: func(element string) (string, bool) { return element, true },
	}
}

// forwarded returns the list in Forwarded (RFC 7239, section 4): elements between commas, each of name=value between semicolons, where a
// value may be quoted.
func forwarded(header http.Header) addressList {
	return addressList{lines: slices.Clone(header["Forwarded"]), cut: cutElement, read: readElement}
}

// cutElement cuts the last element from a line. It reads the line from its end, so that a quote that a client left open does not
// swallow what a load balancer has appended.
func cutElement(line string) (rest, last string, ok bool) {
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case ',':
			return line[:i], line[i+1:], true
		case '"':
			if i = openingQuote(line[:i]); i < 0 {
				return "", "", false
			}
		}
	}
	return "", line, true
}

// openingQuote returns the index of the last quote in a text that no backslash escapes; -1 for none.
func openingQuote(text string) int {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] != '"' {
			continue
		}
		escapes := 0
		for i-escapes > 0 && text[i-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
		i -= escapes
	}
	return -1
}

// readElement returns the address in an element's parameter for, without its port if that is hidden. ok is false if there is none, or more
// than one, which is not allowed.
func readElement(element string) (entry string, ok bool) {
	for element != "" {
		end := len(element)
		for i := 0; i < len(element); i++ {
			if element[i] == '"' {
				length := closingQuote(element[i+1:])
				if length < 0 {
					return "", false
				}
				i += 1 + length
			} else if element[i] == ';' {
				end = i
				break
			}
		}
		pair := element[:end]
		element = element[min(end+1, len(element)):]
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if ok {
			return "", false
		}
		entry, ok = unquoted(strings.Trim(value, " \t")), true
	}
	if host, _, hidden := strings.Cut(entry, ":_"); hidden { // an obfuscated port (section 6.3)
		entry = host
	}
	return entry, ok
}

// closingQuote returns the index of the first quote in a text that no backslash escapes; -1 for none.
func closingQuote(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unquoted returns the value of a quoted string (RFC 9110, section 5.6.4), and any other text as it is.
func unquoted(text string) string {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return text
	}
	text = text[1 : len(text)-1]
	if !strings.Contains(text, `\`) {
		return text
	}
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
