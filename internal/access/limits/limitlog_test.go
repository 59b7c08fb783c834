package limits

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
)

// A limit is logged when it is first reached, then once a minute with how often it was, and no more when it is not reached any longer.
// However many addresses reach theirs, there are few lines.
func TestLimitLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &logtest.Capture{Lines: make(chan logtest.Line, 1000)}
		log := Log{out: slog.New(out)}
		said := func() (lines []string) {
			synctest.Wait()
			for len(out.Lines) > 0 {
				line := <-out.Lines
				lines = append(lines, fmt.Sprint(line.Message, " ", line.Attrs["scope"], " ", line.Attrs["name"], " ", line.Attrs["limit"], " ", line.Attrs["times"]))
			}
			return lines
		}
		expect := func(want ...string) {
			t.Helper()
			if got := said(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q; want %q", got, want)
			}
		}
		tenant := Cause{Scope: NewScope(Tenant, "acme"), Limit: ByteRate}
		for range 4 {
			log.Note(tenant, "stt")
		}
		log.Note(Cause{Limit: IdleTimeout}, "stt") // the service's own
		expect("limit reached tenant acme byte-rate <nil>", "limit reached service stt idle-timeout <nil>")
		time.Sleep(limitLogPeriod)
		expect("limit still reached tenant acme byte-rate 3")
		time.Sleep(limitLogPeriod)
		expect()
		if n := len(log.Lately()); n != 0 {
			t.Errorf("%d limits are being reached", n)
		}
		for i := range 3 * maxLimitLines {
			log.Note(Cause{Scope: NewScope(Client, fmt.Sprint("address ", i)), Limit: Sessions}, "stt")
		}
		if n := len(said()); n > maxLimitLines+1 {
			t.Errorf("%d lines", n)
		}
		log.Close()
		expect(fmt.Sprintf("limit still reached client <nil> session-limit %d", 2*maxLimitLines-1))
		if got := log.Refused(); len(got) != 0 {
			t.Errorf("neither bytes nor addresses refuse clients of a tenant: %v", got)
		}
		for range 3 {
			log.NoteRefusal(Cause{Scope: NewScope(Tenant, "acme"), Limit: Sessions})
		}
		log.NoteRefusal(Cause{Scope: NewScope(Tenant, "acme"), Limit: SessionRate})
		if got := log.Refused(); len(got) != 1 || got["acme"] != 4 {
			t.Errorf("refused: %v", got)
		}
		if all := log.Total()[:3]; len(all) != 3 || all[1].Kind != Client || all[1].Times != 3*maxLimitLines {
			t.Errorf("counted: %+v", all)
		}
	})
}

// How often a limit was reached never falls while it is being reached, and tokens cannot have any number of tenants counted.
func TestCountsSinceTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := Log{out: slog.New(slog.DiscardHandler)}
		defer log.Close()
		limit, began := Cause{Scope: NewScope(Tenant, "acme"), Limit: Sessions}, time.Now()
		for n := range uint64(200) {
			log.NoteRefusal(limit)
			if all := log.Lately(); len(all) != 1 || all[0].Times != n+1 || !all[0].Since.Equal(began) {
				t.Fatalf("after %d: %+v", n+1, all)
			}
			time.Sleep(limitLogPeriod / 7)
		}
		for i := range 2 * maxTenants {
			log.NoteRefusal(Cause{Scope: NewScope(Tenant, fmt.Sprint("tenant ", i)), Limit: Sessions})
		}
		if got := log.Refused(); len(got) != maxTenants+1 || got[""] != maxTenants+1 {
			t.Errorf("%d tenants, %d of others", len(got), got[""])
		}
	})
}
