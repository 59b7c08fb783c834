package accesslog

import (
	"log/slog"
	"time"
)

// trouble says in the process's log when the file cannot be written, and when it can be written again: once each, and not more often
// than every ten seconds if the file keeps changing its mind. It belongs to the writer's goroutine.
type trouble struct {
	log     *slog.Logger
	said    bool      // the log has a line about the present failure
	last    time.Time // when the log got the last line
	leftOut uint64    // lines left out that the log knows of
}

// failed notes a failure, unless the error is nil. It returns whether there was one.
func (t *trouble) failed(err error) bool {
	if err == nil {
		return false
	}
	if !t.said && time.Since(t.last) >= quiet {
		t.said, t.last = true, time.Now()
		t.log.Warn("the access log cannot be written: trying again every second", "error", err)
	}
	return true
}

// over notes that everything could be written, and how many lines were left out so far.
func (t *trouble) over(leftOut uint64) {
	lines := leftOut - t.leftOut
	switch {
	case t.said:
		t.log.Info("the access log is written again", "lines_left_out", lines)
		t.leftOut = leftOut
	case lines > 0 && time.Since(t.last) >= quiet:
		t.log.Warn("the access log is written too slowly: lines were left out", "lines_left_out", lines)
		t.leftOut, t.last = leftOut, time.Now()
	}
	t.said = false
}

// forget has the next failure logged whatever was logged before.
func (t *trouble) forget() { t.said, t.last = false, time.Time{} }
