package peers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	// timeout is how long another proxy may take to answer. A proxy answers within milliseconds; who waits for all of them must not
	// wait long for one that is gone.
	timeout = 1500 * time.Millisecond
	// maxAnswer limits the size of another proxy's answer in bytes: 10,000 sessions take about 5 MiB. maxError is for errors.
	maxAnswer = 16 << 20
	maxError  = 64 << 10
	// maxAsked is how many proxies are asked at a time.
	maxAsked = 32
)

// Options are what [New] needs.
type Options struct {
	Ledger Ledger
	// Token returns the token that the admin APIs of other proxies know; empty for none. It is never sent: see authentication.go.
	Token func() string
	// Announced reports whether this process has told the ledger that it is at an address. What the ledger has of it now may be written by another.
	Announced func(address string) bool
	// Beside returns the addresses of the admin sockets in the directory of this process's own, at which other processes of its host may answer; nil for
	// none. Only who may replace this process's own socket can put one there.
	Beside func() []string
	// Authorities returns who may have signed the certificates of other proxies; nil for the system's.
	Authorities func() *x509.CertPool
	// ServerName is what these certificates must be for; empty for the host of each proxy's address.
	ServerName string
	// Timeout is how long another proxy may take to answer; 0 for 1.5 s.
	Timeout time.Duration
}

// Peers asks the other proxies of the fleet. Its methods may be called from any goroutine.
type Peers struct {
	options    Options     // static
	challenges *challenges // static
	memory     *memory     // static; of the answers to all requests
	request    int64       // static; how much of it is for one

	mu     sync.Mutex
	closed bool
	known  map[fleet.ID]connection // proxies that were asked; guarded by mu
}

// connection is how one proxy is asked. It is replaced when one of its fields is no longer right.
type connection struct {
	address string
	beside  bool // it is one of [Options.Beside], at which a process of this one's user listens
	token   string
	from    fleet.ID
	client  *client.Client
	prover  *prover
}

// New returns what asks the other proxies that the ledger names.
func New(o Options) *Peers {
	o.Timeout = cmp.Or(o.Timeout, timeout)
	return &Peers{options: o, challenges: newChallenges(time.Now), memory: newMemory(maxProcess), request: maxRequest, known: make(map[fleet.ID]connection)}
}

// Close closes the connections. Nothing is asked afterwards.
func (p *Peers) Close() {
	p.mu.Lock()
	known := p.known
	p.known, p.closed = make(map[fleet.ID]connection), true
	p.mu.Unlock()
	for _, c := range known {
		_ = c.client.Close()
	}
}

// answer is what another proxy has answered.
type answer struct {
	id, name string
	body     json.RawMessage // nil after it was merged
	memory   charge          // of the answer
	passed   bool            // the merged answer has no more for it: its memory is free
	refused  *client.Error   // it answered with an error
	why      string          // it did not answer as a proxy does; empty if it did
}

// missing returns the answer as a missing one.
func (a *answer) missing() api.MissingProxy {
	return api.MissingProxy{ID: a.id, Name: a.name, Why: a.why}
}

// asking is a request to other proxies that is under way. Its owner calls end.
type inquiry struct {
	answers []answer        // of the index that done has
	done    []chan struct{} // closed when the answer is there; only the owner uses it then
	cancel  context.CancelFunc
	all     sync.WaitGroup
}

// ask sends a request to all other proxies at once. The answers are in the order of the proxies' names.
func (p *Peers) ask(ctx context.Context, v *View, r client.Request) *inquiry {
	r.Timeout = p.options.Timeout
	var others []*fleet.Member
	for i := range v.Members {
		if v.Members[i].ID != v.Self {
			others = append(others, &v.Members[i])
		}
	}
	slices.SortFunc(others, func(a, b *fleet.Member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	p.drop(others)
	q := &inquiry{answers: make([]answer, len(others)), done: make([]chan struct{}, len(others))}
	ctx, q.cancel = context.WithCancel(ctx)
	request, large := newMemory(p.request), make(chan struct{}, 1)
	turns := make(chan struct{}, maxAsked)
	for i, other := range others {
		q.done[i] = make(chan struct{})
		q.answers[i].memory = charge{request: request, process: p.memory, large: large}
		q.all.Go(func() {
			defer close(q.done[i])
			turns <- struct{}{}
			p.askOne(ctx, v, other, r, &q.answers[i])
			<-turns
		})
	}
	return q
}

// each returns the answers, each as soon as it and those before it are there. The body of an answer is gone afterwards.
func (q *inquiry) each() iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		for i := range q.answers {
			<-q.done[i]
			a := &q.answers[i]
			more := yield(a)
			if a.body = nil; a.passed {
				a.memory.release()
			}
			if !more {
				return
			}
		}
	}
}

