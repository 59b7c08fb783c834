package session

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// variant returns the variant of connections that a request needs. The error is a [handshake.Refusal].
func (s *Service) variant(req *handshake.Request, arrival *arrival) (string, error) {
	passing := s.Passing
	if passing == nil {
		passing = &profile.HandshakePolicy{Profile: s.Profile}
	}
	rest, refusal := s.rest(req.URL, passing)
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
		s.Dropped.report(passing, dropped, passing.Subprotocol != "" && req.Offers(passing.Subprotocol))
	}
	if !passing.Any() {
		return "", nil
	}
	if trace := arrival.Trace; v.Private && trace.own() {
		passTrace(passing, &v, trace)
	}
	return s.Variants.Name(v), nil
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
func passTrace(passing *profile.HandshakePolicy, v *profile.Variant, trace *Trace) {
	passing.Replace(v, traceparentHeader, trace.traceparent())
	if trace.State == "" { // the client's belongs to a trace that the proxy does not go on with
		passing.Replace(v, tracestateHeader, "")
	}
}

// rest returns the part of the client's path that follows the service's path, as the client wrote it, if the service passes it on.
func (s *Service) rest(u *url.URL, passing *profile.HandshakePolicy) (string, *handshake.Refusal) {
	if !passing.Pass.Path || u.Path == s.Path {
		return "", nil
	}
	base, path := prefixOf(s.Path), u.EscapedPath()
	end := segments(path, strings.Count(base, "/"))
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

// segments returns the length in bytes of the first n segments of a path, each with the slash before it.
func segments(path string, n int) int {
	end := 0
	for range n {
		next := strings.IndexByte(path[min(end+1, len(path)):], '/')
		if next < 0 {
			return len(path)
		}
		end += 1 + next
	}
	return end
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

// Dropped logs what a service does not pass on from its clients' handshakes, once for each kind. Any goroutine may use it, and all
// versions of a service share one.
type Dropped struct {
	log      *slog.Logger  // static
	service  string        // static
	reported atomic.Uint32 // kinds that were logged
}

// NewDropped returns a Dropped for the service of that name.
func NewDropped(service string, log *slog.Logger) *Dropped {
	return &Dropped{log: log, service: service}
}

// report logs what was dropped from a client's handshake, but not its values, which may be secrets. granted is true if the client
// gets one of the subprotocols that it offers.
func (d *Dropped) report(passing *profile.HandshakePolicy, dropped profile.HandshakeParts, granted bool) {
	if dropped &^= profile.HandshakeParts(d.reported.Or(uint32(dropped))); dropped == 0 {
		return
	}
	about := []any{"service", d.service, "dropped", dropped.String(), "to_pass_it", "--pass " + passing.PassFor(dropped)}
	if dropped&profile.PartSubprotocols != 0 && !granted {
		about = append(about, "consequence", "browsers fail with code 1006, since they are granted none of the subprotocols that they offer")
	}
	d.log.Warn("a client's handshake says more than this service passes to its backends", about...)
}
