package limits

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a writer that keeps the lines that are written.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- strings.TrimSuffix(string(b), "\n")
	return len(b), nil
}

// A limit is logged when it is first reached, then once a minute with how often it was, and no more when it is no longer reached.
// However many addresses reach theirs, there are few lines.
func TestLimitLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(lines, 1000)
		log := NewLog(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindTime || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})))
		said := func() (lines []string) {
			synctest.Wait()
			for len(out) > 0 {
				lines = append(lines, <-out)
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
			log.Reached(tenant, "stt")
		}
		log.Reached(Cause{Limit: IdleTimeout}, "stt") // the service's own
		expect(`msg="limit reached" scope=tenant name=acme limit=byte-rate value=0`, `msg="limit reached" scope=service name=stt limit=idle-timeout`)
		time.Sleep(logPeriod)
		expect(`msg="limit still reached" scope=tenant name=acme limit=byte-rate times=3`)
		time.Sleep(logPeriod)
		expect()
		if n := len(log.Lately()); n != 0 {
			t.Errorf("%d limits are being reached", n)
		}
		for i := range 3 * maxLogged {
			log.Reached(Cause{Scope: NewScope(Client, fmt.Sprint("address ", i)), Limit: Sessions}, "stt")
		}
		if n := len(said()); n > maxLogged+1 {
			t.Errorf("%d lines", n)
		}
		log.Close()
		expect(fmt.Sprintf(`msg="limit still reached" scope=client limit=session-limit times=%d`, 2*maxLogged-1))
		if all := log.Total(); len(all) != 3 || all[1].Kind != Client || all[1].Times != 3*maxLogged {
			t.Errorf("counted: %+v", all)
		}
	})
}
