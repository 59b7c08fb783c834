package admin

import (
	"net/http"
	"strconv"
	"time"
)

// promise is the page that says for how long deprecated paths work.
const promise = "https://github.com/wsbouncer/wsbouncer/blob/main/docs/reference/stability.md"

// deprecation says that a path will go. The path works until then; its answers say so, in headers for programs. It is deprecated in
// openapi.json, too, which a test checks.
type deprecation struct {
	since  time.Time // when the path was deprecated
	sunset time.Time // no release before this time removes it
}

// announce adds the headers Deprecation (RFC 9745, section 2) and Sunset (RFC 8594, section 3), and a link to the promise, to all
// answers of a handler.
func (d deprecation) announce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Deprecation", "@"+strconv.FormatInt(d.since.Unix(), 10))
		header.Set("Sunset", d.sunset.UTC().Format(http.TimeFormat))
		header.Add("Link", "<"+promise+`>; rel="deprecation"; type="text/html"`)
		next.ServeHTTP(w, r)
	})
}
