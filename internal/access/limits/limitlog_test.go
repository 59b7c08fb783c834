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
		if all := log.Total(); len(all) != 3 || all[1].Kind != Client || all[1].Times != 3*maxLimitLines {
			t.Errorf("counted: %+v", all)
		}
	})
}
