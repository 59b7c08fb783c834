package usage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Options are the settings of a ledger. Fields without a default are required.
type Options struct {
	// Folder has the files; empty to keep usage in memory only. Write writes a file in one step.
	Folder string
	Write  func(path string, data []byte) error
	// Store is the database; nil for none.
	Store Store
	// Collect calls Add with what sessions have used since the last call.
	Collect func()
	// Now returns the time; default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

const (
	// writeInterval is how often usage is collected and written.
	writeInterval = time.Second
	// bookInterval is how often it is booked, and what other proxies have booked is read.
	bookInterval = 2 * time.Second
	// bookTimeout is how long the database may take to book some rows, or to read what others have booked.
	bookTimeout = 10 * time.Second
	// perBooking is how many rows are booked at a time.
	perBooking = 200
	// diskTimeout is after how long a disk is taken not to answer, also at the end.
	diskTimeout = 5 * time.Second
	// rebookInterval is after how long a file is booked again, since the database may have been restored from a backup.
	rebookInterval = 24 * time.Hour
)

// errMemoryOnly is why a ledger without a folder and a database drops hours.
var errMemoryOnly = fmt.Errorf("without a state-directory or a database, only the last %d hours with sessions are kept, in memory", maxHours)

// errNoAnswer is why nothing is written to a disk that stalls.
var errNoAnswer = errors.New("the disk does not answer")

// Ledger keeps what clients have used. Any goroutine may use it.
type Ledger struct {
	// Static.
	o       Options
	process string // the id of this process
	files   files

	quotas quotas

	arriving sync.Mutex
	arrived  []entry // guarded by arriving: what is not counted yet

	mu        sync.Mutex
	hour      *count        // guarded by mu: the present one
	past      []*count      // guarded by mu: those that are not written or not booked yet
	number    int           // guarded by mu: of counts so far
	tallies   map[Of]*tally // guarded by mu
	writing   time.Time     // guarded by mu: when the write began that is under way; zero for none
	unwritten error         // guarded by mu: why the files cannot be written
	unbooked  error         // guarded by mu: why the rows cannot be booked
	dropped   error         // guarded by mu: why the oldest hours were dropped from memory

	// Owned by the goroutine that books.
	scanned string               // the last hour in which all files were looked through
	filed   map[file]fileBooking // those that are booked
}

// fileBooking is when a file was booked, and when that state of it was written.
type fileBooking struct{ at, written time.Time }

// Kind is what a tally is of.
type Kind uint8

// The kinds of tallies.
const (
	Service Kind = iota
	Tenant
	Key
)

// Of is a service, a tenant or a key, by name.
type Of struct {
	Kind Kind
	Name string
}

// maxTallies bounds the tallies. What further tenants use is in the rows, but has no quota.
const maxTallies = 1 << 16

// tally is what was used of this process by one service, tenant or key.
type tally struct {
	total   meter.Used
	periods [periods]struct {
		begun  string // the period
		micros uint64
	}
}

// New returns a ledger, which Run keeps.
func New(o Options) *Ledger {
	if o.Now == nil {
		o.Now = time.Now
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	l := &Ledger{o: o, process: hex.EncodeToString(random[:]), files: files{o.Folder, o.Write, o.Log}, tallies: make(map[Of]*tally), filed: make(map[file]fileBooking)}
	l.quotas.ledger = l
	return l
}

// entry is what clients of a scope have used.
type entry struct {
	scope Scope
	used  meter.Used
}

// Add counts what clients of a scope have used, within a second: into the hour of that time. It may be called on an event loop.
func (l *Ledger) Add(s Scope, used meter.Used) {
	if used != (meter.Used{}) {
		l.arriving.Lock()
		l.arrived = append(l.arrived, entry{s, used})
		l.arriving.Unlock()
	}
}

// collect counts what has been used until now.
func (l *Ledger) collect() {
	l.o.Collect()
	l.count()
}

// count counts what has arrived.
func (l *Ledger) count() {
	l.arriving.Lock()
	arrived := l.arrived
	l.arrived = nil
	l.arriving.Unlock()
	now := l.o.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range arrived {
		l.present(HourOf(now)).add(e.scope, e.used)
		for _, of := range [...]Of{{Service, e.scope.Service}, {Tenant, e.scope.Tenant}, {Key, e.scope.Key}} {
			t := l.tallies[of]
			if t == nil && of.Name != "" && len(l.tallies) < maxTallies {
				t = new(tally)
				l.tallies[of] = t
			}
			if t != nil {
				t.add(now, e.used)
			}
		}
	}
}

// present returns the count of an hour. A clock that was set back begins another count of an hour that was counted before, so that no number ever
// falls. It is called with mu held.
func (l *Ledger) present(hour string) *count {
	if l.hour != nil && l.hour.hour == hour {
		return l.hour
	}
	if l.hour != nil {
		l.past = append(l.past, l.hour)
		if len(l.past) > maxHours { // the files have it, if there are any
			switch {
			case l.o.Folder == "" && l.o.Store == nil:
				l.note(&l.dropped, errMemoryOnly, "the oldest usage is dropped", "")
			case l.past[0].unwritten():
				l.o.Log.Warn("usage is lost: it can neither be written nor booked", "hour", l.past[0].hour)
			}
			l.past = l.past[1:]
		}
	}
	l.number++
	l.hour = &count{
		process: fmt.Sprintf("%s.%d", l.process, l.number), hour: hour, rows: make(map[Scope]*meter.Used), unbooked: make(map[Scope]struct{}),
	}
	return l.hour
}

// counts returns all counts in memory. It is called with mu held.
func (l *Ledger) counts() []*count {
	if l.hour == nil {
		return l.past
	}
	return append(l.past[:len(l.past):len(l.past)], l.hour)
}

// Run keeps the ledger until the context ends, after the last session, and then writes and books what is left. A disk that does not answer holds up neither
// quotas nor, for more than diskTimeout, the end.
func (l *Ledger) Run(ctx context.Context) {
	collected, stored := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(stored)
		var both sync.WaitGroup
		both.Go(func() { l.writeAfter(ctx, collected) })
		both.Go(func() {
			for range tasks.Every(ctx, bookInterval) {
				l.book(ctx)
				l.quotas.refresh(ctx)
			}
		})
		both.Wait()
		l.finish()
	}()
	for range tasks.Every(ctx, writeInterval) {
		l.collect()
		tasks.Wake(collected)
	}
	select {
	case <-stored:
	case <-time.After(diskTimeout):
		l.o.Log.Warn("the last usage is lost: it can be neither written nor booked", "reason", errNoAnswer)
	}
}

// writeAfter writes whenever something has been collected. A turn of its own would add to what a process that is killed loses: the files would lack
// what was used since the turn before.
func (l *Ledger) writeAfter(ctx context.Context, collected <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-collected:
			l.write()
		}
	}
}

