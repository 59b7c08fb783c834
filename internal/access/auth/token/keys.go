package token

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

const (
	// minPause is the least time between two readings of a key set that tokens with unknown keys ask for. Any client can send such a token.
	minPause = 10 * time.Second
	// minFilePause is minPause for a file, which costs no server anything.
	minFilePause = 200 * time.Millisecond
	// maxWait is how long a client waits for such a reading.
	maxWait = 3 * time.Second
	// removalGrace is for how long a key must be missing from what is read of a URL until tokens that it has signed count as revoked: an issuer's
	// servers need not have the same set at the same moment.
	removalGrace = time.Minute
	// The first and the longest time until a reading that failed is repeated, of a URL.
	firstRetry, lastRetry = time.Second, time.Minute
)

// KeySets are the key sets of all services. Any goroutine may call its methods.
type KeySets struct {
	log     *slog.Logger  // static
	guard   *panics.Guard // static
	removed func()        // static
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool             // guarded by mu
	sets   map[string]*Keys // guarded by mu: by location
}

// NewKeySets returns key sets, of which none is read yet. Close ends it. A nil guard lets panics end the process. removed is called when tokens
// that were good may have become revoked, as their key has left its set; nil for none.
func NewKeySets(log *slog.Logger, guard *panics.Guard, removed func()) *KeySets {
	if removed == nil {
		removed = func() {}
	}
	return &KeySets{log: log, guard: guard, removed: removed, sets: make(map[string]*Keys)}
}

// Keys returns the key set at a location, an http or https URL or file:/path, which it begins to read if it is new. It waits for nothing.
func (s *KeySets) Keys(location string) *Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.sets[location]; k != nil {
		return k
	}
	k := newKeys(newSource(location), s.log, s.guard)
	k.removed = s.removed
	if s.closed {
		k.cancel()
		return k
	}
	s.sets[location] = k
	s.running.Go(k.run)
	return k
}

// Keep ends the reading of all key sets but those at these locations.
func (s *KeySets) Keep(locations map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for location, k := range s.sets {
		if !locations[location] {
			k.cancel()
			delete(s.sets, location)
		}
	}
}

// Close ends the reading of all key sets, and waits until that is done.
func (s *KeySets) Close() {
	s.mu.Lock()
	s.closed = true // first: a key set that is new now would never end
	s.mu.Unlock()
	s.Keep(nil)
	s.running.Wait()
}

// Keys is one key set. A goroutine reads it again and again. Once it has been read, it stays in force until a reading finds another one:
// when the issuer cannot be reached, tokens are verified as before. Any goroutine may use it.
type Keys struct {
	// Static.
	source  source
	pause   time.Duration // minPause or minFilePause
	grace   time.Duration // removalGrace, or shorter for a file
	retry   time.Duration // lastRetry, or shorter for a file
	log     *slog.Logger
	guard   *panics.Guard
	removed func()          // see NewKeySets
	ctx     context.Context // ends when the key set is no longer needed
	cancel  context.CancelFunc
	asked   chan struct{} // of size one: the key set is to be read now

	set  atomic.Pointer[keySet]              // nil until the first reading has succeeded
	good atomic.Pointer[map[thumbprint]bool] // keys of the set, and those that have just left it; nil as set

	mu      sync.Mutex
	reading bool          // guarded by mu
	began   time.Time     // guarded by mu: the last reading
	ended   chan struct{} // guarded by mu: closed when the reading in progress, or else the next one, has ended
	status  Status        // guarded by mu

	// Owned by run.
	sum     [sha256.Size]byte        // of the document that is in force
	failed  int                      // readings in a row that have failed
	failing time.Time                // since when they have
	missing map[thumbprint]time.Time // keys that have left the set, since when
}

// Status says how a key set is.
type Status struct {
	// Location is where it is, without what may be secret.
	Location string
	// Keys is how many keys are in force.
	Keys int
	// Read is when it was last read; zero for never.
	Read time.Time
	// Failure is why it cannot be read; empty if the last reading has succeeded, or none has ended.
	Failure string
}

// Unavailable is the error for tokens that cannot be judged, since their key set has never been read.
type Unavailable struct{ Location, Reason string }

func (e *Unavailable) Error() string {
	reason := e.Reason
	if reason == "" {
		reason = "it has not been read yet"
	}
	return fmt.Sprintf("the key set %s is not available: %s", e.Location, reason)
}

