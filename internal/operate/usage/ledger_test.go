package usage

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// database is a store in memory.
type database struct {
	mu   sync.Mutex
	rows map[[3]string]map[Scope]meter.Used // by process and hour
	away bool
}

var errAway = errors.New("the database is away")

func (d *database) BookUsage(_ context.Context, rows []Row) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return errAway
	}
	for _, r := range rows {
		k := [3]string{r.Process, r.Hour}
		if d.rows == nil {
			d.rows = make(map[[3]string]map[Scope]meter.Used)
		}
		if d.rows[k] == nil {
			d.rows[k] = make(map[Scope]meter.Used)
		}
		if before := d.rows[k][r.Scope]; r.In.Bytes >= before.In.Bytes {
			d.rows[k][r.Scope] = r.Used
		}
	}
	return nil
}

func (d *database) SumUsage(_ context.Context, from, to, except string) ([]Row, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, errAway
	}
	all := make(sums)
	for k, rows := range d.rows {
		if k[1] >= from && k[1] < to && (except == "" || !strings.HasPrefix(k[0], except)) {
			for scope, used := range rows {
				all.add([]Row{{Scope: scope, Used: used}})
			}
		}
	}
	return all.rows(), nil
}

func (d *database) NewestUsage(_ context.Context, before string) (hour string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.rows {
		if k[1] < before {
			hour = max(hour, k[1])
		}
	}
	return hour, nil
}

func (d *database) ForgetUsage(_ context.Context, before string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.rows, func(k [3]string, _ map[Scope]meter.Used) bool { return k[1] < before })
	return nil
}

// A process whose clock is far ahead forgets nothing of others or of former processes, in the database or in files, also after some restarts. What was
// old on several days of use is forgotten.
func TestClockFarAhead(t *testing.T) {
	for _, d := range []*database{new(database), nil} {
		folder := t.TempDir()
		w := &world{t: t, now: start}
		store := Store(d)
		if d == nil {
			store = nil
		}
		use := func(now time.Time) (hours []string) {
			w.now = now
			l := w.ledger(folder, store)
			l.Add(Scope{Service: "stt"}, audio(1))
			l.count()
			l.write()
			l.book(t.Context())
			if d == nil {
				list, _ := l.files.list("", afterAll, "")
				for _, one := range list {
					hours = append(hours, one.hour)
				}
				return hours
			}
			for k := range d.rows {
				hours = append(hours, k[1])
			}
			slices.Sort(hours)
			return hours
		}
		const day = 24 * time.Hour
		for n := range time.Duration(10) {
			use(start.Add(n * day))
		}
		ahead := start.Add(keep + 30*day)
		for n := range time.Duration(6) {
			if got := use(ahead.Add(n * day)); len(got) != int(11+n) || got[0] != HourOf(start) {
				t.Errorf("on day %d of the clock, the hours %v are left", n+1, got)
			}
		}
		if got := use(ahead.Add(6 * day)); len(got) != 7 || got[0] != HourOf(ahead) {
			t.Errorf("on the seventh day, the hours %v are left", got)
		}
	}
}

// busyDatabase takes some time for each transaction, and something else happens before its first one.
type busyDatabase struct {
	database
	takes        time.Duration
	first        func()
	transactions int
}

