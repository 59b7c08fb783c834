package external

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
)

// The fields that describe the request to the server, and that no client can set.
const (
	originalURI    = "X-Original-Uri"
	originalMethod = "X-Original-Method"
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	realIP         = "X-Real-Ip"
	serviceName    = "X-Wsbouncer-Service"
)

// withheld are fields that concern the client's connection only (RFC 9110, section 7.6.1), that would make the question another one, or
// by which a client could pretend to come from elsewhere.
var withheld = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Host", "Content-Length", "Content-Type", "Expect", "Range", "Accept-Encoding", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
	"Forwarded", originalMethod, originalURI, "X-Original-Url", realIP,
}

// withheldPrefixes begin the names of further ones.
var withheldPrefixes = []string{"Sec-Websocket-", "X-Forwarded-", "X-Wsbouncer-"}

// question returns the header of a question: that of the client's request, and what the server may want to know of it. A credential that
// came in another way is in Authorization, too. The error is an [auth.Denied]: a request that cannot be asked about is the client's fault.
func question(a *auth.Attempt) (http.Header, error) {
	header := make(http.Header, len(a.Request.Header)+6)
	named := strings.Join(a.Request.Header["Connection"], ",")
	for name, values := range a.Request.Header {
		if !isWithheld(name) && !names(named, name) {
			header[name] = values
		}
	}
	if a.Credential != "" && header["Authorization"] == nil {
		header.Set("Authorization", "Bearer "+a.Credential)
	}
	if header["User-Agent"] == nil { // or package http says its own
		header.Set("User-Agent", "wsbouncer")
	}
	header.Set(originalURI, a.Request.URL.RequestURI())
	header.Set(originalMethod, a.Request.Method)
	header.Set(forwardedHost, a.Request.Host)
	header.Set(serviceName, a.Service)
	if a.Client.IsValid() {
		client := a.Client.WithZone("").String()
		header.Set(forwardedFor, client)
		header.Set(realIP, client)
	}
	for name, values := range header {
		if !isToken(name) || slices.ContainsFunc(values, unfit) {
			return nil, &auth.Denied{Status: http.StatusBadRequest, Err: errUnfit}
		}
	}
	return header, nil
}

// isWithheld reports whether the server does not get a field of the client's request. Servers that hand fields to programs as CGI does (RFC
// 3875, section 4.1.18) take X_Real_IP for X-Real-IP, and some take any other character for the hyphen, so these names are withheld, too.
func isWithheld(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '-'
		}
		return r
	}, name))
	return slices.Contains(withheld, name) || slices.ContainsFunc(withheldPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

var errUnfit = errors.New("the request's header has characters that HTTP does not allow, so no server can be asked about it")

// unfit reports whether a text cannot be the value of a field (RFC 9110, section 5.5).
func unfit(value string) bool {
	return strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// isToken reports whether a text can be the name of a field (RFC 9110, section 5.6.2).
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// names reports whether a list with commas has this name.
func names(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(item), name) {
			return true
		}
	}
	return false
}

// keyOf returns what an answer holds for: the same question, with all of its fields, since the server may decide by any of them.
func keyOf(header http.Header) (key [sha256.Size]byte) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(sum, "%d:%s%d:%s", len(name), name, len(value), value) // so that no value can take over a part of the next
		}
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// givesNothing reports whether the client has given nothing that could be a guess: neither a credential where the service looks for one, nor
// one of another scheme, such as Basic, which only the server can judge.
func givesNothing(a *auth.Attempt) bool {
	return a.Credential == "" && !slices.ContainsFunc(a.Request.Header["Authorization"], func(value string) bool { return !auth.IsEmpty(value) })
}
