package backend

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/machine"
)

// Probe is how a backend is asked whether it is well, beside what its connections tell.
type Probe struct {
	// URL is asked for with GET and must answer 2xx; nil for an upgrade that is closed at once.
	URL *url.URL
	// Interval is the time between two probes, plus or minus a fifth; default 10 s.
	Interval time.Duration
	// Timeout bounds each probe; default 2 s.
	Timeout time.Duration
	// Fall is how many must fail in a row for the backend to be taken out of service; default 3.
	Fall int
	// Rise is how many must succeed in a row for it to come back; default 2.
	Rise int
}

// equal tells whether two probes ask the same in the same way.
func (p *Probe) equal(other *Probe) bool {
	a, b := *p, *other
	a.URL, b.URL = nil, nil
	if (p.URL == nil) != (other.URL == nil) || p.URL != nil && p.URL.String() != other.URL.String() {
		return false
	}
	return a == b
}

func (p *Probe) setDefaults() {
	if p.Interval <= 0 {
		p.Interval = 10 * time.Second
	}
	if p.Timeout <= 0 {
		p.Timeout = 2 * time.Second
	}
	if p.Fall <= 0 {
		p.Fall = 3
	}
	if p.Rise <= 0 {
		p.Rise = 2
	}
}

// errNoRoom is returned by a probe for which the backend has no place left. It says nothing about the backend.
var errNoRoom = errors.New("no place for the probe")

// prober probes until ctx ends, and tells the verdict whenever it is reached. The first success is one at once, so that a
// backend which is well does not wait for its clients.
func prober(ctx context.Context, p Probe, probe func(context.Context) error, tell func(up bool, reason string)) {
	up, known, agreeing := false, false, 0
	for {
		attempt, cancel := context.WithTimeout(ctx, p.Timeout)
		err := probe(attempt)
		cancel()
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, errNoRoom), machine.Local(err):
		case known && (err == nil) == up:
			agreeing = 0
		default:
			agreeing++
			if err == nil && (agreeing >= p.Rise || !known) {
				up, known, agreeing = true, true, 0
				tell(true, "")
			} else if err != nil && agreeing >= p.Fall {
				up, known, agreeing = false, true, 0
				tell(false, err.Error())
			}
		}
		pause := time.NewTimer(p.Interval*4/5 + rand.N(max(p.Interval*2/5, 1)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// probe asks the backend once, at the URL, or by an upgrade if that is nil.
func (b *Backend) probe(ctx context.Context, u *url.URL) error {
	if u == nil {
		return b.probeUpgrade(ctx)
	}
	config, err := probeTLS(u, b.options().Target)
	if err != nil {
		return err
	}
	return probeHTTP(ctx, u, config)
}

// probeUpgrade establishes a connection and closes it at once. It takes a place of the pool, so that the server never sees
// more connections than its cap.
func (b *Backend) probeUpgrade(ctx context.Context) error {
	done, ok := b.pool.ReserveProbe()
	if !ok {
		return errNoRoom
	}
	defer done()
	r := b.config.Load()
	established, err := r.Target.Dial(ctx)
	if err != nil {
		if anonymous := (anonymousRefusedError{}); errors.As(r.judge("", err), &anonymous) {
			return nil // it works, and wants to know whose connection it is
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
	// How the server ends the connection is not asked: that it accepted it is the answer.
	_, _ = io.Copy(io.Discard, io.LimitReader(established.Conn, 64<<10))
	return nil
}
