package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Update is news from the proxy. Fields that are nil say nothing new.
type Update struct {
	At       time.Time
	Stats    *api.Stats
	Sessions *api.SessionList
	Waiting  *api.SessionList // clients in queues, those that have waited longest first
	Away     error            // why the proxy does not answer
}

// Times of a feed.
const (
	retryFirst = 500 * time.Millisecond // until the first attempt after the proxy went away
	retryMost  = 5 * time.Second
	// silence is how many intervals may pass without an event before the proxy counts as gone.
	silence = 3
	// mostWaiting is how many waiting clients are read.
	mostWaiting = 100
)

// feed reads a proxy's stream of events and passes on what it says. It is owned by the goroutine that calls run.
type feed struct {
	proxy    *client.Client
	interval time.Duration
	emit     func(Update)
	inFleet  bool // what is shown is a whole fleet
}

// run reads until ctx ends. A proxy that goes away is asked again, less and less often. A change of the query begins a new stream.
func (f *feed) run(ctx context.Context, queries <-chan api.SessionQuery, query api.SessionQuery) {
	wait := retryFirst
	for {
		streaming, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		alive := make(chan struct{}, 1)
		go func() { ended <- f.stream(streaming, query, alive) }()
		var err error
		running := true
		for running {
			select {
			case query = <-queries:
				stop()
				<-ended
				running = false
			case <-alive:
				wait = retryFirst
			case err = <-ended:
				running = false
			}
		}
		stop()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		f.emit(Update{At: time.Now(), Away: err})
		select {
		case <-time.After(wait):
		case query = <-queries:
		case <-ctx.Done():
		}
		wait = min(2*wait, retryMost)
	}
}

// stream reads one stream until it ends. It says on alive when the first event has come.
func (f *feed) stream(ctx context.Context, query api.SessionQuery, alive chan<- struct{}) error {
	seconds := max(api.MinEventInterval, min(api.MaxEventInterval, int(f.interval.Seconds())))
	q := api.EventQuery{IntervalSeconds: seconds, SessionQuery: query}
	s, err := f.proxy.Stream(ctx, api.EventsPath, q.Values(), max(10*time.Second, silence*time.Duration(seconds)*time.Second))
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		name, data, err := s.Event()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the proxy at %s ended the stream of events", f.proxy.Address())
		}
		if err != nil {
			return err
		}
		u := Update{At: time.Now()}
		switch name {
		case api.EventStats:
			err = json.Unmarshal(data, &u.Stats)
		case api.EventSessions:
			err = json.Unmarshal(data, &u.Sessions)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the events of the proxy at %s: %w", f.proxy.Address(), err)
		}
		if u.Sessions != nil && f.inFleet { // the stream has those of one proxy
			continue
		}
		if err := f.addFleet(ctx, &u, query); err != nil {
			return err
		}
		if err := f.addWaiting(ctx, &u, query); err != nil {
			return err
		}
		tasks.Wake(alive)
		f.emit(u)
	}
}

// addFleet replaces the statistics of one proxy by those of its fleet, and adds the sessions of all. It asks only if there are others.
func (f *feed) addFleet(ctx context.Context, u *Update, query api.SessionQuery) error {
	if u.Stats == nil {
		return nil
	}
	f.inFleet = false
	if !u.Stats.Fleet.Shares() {
		return nil
	}
	all := new(api.Stats)
	if err := f.proxy.Get(ctx, api.StatsPath, nil, all); err != nil {
		return err
	}
	if all.Fleet == nil || !all.Fleet.Whole { // the client asks for one proxy only
		return nil
	}
	if query.Sort == "rate" { // only the stream of one proxy has it
		query.Sort = "age"
	}
	u.Stats, u.Sessions, f.inFleet = all, new(api.SessionList), true
	return f.proxy.Get(ctx, api.SessionsPath, query.Values(), u.Sessions)
}

// addWaiting adds the clients that wait, which the stream's sessions may not have. It asks only if there are any.
func (f *feed) addWaiting(ctx context.Context, u *Update, query api.SessionQuery) error {
	if u.Stats == nil {
		return nil
	}
	u.Waiting = new(api.SessionList)
	for i := range u.Stats.Services {
		if u.Stats.Services[i].Queue.Waiting > 0 {
			query.State, query.Sort, query.Limit = api.StateWaiting, "waited", mostWaiting
			return f.proxy.Get(ctx, api.SessionsPath, query.Values(), u.Waiting)
		}
	}
	return nil
}
