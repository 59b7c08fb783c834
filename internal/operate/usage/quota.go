package usage

import (
	"context"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// Period is a span of time for which a quota holds. It begins at midnight in UTC.
type Period uint8

// The periods.
const (
	Day Period = iota
	Month

	periods = iota
)

// begin returns when the period began that a time is in, and when the next one begins.
func (p Period) begin(t time.Time) (begun, next time.Time) {
	year, month, day := t.UTC().Date()
	if p == Month {
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC), time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
}

// add counts what was used at a time.
func (t *tally) add(now time.Time, used meter.Used) {
	t.total.Add(used)
	for p := range t.periods {
		begun, _ := Period(p).begin(now)
		own := &t.periods[p]
		if hour := HourOf(begun); own.begun != hour {
			own.begun, own.micros = hour, 0
		}
		own.micros += counted(&used)
	}
}

// counted returns the audio that counts for quotas, in microseconds.
func counted(u *meter.Used) uint64 { return u.In.Micros + u.Out.Micros }

const (
	// baseInterval is how often hours that have passed are read again: a proxy that had lost its database may have booked more of them.
	baseInterval = 5 * time.Minute
	// unusedAfter is after how long without a question a period is no longer read: proxies without quotas read nothing.
	unusedAfter = 24 * time.Hour
)

// quotas knows what other processes have used.
type quotas struct {
	ledger *Ledger // static

	mu    sync.Mutex
	asked [periods]time.Time // guarded by mu: when Used was called last
	sums  [periods]periodSums
}

// periodSums are what other processes have used in a period. The sum is guarded by quotas.mu, and the rest is owned by refresh.
type periodSums struct {
	begun   string // the period of sum
	sum     map[Of]uint64
	base    map[Of]uint64 // of the hours before baseEnd
	baseEnd string
	baseAt  time.Time
}

// refresh reads what other processes have used.
func (q *quotas) refresh(ctx context.Context) {
	l := q.ledger
	var store interface {
		SumUsage(ctx context.Context, from, to, except string) ([]Row, error)
	} = &l.files
	if l.o.Store != nil {
		store = l.o.Store
	}
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	now := l.o.Now()
	read := func(from, to string) (map[Of]uint64, bool) {
		sums := make(map[Of]uint64)
		if from >= to {
			return sums, true
		}
		rows, err := store.SumUsage(ctx, from, to, l.process)
		for i := range rows {
			r := &rows[i]
			sums[Of{Tenant, r.Tenant}] += counted(&r.Used)
			sums[Of{Key, r.Key}] += counted(&r.Used)
		}
		return sums, err == nil
	}
	recent := HourOf(now.Add(-time.Hour))
	for p := range q.sums {
		q.mu.Lock()
		asked := q.asked[p]
		q.mu.Unlock()
		if asked.IsZero() || now.Sub(asked) > unusedAfter {
			continue
		}
		begun, next := Period(p).begin(now)
		s := &q.sums[p]
		if s.baseEnd != recent || s.begun != HourOf(begun) || now.Sub(s.baseAt).Abs() > baseInterval {
			base, ok := read(HourOf(begun), recent)
			if !ok {
				return
			}
			s.base, s.baseEnd, s.baseAt = base, recent, now
		}
		sum, ok := read(max(recent, HourOf(begun)), HourOf(next))
		if !ok {
			return
		}
		for of, n := range s.base {
			sum[of] += n
		}
		q.mu.Lock()
		s.begun, s.sum = HourOf(begun), sum
		q.mu.Unlock()
	}
}

// AudioUsed returns the audio that a tenant or key has used in the present period, of all proxies that book in the same place, and when the next period
// begins. What others have used since they booked last is not in it. It does not wait.
func (l *Ledger) AudioUsed(of Of, p Period) (used time.Duration, renews time.Time) {
	now := l.o.Now()
	begun, renews := p.begin(now)
	micros := uint64(0)
	l.mu.Lock()
	if t := l.tallies[of]; t != nil && t.periods[p].begun == HourOf(begun) {
		micros = t.periods[p].micros
	}
	l.mu.Unlock()
	q := &l.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked[p] = now
	if s := &q.sums[p]; s.begun == HourOf(begun) {
		micros += s.sum[of]
	}
	return time.Duration(micros) * time.Microsecond, renews
}