// finish writes and books what is left.
func (l *Ledger) finish() {
	l.count()
	l.write()
	ctx, cancel := context.WithTimeout(context.Background(), bookInterval)
	defer cancel()
	l.book(ctx)
}

// write writes the counts that have changed. Only one goroutine at a time calls it.
func (l *Ledger) write() {
	type changed struct {
		*count
		rows    []Row
		changes int // that the rows have
	}
	var all []changed
	l.mu.Lock()
	for _, c := range l.counts() {
		if c.unwritten() && l.o.Folder != "" {
			all = append(all, changed{c, c.all(), c.changes})
		}
	}
	l.writing = time.Now()
	l.mu.Unlock()
	var failed error
	for _, c := range all {
		if err := l.files.save(c.process, c.hour, c.rows); err != nil {
			failed = err
			continue
		}
		l.mu.Lock()
		c.count.written = c.changes
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = time.Time{}
	if failed == nil && len(all) == 0 {
		return
	}
	l.note(&l.unwritten, failed, "usage is kept in memory only: its file cannot be written", "usage is written to its file again")
}

// note notes whether something works, and logs when that changes. It is called with mu held.
func (l *Ledger) note(known *error, err error, broken, works string) {
	switch {
	case err != nil && *known == nil:
		l.o.Log.Warn(broken, "reason", err)
	case err == nil && *known != nil:
		l.o.Log.Info(works)
	}
	*known = err
}

// Problem returns what keeps usage from being written or booked; nil for nothing.
func (l *Ledger) Problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	unwritten := l.unwritten
	if !l.writing.IsZero() && time.Since(l.writing) > diskTimeout {
		unwritten = errNoAnswer
	}
	switch {
	case unwritten != nil:
		return fmt.Errorf("it is kept in memory only, since its file cannot be written: %w", unwritten)
	case l.unbooked != nil:
		return fmt.Errorf("it is not booked in the database: %w", l.unbooked)
	}
	return l.dropped
}

// book books the rows that have changed, and, from each full hour on, those in files of other processes or of hours that are no longer in memory.
func (l *Ledger) book(ctx context.Context) {
	now := HourOf(l.o.Now())
	if l.o.Store == nil {
		if l.scanned != now {
			l.scanned = now
			l.files.forget(l.o.Now())
		}
		l.dropPast()
		return
	}
	err := l.bookMemory(ctx)
	if err == nil && l.scanned != now {
		err = l.bookFiles(ctx)
	}
	l.dropPast()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(&l.unbooked, err, "usage cannot be booked in the database: it is kept until it can", "usage is booked in the database again")
}

