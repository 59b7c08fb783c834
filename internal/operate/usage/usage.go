// Package usage keeps what clients have used: seconds of audio and results, by hour, service, tenant and API key, so that they can be billed and
// limited.
//
// A [Ledger] counts in memory, writes each hour's numbers into a file in the state directory about once a second, and books them in the database, if
// there is one. A number that was written or booked is never added up again: each hour of each process has an id of its own, and its numbers are
// absolute and only grow, so that writing them twice changes nothing. What a process that was killed had not booked yet, the next one finds in the
// files. A kill loses what came after the last write.
package usage

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// Scope is whose usage it is. Names are empty for none.
type Scope struct {
	Service string `json:"service"`
	Tenant  string `json:"tenant,omitempty"`
	Key     string `json:"key,omitempty"` // the name of the API key
}

// compare orders scopes.
func (s Scope) compare(other Scope) int {
	return cmp.Or(cmp.Compare(s.Service, other.Service), cmp.Compare(s.Tenant, other.Tenant), cmp.Compare(s.Key, other.Key))
}

// Row is what the clients of a scope have used of one process in an hour.
type Row struct {
	Process string `json:"process,omitempty"` // the id of the process, and the number of the hour's count there; empty in sums
	Hour    string `json:"hour,omitempty"`    // in UTC, as HourOf writes it; empty in sums
	Scope
	meter.Used
}

// Store is a database that has rows. Any goroutine may call it.
type Store interface {
	// BookUsage adds rows, or raises the numbers of those that it has.
	BookUsage(ctx context.Context, rows []Row) error
	// SumUsage returns the sums by scope of the hours from one to before another, without those of the process except; empty for none.
	SumUsage(ctx context.Context, from, to, except string) ([]Row, error)
	// NewestUsage returns the last hour before one that has rows and is not in the future by the database's clock; empty for none.
	NewestUsage(ctx context.Context, before string) (hour string, err error)
	// ForgetUsage removes the rows of hours before one.
	ForgetUsage(ctx context.Context, before string) error
}

// hourLayout is how an hour is written: such texts sort as the hours do.
const hourLayout = "2006-01-02T15"

// HourOf returns the hour of a time, in UTC.
func HourOf(t time.Time) string { return t.UTC().Format(hourLayout) }

// afterAll is after all hours, also as databases of all languages sort texts.
const afterAll = "9999"

// oldest returns the first hour of which usage is kept; empty for all. newest returns the last hour before one in which something was used.
//
// A clock may be far ahead, also for some restarts, and what is forgotten is lost to all proxies. So time has passed only as far as something was used on
// several days.
func oldest(now time.Time, newest func(before string) (hour string, err error)) (string, error) {
	day := afterAll
	for range daysUsed {
		hour, err := newest(day)
		if err != nil || hour == "" {
			return "", err
		}
		day, _, _ = strings.Cut(hour, "T")
	}
	at, err := time.Parse(time.DateOnly, day)
	switch {
	case err != nil: // it is not a ledger's
		return "", nil
	case at.Before(now):
		now = at
	}
	return HourOf(now.Add(-keep)), nil
}

const (
	// maxScopes is how many scopes an hour has. What further ones use is counted for their service, under the tenant and key Others.
	maxScopes = 4096
	// Others is the tenant and key of all scopes that are too many.
	Others = "(others)"
	// maxHours is how many past hours are kept in memory that could neither be written nor booked.
	maxHours = 48
	// keep is for how long usage is kept.
	keep = 400 * 24 * time.Hour
	// daysUsed is on how many days something must have been used for the first of them to be taken for past.
	daysUsed = 7
	// keepBooked is for how long the files of booked hours are kept.
	keepBooked = 7 * 24 * time.Hour
)

// count is what one process has counted in an hour. It is guarded by the ledger's mu.
type count struct {
	process, hour string // static
	rows          map[Scope]*meter.Used
	changes       int                // how often something was added
	written       int                // how many of the changes are in the file
	unbooked      map[Scope]struct{} // the rows whose last change is not in the database yet
}

// unwritten reports whether something is not in the file yet, also while it is being written.
func (c *count) unwritten() bool { return c.written < c.changes }

// add counts what was used.
func (c *count) add(s Scope, used meter.Used) {
	row := c.rows[s]
	if row == nil {
		if len(c.rows) >= maxScopes {
			s.Tenant, s.Key = Others, Others
			row = c.rows[s]
		}
		if row == nil {
			row = new(meter.Used)
			c.rows[s] = row
		}
	}
	row.Add(used)
	c.changes++
	c.unbooked[s] = struct{}{}
}

// all returns the rows.
func (c *count) all() []Row {
	rows := make([]Row, 0, len(c.rows))
	for s, used := range c.rows {
		rows = append(rows, Row{c.process, c.hour, s, *used})
	}
	return rows
}

// sums adds up rows by scope.
type sums map[Scope]meter.Used

func (s sums) add(rows []Row) {
	for _, r := range rows {
		used := s[r.Scope]
		used.Add(r.Used)
		s[r.Scope] = used
	}
}

func (s sums) rows() []Row {
	rows := make([]Row, 0, len(s))
	for scope, used := range s {
		rows = append(rows, Row{Scope: scope, Used: used})
	}
	return rows
}
