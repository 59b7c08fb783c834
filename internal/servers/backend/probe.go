package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Probe is how a backend is probed: asked from time to time whether it works, besides what its connections show.
type Probe struct {
	// URL is requested with GET and must answer 2xx; nil for an upgrade that is closed at once.
	URL *url.URL
	// Interval is the time between two probes, plus or minus a fifth; default 10 s.
	Interval time.Duration
	// Timeout bounds each probe; default 2 s.
	Timeout time.Duration
	// Fall is how many probes in a row must fail to take the backend out of service; default 3.
	Fall int
	// Rise is how many in a row must succeed to bring it back; default 2.
	Rise int
}

// equal reports whether two probes, each nil for none, have the same settings.
func (p *Probe) equal(other *Probe) bool {
	if p == nil || other == nil {
		return p == other
	}
	a, b := *p, *other
	a.URL, b.URL = nil, nil
	if (p.URL == nil) != (other.URL == nil) || p.URL != nil && p.URL.String() != other.URL.String() {
		return false
	}
	return a == b
}

func (p *Probe) setDefaults() {
	setDefault(&p.Interval, 10*time.Second)
	setDefault(&p.Timeout, 2*time.Second)
	setDefault(&p.Fall, 3)
	setDefault(&p.Rise, 2)
}

// errNoRoom is a probe's error when the server has no place left for it besides those in use. It says nothing about the backend.
var errNoRoom = errors.New("no place for the probe")

// runProbe probes until ctx ends, and tells each verdict. Each probe takes a place first, and there is none if that returns false, which says nothing
// about the backend. The wait for the place is no part of the probe's time.
func runProbe(
	ctx context.Context, p Probe, place func(context.Context) (done func(), ok bool), probe func(context.Context) error, tell func(up bool, reason string),
) {
	v := verdict{fall: p.Fall, rise: p.Rise}
	repeat(ctx, func() time.Duration {
		done, ok := place(ctx)
		if !ok {
			return p.Interval
		}
		defer done()
		attempt, cancel := context.WithTimeout(ctx, p.Timeout)
		defer cancel()
		err := probe(attempt)
		if ctx.Err() == nil && !errors.Is(err, errNoRoom) && !machine.Local(err) {
			v.note(err, tell)
		}
		return p.Interval
	})
}

// probe probes the backend once, at the URL, or by an upgrade if that is nil.
func (b *Backend) probe(ctx context.Context, u *url.URL) error {
	if u == nil {
		return b.probeUpgrade(ctx)
	}
	return probeHTTP(ctx, u, b.options().Target)
}

// placeForProbe takes a place of the pool for a probe by upgrade, so that the server never sees more connections than its cap, and returns false if
// there is none. A probe at the URL needs none. A backend in service is probed only if a place is free. Out of service, an idle connection makes room:
// no client can use it, and if it kept its place, a full pool would never be probed, and never be back.
func (b *Backend) placeForProbe(ctx context.Context, u *url.URL) (done func(), ok bool) {
	if u != nil {
		return func() {}, true
	}
	if !b.worker.mayDial() {
		return nil, false
	}
	if done, ok = b.pool.ReserveProbe(); ok || b.pool.Stats().Usable {
		return done, ok
	}
	spare, _, ok := b.reserveSpare()
	if !ok {
		return nil, false
	}
	select {
	case <-spare.Ready():
		return spare.Done, true
	case <-ctx.Done():
		spare.Done()
		return nil, false
	}
}

// reserveSpare takes a spare place of the pool, which may have to wait for: retired tells that it is there when an idle connection has closed.
func (b *Backend) reserveSpare() (spare *pool.Spare[*Conn], retired, ok bool) {
	spare, conn, retired, ok := b.pool.ReserveSpare()
	if retired {
		b.worker.retire(conn)
	}
	return spare, retired, ok
}

// probeUpgrade establishes a connection and closes it at once. The caller has a place for it.
func (b *Backend) probeUpgrade(ctx context.Context) error {
	r := b.config.Load()
	established, err := r.Target.Dial(ctx)
	if err != nil {
		why, anonymous := r.classify(clientValues{}, err), anonymousRefusedError{}
		switch {
		case errors.As(why, &anonymous):
			return nil // it works, and wants a client's credentials
		case errors.Is(why, errFull) && connectionsOf(b.pool.Stats()).Held > 0: // otherwise it has failed, as with a dial
			return errNoRoom
		}
		return err
	}
	defer established.Conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = established.Conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var buf [frame.MaxControlSize]byte
	payload := frame.AppendClosePayload(nil, frame.NormalClosure, "")
	if _, err := established.Conn.Write(frame.AppendControl(buf[:0], frame.Close, payload, true)); err != nil {
		return err
	}
	// How the server ends the connection does not matter: it has accepted it.
	_, _ = io.Copy(io.Discard, io.LimitReader(established.Conn, 64<<10))
	return nil
}

// probeHTTP requests the URL, over a new connection, since connecting is part of the probe.
func probeHTTP(ctx context.Context, u *url.URL, target *handshake.Target) error {
	response, err := target.Get(ctx, u, false)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", secret.URL(u.String()), response.Status)
	}
	return nil
}

// probeBy probes the backend with this setting from now on; nil is for no probes. With anew, it probes at once even if the setting is
// the same, because the backend is dialed with other options now. It does not wait for a probe that is running. It is called with
// updating held.
func (b *Backend) probeBy(probe *Probe, anew bool) {
	before := b.probed
	same := before.equal(probe)
	if same && (!anew || probe == nil) {
		return
	}
	b.probed = probe
	b.probing.replace(b.worker.ctx, func(ctx context.Context) {
		if !same && before != nil {
			b.worker.probeEnded(probe != nil)
		}
		if probe == nil {
			return
		}
		b.report.begins(probeOf)
		place := func(ctx context.Context) (done func(), ok bool) { return b.placeForProbe(ctx, probe.URL) }
		runProbe(ctx, *probe, place, func(ctx context.Context) error {
			err := b.probe(ctx, probe.URL)
			if err == nil {
				b.worker.checked(false)
			}
			return err
		}, b.worker.probed)
	})
}