func (d *busyDatabase) BookUsage(ctx context.Context, rows []Row) error {
	if first := d.first; first != nil {
		d.first = nil
		first()
	}
	select {
	case <-time.After(d.takes):
		d.transactions++
		return d.database.BookUsage(ctx, rows)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// world is proxies with their state directories.
type world struct {
	t    *testing.T
	now  time.Time
	full bool // the disk
}

func (w *world) ledger(folder string, store Store) *Ledger {
	return New(Options{
		Folder: folder, Store: store, Collect: func() {}, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler),
		Write: func(path string, data []byte) error {
			if w.full {
				return errors.New("no space left on device")
			}
			return os.WriteFile(path, data, 0o600)
		},
	})
}

func audio(seconds int) meter.Used {
	return meter.Used{Sessions: 1, In: meter.Audio{Micros: uint64(seconds) * 1e6, Bytes: uint64(seconds) * 32000}, Results: 1}
}

var start = time.Date(2026, 11, 30, 22, 59, 59, 0, time.UTC)

// total returns the sum over everything in a report.
func total(t *testing.T, l *Ledger) (all meter.Used) {
	t.Helper()
	rows, err := l.Report(t.Context(), start.Add(-1000*time.Hour), start.Add(1000*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		all.Add(r.Used)
	}
	return all
}

// Whatever happens to proxies, the database, disks and clocks, the sum over everything is what clients have used.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &world{t: t, now: start}
		store := new(database)
		folders, ledgers := [2]string{t.TempDir(), t.TempDir()}, [2]*Ledger{}
		for i := range ledgers {
			ledgers[i] = w.ledger(folders[i], store)
		}
		var want meter.Used
		for range 200 {
			i := random.IntN(2)
			l := ledgers[i]
			switch random.IntN(12) {
			case 0: // killed after the last write
				if !w.full {
					l.count()
					l.write()
					ledgers[i] = w.ledger(folders[i], store)
				}
			case 1: // restarted
				if !w.full {
					l.finish()
					ledgers[i] = w.ledger(folders[i], store)
				}
			case 2:
				store.away = !store.away
			case 3:
				w.full = !w.full
			case 4: // the clock jumps, also back
				w.now = w.now.Add(time.Duration(random.IntN(300)-100) * time.Minute)
			case 5, 6:
				l.count()
				l.write()
			case 7, 8:
				l.count()
				l.book(t.Context())
			default:
				used := audio(random.IntN(1000))
				want.Add(used)
				l.Add(Scope{Service: "stt", Tenant: []string{"acme", "umbrella"}[random.IntN(2)]}, used)
			}
		}
		store.away, w.full = false, false
		for i := range ledgers { // the next process books what the last one has left
			ledgers[i].count()
			ledgers[i].write()
			ledgers[i].book(t.Context())
			ledgers[i] = w.ledger(folders[i], store)
			for ledgers[i].scanned == "" {
				ledgers[i].book(t.Context())
			}
		}
		if got := total(t, ledgers[0]); got != want {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
	}
}

// Without a database, the files have everything, over restarts and kills; without a state directory, memory has it.
func TestFilesOnly(t *testing.T) {
	for _, folder := range []string{t.TempDir(), ""} {
		w := &world{t: t, now: start}
		l := w.ledger(folder, nil)
		scope := Scope{"stt", "acme", "k1"}
		for hour := range 5 {
			l.Add(scope, audio(10))
			l.count()
			w.now = w.now.Add(time.Hour)
			if l.write(); hour == 2 && folder != "" {
				l = w.ledger(folder, nil)
			}
			l.book(t.Context())
		}
		want := audio(50)
		want.Sessions, want.Results = 5, 5
		if got := total(t, l); got != want {
			t.Errorf("folder %q: %+v, want %+v", folder, got, want)
		}
		if rows, err := l.Report(t.Context(), start.Add(time.Hour), start.Add(3*time.Hour)); err != nil || len(rows) != 1 || rows[0].In.Micros != 20e6 || rows[0].Scope != scope {
			t.Errorf("two hours: %+v, %v", rows, err)
		}
		if n := len(l.past); folder != "" && n != 0 {
			t.Errorf("%d past hours are kept in memory", n)
		}
	}
}

// Without a state directory and a database, memory keeps the last hours, and that is said once, when it is so.
func TestMemoryOnly(t *testing.T) {
	w := &world{t: t, now: start}
	l := w.ledger("", nil)
	var said strings.Builder
	l.o.Log = slog.New(slog.NewTextHandler(&said, nil))
	for hour := range maxHours + 4 {
		if hour == maxHours {
			if err := l.Problem(); err != nil || said.Len() > 0 {
				t.Errorf("before any is dropped: %v, %s", err, &said)
			}
		}
		l.Add(Scope{Service: "stt"}, audio(1))
		l.count()
		l.write()
		l.book(t.Context())
		w.now = w.now.Add(time.Hour)
	}
	if err := l.Problem(); !errors.Is(err, errMemoryOnly) || strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "only the last 48 hours with sessions") {
		t.Errorf("%v, %s", err, &said)
	}
	if got := total(t, l); got.Sessions != maxHours+1 {
		t.Errorf("%+v", got)
	}
}

