package admission

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// variantOf returns the variant of connections that a request needs. The error is a [handshake.Refusal].
func variantOf(s *route.Service, req *handshake.Request, arrival *arrival) (string, error) {
	passing := s.Passing
	if passing == nil {
		passing = &profile.HandshakePolicy{Profile: s.Profile}
	}
	rest, refusal := restOf(s, req.URL, passing)
	if refusal != nil {
		return "", refusal
	}
	request := profile.Request{Rest: rest, Query: req.URL.RawQuery, Field: arrival.field(req), Subprotocols: req.Subprotocols()}
	if len(passing.SetHeaders)+len(passing.SetQuery) > 0 {
		request.Client = arrival.known()
	}
	if s.Auth != nil {
		request = withoutCredentials(request, s.Auth.Withheld)
	}
	v, dropped, err := passing.Variant(request)
	if unfit := (*profile.UnfitValue)(nil); errors.As(err, &unfit) {
		return "", &handshake.Refusal{Status: http.StatusForbidden, Reason: forbidden, Logged: unfit.Error()}
	}
	if err != nil {
		return "", &handshake.Refusal{
			Status: http.StatusBadRequest, Reason: err.Error(), Logged: "the profile does not allow a parameter or header of the request",
		}
	}
	if dropped != 0 && s.Dropped != nil {
		s.Dropped.Report(passing, dropped, passing.Subprotocol != "" && req.Offers(passing.Subprotocol))
	}
	if !passing.Any() {
		return "", nil
	}
	if trace := arrival.Trace; v.Private && trace.Own() {
		passTrace(passing, &v, trace)
	}
	return s.Variants.Name(v, record.Voter(arrival.Address, arrival.Identity)), nil
}

// known returns what the proxy itself knows of a client, which its service may tell the backends.
func (a *arrival) known() (c profile.Client) {
	if a.Address.IsValid() {
		c.Address = a.Address.Addr().WithZone("").String()
	}
	if who := a.Identity; who != nil {
		c.Tenant, c.Subject, c.Key, c.Method = who.Tenant, who.Subject, who.Key, who.Method
	}
	return c
}

// withoutCredentials removes from a request what is meant for the proxy alone. So a client's key makes no connection its own.
func withoutCredentials(r profile.Request, withheld auth.Sources) profile.Request {
	field := r.Field
	r.Field = func(name string) []string { return withheld.Field(name, field(name)) }
	r.Query, r.Subprotocols = withheld.Query(r.Query), withheld.Subprotocols(r.Subprotocols)
	return r
}

// passTrace makes the session's span the parent of what the backend does on a connection that is dialed for this client, if the service
// passes the header. A client that says nothing of a trace gets no connection of its own for that.
func passTrace(passing *profile.HandshakePolicy, v *profile.Variant, trace *record.Trace) {
	passing.Replace(v, record.TraceparentHeader, trace.Traceparent())
	if trace.State == "" { // the client's belongs to a trace that the proxy does not continue
		passing.Replace(v, record.TracestateHeader, "")
	}
}

// restOf returns the part of the client's path that follows the service's path, as the client wrote it, if the service passes it on.
func restOf(s *route.Service, u *url.URL, passing *profile.HandshakePolicy) (string, *handshake.Refusal) {
	if !passing.Pass.Path || u.Path == s.Path {
		return "", nil
	}
	base, path := route.PrefixOf(s.Path), u.EscapedPath()
	end := route.Segments(path, strings.Count(base, "/"))
	if head, err := url.PathUnescape(path[:end]); err != nil || head != base { // the client wrote a slash as %2F
		return "", &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	rest := path[end:]
	if base == "" && rest == "/" {
		return "", nil
	}
	if rest != "" && rest[0] != '/' { // GET *
		return "", &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	if hasDotSegment(rest) {
		return "", &handshake.Refusal{Status: http.StatusBadRequest, Reason: "a path with . or .. in it is not passed on"}
	}
	return rest, nil
}

// hasDotSegment reports whether an encoded path has a segment . or .., which a server could follow to another path. A backslash
// counts as a slash, and what follows a semicolon in a segment is ignored, since some servers do the same.
func hasDotSegment(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	for segment := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}