// end waits for what is under way, and gives back the memory.
func (q *inquiry) end() {
	q.cancel()
	q.all.Wait()
	for i := range q.answers {
		q.answers[i].memory.release()
	}
}

// askOne asks one proxy.
func (p *Peers) askOne(ctx context.Context, v *View, other *fleet.Member, r client.Request, a *answer) {
	a.id, a.name = string(other.ID), v.label(other.ID)
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("no answer within %v", r.Timeout))
	defer cancel()
	r.Take = func(n int) error { return a.memory.take(ctx, n) }
	defer a.memory.done()
	at, err := p.send(ctx, v, other, r, func(c *client.Client, r client.Request) error { return c.Do(ctx, r, &a.body) })
	var refused *client.Error
	switch {
	case err == nil:
	case errors.As(err, &refused) && len(refused.Body) > maxError:
		a.why = fmt.Sprintf("it answered with an error of more than %d bytes", maxError)
	case errors.As(err, &refused) && refused.Kind != api.KindRefused && refused.Kind != api.KindOther:
		a.refused = refused
	case refused != nil && refused.Kind == api.KindRefused:
		a.why = fmt.Sprintf("it refuses this proxy at %s: %s (the token is that of --fleet-token, or else of --admin-token)", at.address, refused.Text)
	default:
		a.why = err.Error()
	}
	if a.why != "" || a.refused != nil { // nothing is kept of what was read
		a.memory.release()
	}
	if unseen := v.Unseen[other.ID]; a.why != "" && unseen > fleet.Unseen {
		a.why = notSeen(unseen) + ", " + a.why
	}
}

// drop closes connections to proxies that are no longer in the ledger.
func (p *Peers) drop(others []*fleet.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, c := range p.known {
		if !slices.ContainsFunc(others, func(m *fleet.Member) bool { return m.ID == id }) {
			_ = c.client.Close()
			delete(p.known, id)
		}
	}
}

const (
	// maxRequest and maxProcess limit the memory that the answers of others take, for one request about the whole fleet and for all of them, in bytes.
	// With what is made of them, a request takes a few times as much.
	maxRequest = 32 << 20
	maxProcess = 64 << 20
	// perObject is what an object of an answer counts, beside its text: {} takes a few bytes there, and hundreds when it is decoded.
	perObject = 256
	// free bytes and freeObjects of each answer do not count, so that it is always known what came of an action.
	freeBytes   = 64 << 10
	freeObjects = 64
	// largeBytes is from where on an answer is read while no other one of the request is: otherwise many that are too large together would
	// all be read in part, and all be left out.
	largeBytes = 256 << 10
)

var errMemory = errors.New("its answer is left out, since all together take too much memory (32 MiB): ask for less, such as the sessions of one service, or ask it alone")

// memory is how many bytes are left. Its methods may be called from any goroutine.
type memory struct{ left atomic.Int64 }

func newMemory(size int64) *memory {
	m := new(memory)
	m.left.Store(size)
	return m
}

func (m *memory) take(n int64) bool {
	if m.left.Add(-n) >= 0 {
		return true
	}
	m.left.Add(n)
	return false
}

func (m *memory) give(n int64) { m.left.Add(n) }

// charge is the memory of one answer. One goroutine uses it at a time.
type charge struct {
	request, process *memory
	large            chan struct{} // of size one: who reads a large answer
	reads            bool          // this one does
	read, taken      int64
}

// take counts bytes of the answer that were read. It waits while another large answer is read, until ctx ends.
func (c *charge) take(ctx context.Context, n int) error {
	c.read += int64(n)
	if c.read > largeBytes && !c.reads {
		select {
		case c.large <- struct{}{}:
			c.reads = true
		case <-ctx.Done():
			return errMemory
		}
	}
	return c.add(c.read - freeBytes - c.taken)
}

// decoding counts what the answer takes when it is decoded.
func (c *charge) decoding(body []byte) error {
	return c.add(perObject * int64(bytes.Count(body, []byte("{"))-freeObjects))
}

func (c *charge) add(n int64) error {
	switch {
	case n <= 0:
		return nil
	case !c.request.take(n):
		return errMemory
	case !c.process.take(n):
		c.request.give(n)
		return errMemory
	}
	c.taken += n
	return nil
}

// done says that the answer was read, or that nothing more will be read.
func (c *charge) done() {
	if c.reads {
		<-c.large
	}
	c.reads = false
}

// release gives the memory back.
func (c *charge) release() {
	if c.taken > 0 {
		c.request.give(c.taken)
		c.process.give(c.taken)
	}
	c.taken = 0
}