// bookMemory books the rows in memory that have changed since they were booked. Several goroutines may book the same rows: they count as unbooked until
// the database has them, and booking them twice changes nothing.
func (l *Ledger) bookMemory(ctx context.Context) error {
	l.mu.Lock()
	all := l.counts()
	l.mu.Unlock()
	for _, c := range all {
		if err := l.bookAll(ctx, l.unbookedOf(c)); err != nil {
			return err
		}
	}
	return nil
}

// bookAll books the rows of one process and hour, in one order, so that no two transactions wait for each other.
func (l *Ledger) bookAll(ctx context.Context, rows []Row) error {
	slices.SortFunc(rows, func(a, b Row) int { return a.Scope.compare(b.Scope) })
	for some := range slices.Chunk(rows, perBooking) {
		if err := timed(ctx, func(ctx context.Context) error { return l.o.Store.BookUsage(ctx, some) }); err != nil {
			return err
		}
		l.booked(some)
	}
	return nil
}

// timed calls f, which may take bookTimeout.
func timed(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	return f(ctx)
}

// unbookedOf returns the rows of a count that have changed since they were booked.
func (l *Ledger) unbookedOf(c *count) []Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make([]Row, 0, len(c.unbooked))
	for s := range c.unbooked {
		rows = append(rows, Row{c.process, c.hour, s, *c.rows[s]})
	}
	return rows
}

// booked notes that rows were booked. Those that have changed since stay unbooked.
func (l *Ledger) booked(rows []Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.counts() {
		for i := range rows {
			r := &rows[i]
			if used := c.rows[r.Scope]; r.Process == c.process && used != nil && *used == r.Used {
				delete(c.unbooked, r.Scope)
			}
		}
	}
}

// bookFiles books what is in files and not known to be booked, and removes files that are booked and old. When that takes longer than bookInterval, the
// next call continues, after what clients use meanwhile is booked.
func (l *Ledger) bookFiles(ctx context.Context) error {
	begun, now := time.Now(), l.o.Now()
	list, err := l.files.list("", afterAll, "")
	if err != nil {
		return err
	}
	old := HourOf(now.Add(-keepBooked))
	for _, one := range slices.Backward(list) { // the newest first: they are the likeliest to have what is not booked
		written := one.written() // before it is read: it may be written again
		before, known := l.filed[one]
		due := !known || !before.written.Equal(written) || now.Sub(before.at).Abs() >= rebookInterval
		if due {
			rows, done := l.files.read(one)
			if !done {
				continue // until the next hour
			}
			if err := l.bookAll(ctx, rows); err != nil {
				return err
			}
			l.filed[one] = fileBooking{at: now, written: written}
		}
		if one.hour < old {
			_ = os.Remove(one.path)
		}
		if due && time.Since(begun) >= bookInterval {
			return nil
		}
	}
	maps.DeleteFunc(l.filed, func(one file, _ fileBooking) bool { return one.hour < old })
	err = timed(ctx, func(ctx context.Context) error {
		first, err := oldest(now, func(before string) (string, error) { return l.o.Store.NewestUsage(ctx, before) })
		if err != nil {
			return err
		}
		return l.o.Store.ForgetUsage(ctx, first)
	})
	if err == nil {
		l.scanned = HourOf(now)
	}
	return err
}

// dropPast forgets past counts that are booked, or written if there is no database.
func (l *Ledger) dropPast() {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.past[:0]
	for _, c := range l.past {
		if l.o.Store != nil && len(c.unbooked) > 0 || l.o.Store == nil && (c.unwritten() || l.o.Folder == "") {
			kept = append(kept, c)
		}
	}
	clear(l.past[len(kept):])
	l.past = kept
}

// Report returns the sums by scope of the hours from one time to before another.
func (l *Ledger) Report(ctx context.Context, from, to time.Time) ([]Row, error) {
	l.collect()
	first, end := HourOf(from), HourOf(to)
	if l.o.Store != nil {
		if err := l.bookMemory(ctx); err != nil {
			return nil, err
		}
		return l.o.Store.SumUsage(ctx, first, end, "")
	}
	all, inMemory := make(sums), make(map[string]bool)
	l.mu.Lock()
	for _, c := range l.counts() {
		if inMemory[c.process] = true; c.hour >= first && c.hour < end {
			all.add(c.all())
		}
	}
	l.mu.Unlock()
	list, err := l.files.list(first, end, "") // after that: what memory no longer had is written
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if !inMemory[one.process] {
			rows, _ := l.files.read(one)
			all.add(rows)
		}
	}
	return all.rows(), nil
}

// Totals returns what each service, tenant or key has used of this process since the start, by name.
func (l *Ledger) Totals(kind Kind) map[string]meter.Used {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]meter.Used)
	for of, t := range l.tallies {
		if of.Kind == kind {
			all[of.Name] = t.total
		}
	}
	return all
}