// A disk that does not answer keeps nobody from being counted, and the end waits for it for some seconds only.
func TestDiskThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled, collected := make(chan struct{}), 0
		l := New(Options{
			Folder: t.TempDir(), Log: slog.New(slog.DiscardHandler),
			Collect: func() { collected++ }, Write: func(string, []byte) error { <-stalled; return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Run(ctx)
		}()
		for range 10 {
			l.Add(Scope{Service: "stt", Tenant: "acme"}, audio(1))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if used, _ := l.AudioUsed(Of{Tenant, "acme"}, Day); used != 10*time.Second || collected != 10 {
			t.Errorf("%v were counted, in %d turns", used, collected)
		}
		if err := l.Problem(); !errors.Is(err, errNoAnswer) {
			t.Errorf("problem: %v", err)
		}
		cancel()
		time.Sleep(diskTimeout + time.Millisecond)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the ledger waits for the disk")
		}
		close(stalled)
		synctest.Wait() // the folder is removed now
	})
}

// A process that is killed loses what was used in the last second, and in the time that the last look at the sessions took.
func TestKilledLosesASecond(t *testing.T) {
	const takes = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var l *Ledger
		scope, counted := Scope{Service: "stt", Tenant: "acme"}, time.Now()
		l = New(Options{
			Folder: t.TempDir(), Log: slog.New(slog.DiscardHandler), Write: func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) },
			Collect: func() {
				now := time.Now()
				l.Add(scope, meter.Used{In: meter.Audio{Micros: uint64(now.Sub(counted).Microseconds())}})
				counted = now
				time.Sleep(takes)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { l.Run(ctx) })
		for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(takes / 2) {
			synctest.Wait()
			rows, err := l.files.SumUsage(ctx, "", "~", "")
			if err != nil {
				t.Fatal(err)
			}
			var in time.Duration
			for _, r := range rows {
				in += time.Duration(r.In.Micros) * time.Microsecond
			}
			if used := time.Since(begun); used-in > writeInterval+takes {
				t.Fatalf("after %v, the file has %v", used, in)
			}
		}
		cancel()
		run.Wait()
	})
}

// A full disk keeps usage in memory, a database that is away keeps it on disk, and both are said once.
func TestProblem(t *testing.T) {
	w := &world{t: t, now: start, full: true}
	store := &database{away: true}
	l := w.ledger(t.TempDir(), store)
	l.Add(Scope{Service: "stt"}, audio(1))
	for range 3 {
		l.count()
		l.write()
		l.book(t.Context())
	}
	if err := l.Problem(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("problem: %v", err)
	}
	w.full = false
	l.write()
	if err := l.Problem(); !errors.Is(err, errAway) {
		t.Errorf("problem: %v", err)
	}
	if _, err := l.Report(t.Context(), start, start.Add(time.Hour)); !errors.Is(err, errAway) {
		t.Errorf("report: %v", err)
	}
	store.away = false
	l.book(t.Context())
	if err := l.Problem(); err != nil {
		t.Errorf("problem: %v", err)
	}
	if got := total(t, l); got != audio(1) {
		t.Errorf("%+v", got)
	}
}

