package auth

import (
	"net/url"
	"slices"
	"strings"
)

// This file keeps credentials for the proxy from its backends. What it removes is what [Sources.Credential] finds.

// Except returns the sources that a service does not pass to its backends: all but those which its field pass names exactly, as header:NAME
// or query:NAME. A cookie or subprotocol with a credential is never passed.
func (s Sources) Except(pass []string) (withheld Sources) {
	named, _ := ParseSources(slices.DeleteFunc(slices.Clone(pass), func(word string) bool {
		return !strings.HasPrefix(word, "header:") && !strings.HasPrefix(word, "query:")
	}))
	for _, from := range s {
		if !slices.ContainsFunc(named, func(one source) bool { return one.kind == from.kind && one.name == from.name }) {
			withheld = append(withheld, from)
		}
	}
	return withheld
}

// String returns the words of the sources, as in a service's auth-from.
func (s Sources) String() string {
	words := make([]string, len(s))
	for i, from := range s {
		words[i] = [...]string{"header:", "header:", "query:", "cookie:", "subprotocol:"}[from.kind] + from.name
	}
	return strings.Join(words, ",")
}

// Headers returns the names of the header fields, in canonical form, that are withheld as a whole.
func (s Sources) Headers() (names []string) {
	for _, from := range s {
		if from.kind == fromAuthorization || from.kind == fromHeader {
			names = append(names, from.name)
		}
	}
	return names
}

// Parameters returns the names of the parameters of the URL's query that are withheld.
func (s Sources) Parameters() (names []string) {
	for _, from := range s {
		if from.kind == fromQuery {
			names = append(names, from.name)
		}
	}
	return names
}

// Query returns a URL's query without the parameters that may be credentials. The rest stays as the client wrote it.
func (s Sources) Query(query string) string {
	names := s.Parameters()
	if len(names) == 0 || query == "" {
		return query
	}
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), func(raw string) bool {
		key, _, _ := strings.Cut(raw, "=")
		plain, err := url.QueryUnescape(key)
		return err == nil && slices.Contains(names, plain)
	}), "&")
}

// Field returns the values of a header field, by its name in canonical form, without those that may be credentials.
func (s Sources) Field(name string, values []string) []string {
	for _, from := range s {
		switch {
		case len(values) == 0:
			return nil
		case from.name == name && (from.kind == fromAuthorization || from.kind == fromHeader):
			return nil
		case name == "Cookie" && from.kind == fromCookie:
			values = withoutCookie(values, from.name)
		}
	}
	return values
}

// withoutCookie returns the values of the header Cookie without one cookie.
func withoutCookie(lines []string, name string) (rest []string) {
	for _, line := range lines {
		var pairs []string
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.Trim(pair, " \t")
			if key, _, _ := strings.Cut(pair, "="); pair != "" && key != name {
				pairs = append(pairs, pair)
			}
		}
		if len(pairs) > 0 {
			rest = append(rest, strings.Join(pairs, "; "))
		}
	}
	return rest
}

// Subprotocols returns the subprotocols that a client offers without those that may be, or announce, credentials.
func (s Sources) Subprotocols(offers []string) []string {
	for _, from := range s {
		if from.kind == fromSubprotocol {
			offers = withoutWord(offers, from.name)
		}
	}
	return offers
}

func withoutWord(offers []string, word string) (rest []string) {
	for i := 0; i < len(offers); i++ {
		_, joined := joinedTo(word, offers[i])
		switch {
		case offers[i] == word:
			i++ // the credential follows
		case !joined:
			rest = append(rest, offers[i])
		}
	}
	return rest
}
