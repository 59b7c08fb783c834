package stores

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden is shown instead of passwords.
const hidden = "xxxxx"

// passwords are settings that are secret, as they stand in a URL's query or in the form host=... password=...
var passwords = regexp.MustCompile(`(?i)((?:^|[?&\s])(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'?|[^&\s]*)`)

// Redact returns a database as it may be shown and logged: without passwords.
func Redact(database string) string {
	before, after, isURL := strings.Cut(database, "://")
	if !isURL {
		return passwords.ReplaceAllString(database, "${1}"+hidden)
	}
	// What stands before the last @ is the user, even where the password has characters that should have been written as %xx.
	// An @ behind the path's beginning may be part of it, but a password may have a / as well: in doubt it is hidden.
	user, rest := "", after
	if at := strings.LastIndexByte(after, '@'); at >= 0 {
		user, rest = after[:at], after[at:]
		if name, _, has := strings.Cut(user, ":"); has {
			user = name + ":" + hidden
		}
	}
	address, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		address += "?" + redactQuery(query)
	}
	return before + "://" + user + address
}

func redactQuery(query string) string {
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		name, _, _ := strings.Cut(parameter, "=")
		if plain, err := url.QueryUnescape(name); err != nil || strings.Contains(strings.ToLower(plain), "password") {
			parameters[i] = name + "=" + hidden
		}
	}
	return strings.Join(parameters, "&")
}
