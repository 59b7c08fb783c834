package relay

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// fate is how a session ended, according to its record.
type fate struct {
	by         string
	code       frame.CloseCode
	reason     string
	connection string
}

// record waits for the record of the next session that ends.
func (r *rig) record() map[string]slog.Value {
	r.T.Helper()
	for {
		select {
		case line := <-r.Log.Lines:
			if line.Message == "session ended" {
				return line.Attrs
			}
		case <-time.After(wstest.Timeout):
			r.T.Fatal("no session ended")
		}
	}
}

// expectRecord waits for the record of the next session that ends, and checks how it did.
func (r *rig) expectRecord(want fate) {
	r.T.Helper()
	a := r.record()
	got := fate{a["by"].String(), frame.CloseCode(a["code"].Int64()), a["reason"].String(), a["connection_fate"].String()}
	if got != want {
		r.T.Errorf("session ended with %+v; want %+v", got, want)
	}
}