func newKeys(from source, log *slog.Logger, guard *panics.Guard) *Keys {
	k := &Keys{
		source: from, pause: minPause, grace: removalGrace, retry: lastRetry, missing: make(map[thumbprint]time.Time), removed: func() {}, log: log, guard: guard,
		asked: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if _, isFile := from.(fileSource); isFile {
		k.pause, k.grace, k.retry = minFilePause, fileInterval, fileInterval
	}
	k.status.Location = from.String()
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// Status returns how the key set is.
func (k *Keys) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// find returns the keys that may have signed a token, at least one, and the set that they are of. id is empty for a token that names none.
// If none is known, find has the key set read again, unless that was done shortly before, since the issuer may have a new key.
func (k *Keys) find(ctx context.Context, wait func() error, id, algorithm string) ([]key, *keySet, error) {
	for again := false; ; again = true {
		set := k.set.Load()
		if set != nil {
			fit, err := set.matching(id, algorithm)
			switch {
			case len(fit) > 0 || err != nil:
				return fit, set, err
			case again && id == "":
				return nil, nil, fmt.Errorf("the key set has no key for the token's algorithm %s", algorithm)
			case again:
				return nil, nil, fmt.Errorf("the key set has no key %.64q for the algorithm %s", id, algorithm)
			}
		} else if again {
			status := k.Status()
			return nil, nil, &Unavailable{status.Location, status.Failure}
		}
		if err := k.refresh(ctx, wait); err != nil {
			return nil, nil, err
		}
	}
}

// refresh has the key set read, and waits until that is done, at most maxWait. It returns at once if it was read shortly before, and with
// the error of wait, which it calls before it waits.
func (k *Keys) refresh(ctx context.Context, wait func() error) error {
	k.mu.Lock()
	if !k.reading && !k.began.IsZero() && time.Since(k.began) < k.pause {
		k.mu.Unlock()
		return nil
	}
	ended := k.ended
	if !k.reading {
		tasks.Wake(k.asked)
	}
	k.mu.Unlock()
	if err := wait(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-k.ctx.Done():
	}
	return nil
}

// run reads the key set until it is no longer needed.
func (k *Keys) run() {
	for k.ctx.Err() == nil {
		pause := k.read()
		select {
		case <-time.After(pause):
		case <-k.asked:
		case <-k.ctx.Done():
		}
	}
}

// read reads the key set once. It returns when to read it again.
func (k *Keys) read() (next time.Duration) {
	k.mu.Lock()
	k.reading, k.began = true, time.Now()
	select {
	case <-k.asked: // this is what was asked for
	default:
	}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.reading = false
		close(k.ended)
		k.ended = make(chan struct{})
		k.mu.Unlock()
	}()
	defer k.guard.Recover("key set", func() { next = k.retry })
	ctx, cancel := context.WithTimeout(k.ctx, readTimeout)
	defer cancel()
	before := k.set.Load()
	document, fresh, err := k.source.read(ctx)
	if err == nil {
		err = k.use(document)
	}
	if k.ctx.Err() != nil {
		return 0
	}
	if err != nil {
		return k.fail(err)
	}
	k.succeed()
	return min(jittered(fresh), k.retire(before, time.Now()))
}

// retire notes, after a reading that has succeeded, which keys have left the set. It returns when to read again to see whether they are still
// missing. Readings that fail remove nothing.
func (k *Keys) retire(before *keySet, now time.Time) (within time.Duration) {
	removed, good := before == nil, make(map[thumbprint]bool) // a service whose sessions continue may have had another set before this one
	for _, key := range k.set.Load().keys {
		good[key.thumbprint] = true
	}
	if before != nil {
		for _, key := range before.keys {
			if _, known := k.missing[key.thumbprint]; !known && !good[key.thumbprint] {
				k.missing[key.thumbprint] = now
			}
		}
	}
	within = mostFresh
	for key, since := range k.missing {
		left := k.grace - now.Sub(since)
		switch {
		case good[key]:
			delete(k.missing, key)
		case left <= 0:
			delete(k.missing, key)
			removed = true
		default:
			within = min(within, left)
		}
	}
	for key := range k.missing {
		good[key] = true
	}
	k.good.Store(&good)
	if removed {
		k.removed()
	}
	return within
}

// revoked reports whether a key has left the set permanently.
func (k *Keys) revoked(key thumbprint) bool {
	good := k.good.Load()
	return good != nil && !(*good)[key]
}

// use puts a document in force, unless it is the one that is.
func (k *Keys) use(document []byte) error {
	sum, before := sha256.Sum256(document), k.set.Load()
	if before != nil && sum == k.sum {
		return nil
	}
	set, err := parseKeySet(document)
	if err != nil {
		return err
	}
	k.set.Store(set)
	k.sum = sum
	k.log.Info("key set read", "location", k.source.String(), "keys", len(set.keys))
	if n := len(set.ignored); n > 0 {
		k.log.Warn("the key set has keys that are not used", "location", k.source.String(), "count", n, "first", set.ignored[0])
	}
	if len(set.doubtful) > 0 {
		k.log.Warn("the key set has several keys with the same id: all of them are tried", "location", k.source.String(), "id", fmt.Sprintf("%.64s", set.doubtful[0]))
	}
	return nil
}

// fail notes that a reading has failed, and returns when to try again.
func (k *Keys) fail(err error) time.Duration {
	k.mu.Lock()
	k.status.Failure = err.Error()
	k.mu.Unlock()
	if k.failed++; k.failed == 1 {
		k.failing = time.Now()
		consequence := "tokens cannot be verified"
		if k.set.Load() != nil {
			consequence = "tokens are verified with the keys from before"
		}
		k.log.Warn("cannot read the key set: "+consequence, "location", k.source.String(), "reason", err.Error())
	}
	return jittered(min(firstRetry<<min(k.failed-1, 10), k.retry))
}

// succeed notes that a reading has succeeded.
func (k *Keys) succeed() {
	k.mu.Lock()
	k.status.Failure, k.status.Read, k.status.Keys = "", time.Now(), len(k.set.Load().keys)
	k.mu.Unlock()
	if k.failed > 0 {
		k.log.Info("the key set can be read again", "location", k.source.String(), "after", time.Since(k.failing))
	}
	k.failed = 0
}

// jittered returns a time up to a tenth shorter, so that many proxies do not ask at the same moment.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}