// Rows stay in memory until they are booked, also if a report, whose attempt fails, has them when the ledger books.
func TestReportKeepsWhatIsUnbooked(t *testing.T) {
	w := &world{t: t, now: start}
	store := &busyDatabase{database: database{away: true}}
	l := w.ledger("", store)
	l.scanned = HourOf(start.Add(time.Hour))
	l.Add(Scope{Service: "stt"}, audio(1))
	l.count()
	l.book(t.Context())
	w.now = w.now.Add(time.Hour)
	l.Add(Scope{Service: "stt"}, audio(2))
	store.first = func() { l.book(t.Context()) }
	if _, err := l.Report(t.Context(), start, start.Add(2*time.Hour)); !errors.Is(err, errAway) {
		t.Errorf("report: %v", err)
	}
	if err := l.Problem(); !errors.Is(err, errAway) {
		t.Errorf("problem: %v", err)
	}
	store.away = false
	store.first = func() { // what is used meanwhile is booked next
		l.Add(Scope{Service: "stt"}, audio(4))
		l.count()
	}
	l.book(t.Context())
	if n := len(l.past); n > 0 || l.Problem() != nil {
		t.Errorf("%d past hours in memory, problem: %v", n, l.Problem())
	}
	if got := total(t, l); got.Sessions != 3 || got.In.Micros != 7e6 {
		t.Errorf("%+v", got)
	}
}

// Whatever there is to book is booked: only a single transaction has a timeout.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, now: start}
		l := w.ledger("", &busyDatabase{takes: bookTimeout * 3 / 10})
		for i := range 5 * perBooking {
			l.Add(Scope{"stt", strconv.Itoa(i), ""}, audio(1))
		}
		l.count()
		l.book(t.Context())
		if err := l.Problem(); err != nil || len(l.hour.unbooked) > 0 {
			t.Errorf("%d rows are unbooked, problem: %v", len(l.hour.unbooked), err)
		}
	})
}

// Files are booked once a day, over several attempts, and between them what clients use now.
func TestManyFiles(t *testing.T) {
	const hours, perAttempt = 24, 4
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, now: start}
		l := w.ledger(folder, nil)
		for range hours {
			l.Add(Scope{Service: "stt"}, audio(1))
			l.count()
			l.write()
			w.now = w.now.Add(time.Hour)
		}
		store := &busyDatabase{takes: bookInterval / perAttempt}
		l = w.ledger(folder, store) // another process
		expect := func(attempts, transactions int) {
			t.Helper()
			before := store.transactions
			for range attempts {
				l.book(t.Context())
			}
			if n := store.transactions - before; n != transactions || l.Problem() != nil {
				t.Errorf("%d transactions, want %d; problem: %v", n, transactions, l.Problem())
			}
		}
		expect(1, perAttempt)
		l.Add(Scope{Service: "stt"}, audio(1))
		l.count()
		expect(1, 1+perAttempt)
		expect(hours, hours-2*perAttempt)
		rows, err := store.SumUsage(t.Context(), "", "~", "")
		if err != nil || len(rows) != 1 || rows[0].Sessions != hours+1 {
			t.Errorf("%+v, %v", rows, err)
		}
		list, err := l.files.list("", "~", "")
		if err != nil || len(list) != hours {
			t.Fatalf("%d files, %v", len(list), err)
		}
		if err := os.Chtimes(list[0].path, start, start); err != nil { // another process has written it again
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Hour)
		expect(2, 1)
		w.now = w.now.Add(rebookInterval)
		store.rows = nil // the database was restored
		expect(hours, hours)
	})
}

