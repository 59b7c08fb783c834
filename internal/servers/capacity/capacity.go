// Package capacity reads how many sessions a server takes at once, and how many it has, where its profile says that it publishes them, and
// decides from that how many connections there may be.
//
//   - parse.go reads one number from an answer, and keep.go decides what of a reading to believe. Both are pure.
//   - [Read] asks a server once. Package backend does so again and again.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Reading is what a server publishes at one moment. Numbers that it does not publish are [Unknown].
type Reading struct {
	Total int // sessions that it takes at once, at least 1
	Used  int // sessions that it has, whoever their clients are
}

// Unknown is a number that a server does not publish.
const Unknown = -1

// ErrNowhere is the error of a profile that does not say where servers publish their capacity.
var ErrNowhere = errors.New("the profile does not say where servers publish their capacity")

const (
	// readWithin bounds a reading.
	readWithin = 5 * time.Second
	// mostBody is the longest answer, in bytes. Metrics of a busy server are some 100 KiB.
	mostBody = 2 << 20
)

// Read asks a server once what its profile says that it publishes. Any goroutine may call it. An error says what is wrong with the answer; then
// nothing of it is to be believed.
func Read(ctx context.Context, p *profile.Profile, target *handshake.Target) (Reading, error) {
	c := p.Capacity()
	if !c.Known() {
		return Reading{}, ErrNowhere
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	r := Reading{Unknown, Unknown}
	bodies := make(map[string][]byte) // both numbers may be in one answer
	for _, n := range []struct {
		what  string
		place *profile.Published
		least int
		to    *int
	}{{"total", &c.Total, 1, &r.Total}, {"used", &c.Used, 0, &r.Used}} {
		if n.place.URL == "" {
			continue
		}
		body, ok := bodies[n.place.URL]
		if !ok {
			var err error
			if body, err = get(ctx, target, n.place.URL); err != nil {
				return Reading{}, err
			}
			bodies[n.place.URL] = body
		}
		var err error
		if *n.to, err = parse(n.place, body, target.Path(), n.least); err != nil {
			return Reading{}, fmt.Errorf("%s: %s: %w", n.place.URL, n.what, err)
		}
	}
	return r, nil
}

// get returns the answer of a server to a request for a URL as in a profile.
func get(ctx context.Context, target *handshake.Target, text string) ([]byte, error) {
	u, err := target.ResolveURL(text)
	if err != nil {
		return nil, err
	}
	response, err := target.Get(ctx, u, true)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s answered %s", secret.URL(u.String()), response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, mostBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", secret.URL(u.String()), err)
	case len(body) > mostBody:
		return nil, fmt.Errorf("%s: the answer is longer than %d bytes", secret.URL(u.String()), mostBody)
	}
	return body, nil
}

// Own reports whether a server publishes its capacity where it takes connections, so that a request reaches no other program.
func Own(p *profile.Profile) bool {
	c := p.Capacity()
	return c.Known() && !isElsewhere(&c.Total) && !isElsewhere(&c.Used)
}

func isElsewhere(p *profile.Published) bool { return p.URL != "" && p.URL[0] == ':' }
