package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// fate is how a session ended, according to its record.
type fate struct {
	by         string
	code       frame.CloseCode
	reason     string
	connection string
}

// expectRecord waits for the record of the next session that ends, and checks how it did.
func (r *rig) expectRecord(want fate) {
	r.T.Helper()
	a := r.Record()
	got := fate{a["by"].String(), frame.CloseCode(a["code"].Int64()), a["reason"].String(), a["connection_fate"].String()}
	if got != want {
		r.T.Errorf("session ended with %+v; want %+v", got, want)
	}
}