// A file that cannot be read, for lack of descriptors for example, is booked later, also if it is so old that booked ones are removed.
func TestUnreadableFile(t *testing.T) {
	w := &world{t: t, now: start}
	folder := t.TempDir()
	l := w.ledger(folder, nil)
	l.Add(Scope{Service: "stt"}, audio(1))
	l.finish()
	w.now = w.now.Add(keepBooked + 2*time.Hour)
	list, err := l.files.list("", "~", "")
	if err != nil || len(list) != 1 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	path, elsewhere := list[0].path, filepath.Join(t.TempDir(), "usage")
	if err := errors.Join(os.Rename(path, elsewhere), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	l = w.ledger(folder, new(database))
	l.book(t.Context())
	if err := errors.Join(os.Remove(path), os.Rename(elsewhere, path)); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	l.book(t.Context())
	if got := total(t, l); got != audio(1) {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is booked and old: %v", err)
	}
}

// While the disk is full, memory keeps past hours without a database, also if the goroutine that books drops what is written during a write that fails.
func TestFullDiskKeepsPastHours(t *testing.T) {
	w := &world{t: t, now: start, full: true}
	l := w.ledger(t.TempDir(), nil)
	write := l.files.write
	l.files.write = func(path string, data []byte) error {
		l.book(t.Context())
		return write(path, data)
	}
	l.Add(Scope{Service: "stt"}, audio(1))
	l.count()
	w.now = w.now.Add(time.Hour)
	l.Add(Scope{Service: "stt"}, audio(2))
	l.count()
	l.write()
	if got := total(t, l); got.Sessions != 2 {
		t.Errorf("the disk is full: %+v", got)
	}
	w.full = false
	l.write()
	l.book(t.Context())
	if got := total(t, l); got.Sessions != 2 || len(l.past) > 0 {
		t.Errorf("the disk has space again: %+v, %d past hours in memory", got, len(l.past))
	}
}

// Names that are too many share a row.
func TestScopesAreBounded(t *testing.T) {
	w := &world{t: t, now: start}
	l := w.ledger("", nil)
	for i := range maxScopes + 100 {
		l.Add(Scope{"stt", string(rune('a'+i%20)) + strings.Repeat("x", i/20), ""}, audio(1))
	}
	rows, err := l.Report(t.Context(), start, start.Add(time.Hour))
	if err != nil || len(rows) != maxScopes+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if got := total(t, l); got.In.Micros != (maxScopes+100)*1e6 {
		t.Errorf("%+v", got)
	}
}

// A quota counts what all proxies have booked, and begins anew with its period.
func TestQuota(t *testing.T) {
	w := &world{t: t, now: start}
	store := new(database)
	a, b := w.ledger("", store), w.ledger("", store)
	acme := Of{Tenant, "acme"}
	check := func(l *Ledger, p Period, used time.Duration, renews time.Time) {
		t.Helper()
		if got, at := l.AudioUsed(acme, p); got != used || !at.Equal(renews) {
			t.Errorf("%v, renews %v; want %v, %v", got, at, used, renews)
		}
	}
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	step := func() {
		for _, l := range []*Ledger{a, b, a, b} {
			l.count()
			l.book(t.Context())
			l.quotas.refresh(t.Context())
		}
	}
	check(a, Day, 0, midnight)
	check(b, Day, 0, midnight)
	check(a, Month, 0, midnight)
	a.Add(Scope{"stt", "acme", "k"}, audio(10))
	step()
	b.Add(Scope{"tts", "acme", ""}, audio(20))
	b.count()
	check(a, Day, 10*time.Second, midnight)
	check(b, Day, 30*time.Second, midnight)
	step()
	check(a, Month, 30*time.Second, midnight)
	if used, _ := b.AudioUsed(Of{Key, "k"}, Day); used != 10*time.Second {
		t.Errorf("of the key: %v", used)
	}
	store.away = true // what is known stays
	a.Add(Scope{"stt", "acme", ""}, audio(5))
	step()
	check(a, Day, 35*time.Second, midnight)
	check(b, Day, 30*time.Second, midnight)
	store.away = false
	w.now = w.now.Add(2 * time.Hour)
	check(a, Day, 0, midnight.AddDate(0, 0, 1))
	b.Add(Scope{"stt", "acme", ""}, audio(7))
	step()
	check(a, Day, 7*time.Second, midnight.AddDate(0, 0, 1))
	check(a, Month, 7*time.Second, midnight.AddDate(0, 1, 0))
	w.now = w.now.Add(26 * time.Hour) // another day of the same month
	step()
	check(a, Day, 0, midnight.AddDate(0, 0, 2))
	check(a, Month, 7*time.Second, midnight.AddDate(0, 1, 0))
}
