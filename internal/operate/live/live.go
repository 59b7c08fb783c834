// Package live serves clients that watch a running proxy. It keeps a history of the last hour, always; and while a client is subscribed, it
// samples the statistics and all sessions, and sends each subscriber what there is to see, as server-sent events.
//
// One goroutine samples and encodes for all, so that subscribers with equal queries get the same bytes, and one more subscriber
// costs no more than writing them. A subscriber that does not take its events in time is dropped and costs the others nothing.
package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Source provides what the hub shows. Only the hub's goroutine calls the functions, one at a time. All are required.
type Source struct {
	// Stats returns the statistics.
	Stats func() api.Stats
	// Totals returns what was counted of all backends, also of those that are gone.
	Totals func() meter.Totals
	// Sessions appends all sessions and waiting clients to a slice, in no order, and returns it. It may return early when the context
	// ends.
	Sessions func(ctx context.Context, into []Session) []Session
	// Name sets a session's ID, Client, Peer, TraceID and Connection.
	Name func(*Session)
	// Ended returns the sessions that have ended after a cursor, oldest first, as far as they are remembered, and the cursor behind
	// them, which is how many have ended since the start.
	Ended func(after uint64) (ended []api.Session, next uint64)
	// Audit returns the actions of operators after a cursor, oldest first, in the same way.
	Audit func(after uint64) (actions []api.Action, next uint64)
}

// Session is a session in a sample. The hub asks for its ID, Client, Peer, TraceID and Connection only if it shows the session, or needs them to
// choose: to write these texts takes longer than everything else that is done with a session.
type Session struct {
	api.Session
	Number           uint64          // of its id: unique in the process
	Address          origin.Address  // of the client
	PeerAddress      *origin.Address // that its connection comes from; nil if that is Address
	ConnectionNumber uint32          // of the backend's connection
	Trace            *record.Trace   // whose id is shown; nil for none
}

// Options are the settings of a hub.
type Options struct {
	Source Source
	// Guard recovers from panics in the hub's goroutine, which then continues with the next event; nil lets them end the process.
	Guard *panics.Guard
	Log   *slog.Logger
}

const (
	// maxSubscribers bounds what subscribers may cost.
	maxSubscribers = 64
	// queueSize is how many events may wait for a subscriber. The first four or five wait as soon as it has subscribed.
	queueSize = 24
	// mostNews is how many ended sessions, or actions of operators, one event has at most.
	mostNews = 50
)

// Errors of Subscribe.
var (
	ErrBusy   = fmt.Errorf("%d subscribers read the stream of events already: end one, or try again later", maxSubscribers)
	ErrClosed = errors.New("the proxy is shutting down")
)

// Hub samples the proxy for all subscribers. Its methods may be called from any goroutine.
type Hub struct {
	options Options            // static
	ended   context.Context    // static; ends when the hub is closed
	end     context.CancelFunc // static
	running sync.WaitGroup     // the goroutine
	joined  chan struct{}      // of size one: a client has subscribed

	// Owned by the goroutine.
	tick    *time.Timer // when the next sample is due; it does not run without subscribers
	before  totals      // at the last point of the history
	sample  *sample     // the last one; nil without subscribers
	rates   rates
	endings uint64 // cursor: up to there, the subscribers know of the ended sessions
	actions uint64 // the same, of the audit log
	history []byte // the event with the whole history; nil if it is to be made anew

	mu          sync.Mutex
	points      []api.Point     // guarded by mu; oldest first
	closed      bool            // guarded by mu
	subscribers []*subscription // guarded by mu
}

// subscription is one subscriber. Its query and its channel are static; only the hub's goroutine sends on the channel and closes it.
type subscription struct {
	query  api.EventQuery
	events chan []byte
	// Owned by the goroutine.
	greeted bool      // it has had its first events
	dropped bool      // its channel is closed
	shown   time.Time // when the last sample was taken that it was sent
}

// Start starts a hub, which begins with the history at once. Close ends it.
func Start(o Options) *Hub {
	h := &Hub{options: o, joined: make(chan struct{}, 1), tick: time.NewTimer(time.Hour)}
	h.tick.Stop()
	h.ended, h.end = context.WithCancel(context.Background())
	h.running.Go(h.run)
	return h
}

// Close ends the hub and all subscriptions, and waits until its goroutine has ended.
func (h *Hub) Close() {
	h.end()
	h.running.Wait()
}

// Subscribe returns a stream of encoded events, each of which is to be written as it is and must not be changed. The channel is closed
// when the subscriber was too slow, or the hub is closed. The subscriber must call cancel when it stops reading. The
// error is ErrBusy or ErrClosed.
func (h *Hub) Subscribe(query api.EventQuery) (events <-chan []byte, cancel func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, nil, ErrClosed
	case len(h.subscribers) >= maxSubscribers:
		return nil, nil, ErrBusy
	}
	s := &subscription{query: query, events: make(chan []byte, queueSize)}
	h.subscribers = append(h.subscribers, s)
	tasks.Wake(h.joined)
	return s.events, func() { h.remove(s) }, nil
}

// remove forgets a subscription, and reports whether it was known.
func (h *Hub) remove(s *subscription) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.subscribers, s)
	if i >= 0 {
		h.subscribers = slices.Delete(h.subscribers, i, i+1)
	}
	return i >= 0
}

// present returns the subscriptions.
func (h *Hub) present() []*subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.subscribers)
}

// send queues an event for a subscriber, and drops a subscriber whose queue is full. Only the hub's goroutine calls it.
func (h *Hub) send(s *subscription, event []byte) {
	if event == nil || s.dropped {
		return
	}
	select {
	case s.events <- event:
	default:
		if h.remove(s) {
			s.dropped = true
			close(s.events)
			h.options.Log.Debug("a subscriber of the stream of events was too slow: dropped")
		}
	}
}

// disconnect ends all subscriptions permanently.
func (h *Hub) disconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, s := range h.subscribers {
		close(s.events)
	}
	h.subscribers = nil
}
