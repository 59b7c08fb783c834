package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Sources are the parts of an upgrade request in which a service looks for its clients' credentials, in order. They are immutable.
type Sources []source

type source struct {
	kind sourceKind
	name string // of the header in canonical form, parameter or cookie; the subprotocol's word
	bare bool   // fromAuthorization: the credential may stand there without a scheme
}

type sourceKind uint8

const (
	fromAuthorization sourceKind = iota // Authorization: Bearer X, or Token X
	fromHeader
	fromQuery
	fromCookie
	fromSubprotocol
)

// ErrTwice is returned for a request that has a credential twice in one place: what reads it behind the proxy may take the other one.
var ErrTwice = errors.New("the request has more than one credential in the same place")

// ParseSources reads the words of a service's auth-from, which package config has checked: header, header:NAME, query:NAME, cookie:NAME,
// subprotocol:WORD. The error names the first word that is none of these.
func ParseSources(words []string) (Sources, error) {
	sources := make(Sources, 0, len(words))
	for _, word := range words {
		kind, name, named := strings.Cut(word, ":")
		switch {
		case word == "header":
			sources = append(sources, source{kind: fromAuthorization, name: authorization})
		case name == "":
			return nil, unknownSource(word)
		case kind == "header":
			s := source{kind: fromHeader, name: textproto.CanonicalMIMEHeaderKey(name)}
			if s.name == authorization {
				s.kind, s.bare = fromAuthorization, true
			}
			sources = append(sources, s)
		case kind == "query":
			sources = append(sources, source{kind: fromQuery, name: name})
		case kind == "cookie":
			sources = append(sources, source{kind: fromCookie, name: name})
		case kind == "subprotocol" && named:
			sources = append(sources, source{kind: fromSubprotocol, name: name})
		default:
			return nil, unknownSource(word)
		}
	}
	return sources, nil
}

// authorization is the header of RFC 9110, section 11.6.2.
const authorization = "Authorization"

func unknownSource(word string) error {
	return fmt.Errorf("invalid source %q: use header, header:NAME, query:NAME, cookie:NAME or subprotocol:WORD", word)
}

// Credential returns the credential of the first source that the request has one in, empty if it has none, and the subprotocol to grant
// to the client if the server grants none of the others. The error is [ErrTwice].
func (s Sources) Credential(r *http.Request) (credential, grant string, err error) {
	for _, from := range s {
		var found []string
		word := ""
		switch from.kind {
		case fromAuthorization:
			found = bearers(r.Header[from.name], from.bare)
		case fromHeader:
			found = trimmed(r.Header[from.name])
		case fromQuery:
			found = parameters(r.URL.RawQuery, from.name)
		case fromCookie:
			found = cookies(r.Header["Cookie"], from.name)
		case fromSubprotocol:
			found, word = inSubprotocols(r.Header["Sec-Websocket-Protocol"], from.name)
		}
		if len(found) > 1 {
			return "", "", ErrTwice
		}
		if word != "" && grant == "" {
			grant = word
		}
		if len(found) == 1 && credential == "" {
			credential = found[0]
		}
	}
	return credential, grant, nil
}

// bearers returns the credentials in Authorization: Bearer (RFC 6750, section 2.1), or Token, which several speech services use;
// and, if bare ones count, those without a scheme, as AssemblyAI's SDK sends them.
func bearers(values []string, bare bool) (found []string) {
	for _, value := range values {
		scheme, credential, more := strings.Cut(strings.Trim(value, " \t"), " ")
		if strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Token") {
			if credential = strings.Trim(credential, " \t"); credential != "" {
				found = append(found, credential)
			}
		} else if bare && !more && !IsEmpty(value) {
			found = append(found, scheme)
		}
	}
	return found
}

// IsEmpty reports whether an Authorization header has no credential: nothing, or a scheme alone.
func IsEmpty(authorization string) bool {
	switch strings.ToLower(strings.Trim(authorization, " \t")) {
	case "", "bearer", "token", "basic", "digest", "negotiate":
		return true
	}
	return false
}

func trimmed(values []string) (found []string) {
	for _, value := range values {
		if value = strings.Trim(value, " \t"); value != "" {
			found = append(found, value)
		}
	}
	return found
}

// parameters returns the values of a parameter of a URL's query.
func parameters(query, name string) (found []string) {
	if query == "" {
		return nil
	}
	for raw := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(raw, "=")
		if plain, err := url.QueryUnescape(key); err != nil || plain != name {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		if value != "" {
			found = append(found, value)
		}
	}
	return found
}

// cookies returns the values of a cookie (RFC 6265, section 4.2.1).
func cookies(lines []string, name string) (found []string) {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if key != name {
				continue
			}
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if value != "" {
				found = append(found, value)
			}
		}
	}
	return found
}

// inSubprotocols returns the credentials that are offered as subprotocols, and the word to grant, empty if it is not offered by itself.
func inSubprotocols(lines []string, word string) (found []string, grant string) {
	offers := offered(lines)
	for i := 0; i < len(offers); i++ {
		switch credential, joined := joinedTo(word, offers[i]); {
		case offers[i] == word:
			grant = word
			if i++; i < len(offers) {
				found = append(found, offers[i])
			}
		case joined:
			found = append(found, credential)
		}
	}
	return found, grant
}

// offered returns the subprotocols that a client offers (RFC 6455, section 4.1).
func offered(lines []string) (offers []string) {
	for _, line := range lines {
		for offer := range strings.SplitSeq(line, ",") {
			if offer = strings.TrimSpace(offer); offer != "" {
				offers = append(offers, offer)
			}
		}
	}
	return offers
}

// joinedTo returns the credential in a subprotocol such as openai-insecure-api-key.CREDENTIAL: a word, a dot unless the word itself ends
// with something else than a letter or digit, and the credential.
func joinedTo(word, offer string) (credential string, ok bool) {
	rest, ok := strings.CutPrefix(offer, word)
	if ok && isAlphanumeric(word[len(word)-1]) {
		rest, ok = strings.CutPrefix(rest, ".")
	}
	return rest, ok && rest != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
