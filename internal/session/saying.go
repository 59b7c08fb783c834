package session

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// variant returns the name of the variant of connections that a request needs. The error is a refusal.
func (s *Service) variant(req *handshake.Request) (string, error) {
	passing := s.Passing
	if passing == nil {
		passing = &profile.Passing{Profile: s.Profile}
	}
	rest, refusal := s.rest(req.URL, passing)
	if refusal != nil {
		return "", refusal
	}
	v, dropped, err := passing.Variant(profile.Request{
		Rest: rest, Query: req.URL.RawQuery, Field: req.Forwarded, Subprotocols: req.Subprotocols(),
	})
	if err != nil {
		return "", &handshake.Refusal{Status: http.StatusBadRequest, Reason: err.Error()}
	}
	if dropped != 0 && s.Dropped != nil {
		s.Dropped.tell(passing, dropped, passing.Subprotocol != "" && req.Offers(passing.Subprotocol))
	}
	if !passing.Any() {
		return "", nil
	}
	return s.Variants.Name(v), nil
}

// rest returns what follows the service's path in the client's, as the client wrote it, if that is passed on.
func (s *Service) rest(u *url.URL, passing *profile.Passing) (string, *handshake.Refusal) {
	if !passing.Pass.Path || u.Path == s.Path {
		return "", nil
	}
	base, path := prefixOf(s.Path), u.EscapedPath()
	end := segments(path, strings.Count(base, "/"))
	if head, err := url.PathUnescape(path[:end]); err != nil || head != base { // a slash was written as %2F
		return "", &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	rest := path[end:]
	if base == "" && rest == "/" {
		return "", nil
	}
	if rest != "" && rest[0] != '/' { // GET *
		return "", &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	if climbs(rest) {
		return "", &handshake.Refusal{Status: http.StatusBadRequest, Reason: "a path with . or .. in it is not passed on"}
	}
	return rest, nil
}

// segments returns how many bytes the first n segments of a path have, each with the slash before it.
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

// climbs tells whether a server could take an encoded path for one that leads elsewhere, by . or .. in it. Backslashes count as
// slashes, and parameters of a segment (behind a semicolon) do not count, since some servers see it so.
func climbs(path string) bool {
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

// Dropped tells the log what a service drops of its clients' handshakes, each kind once. It may be used from any goroutine, and is
// shared by all versions of a service.
type Dropped struct {
	log     *slog.Logger // static
	service string       // static
	told    atomic.Uint32
}

// NewDropped returns what tells the log for the service of that name.
func NewDropped(service string, log *slog.Logger) *Dropped {
	return &Dropped{log: log, service: service}
}

// tell tells what of a client's handshake was dropped. granted tells whether the client gets one of the subprotocols that it offers.
// What the client said is never told, since it may be a secret.
func (d *Dropped) tell(passing *profile.Passing, dropped profile.Said, granted bool) {
	if dropped &^= profile.Said(d.told.Or(uint32(dropped))); dropped == 0 {
		return
	}
	about := []any{"service", d.service, "dropped", dropped.String(), "to_pass_it", "--pass " + passing.WordsFor(dropped)}
	if dropped&profile.SaysSubprotocol != 0 && !granted {
		about = append(about, "consequence", "browsers fail with code 1006, since they are granted none of the subprotocols that they offer")
	}
	d.log.Warn("a client's handshake says more than this service passes to its backends", about...)
}
