package app

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// A metric that is missing is logged, and not that a client has left.
func TestScrapeLog(t *testing.T) {
	var out strings.Builder
	log := scrapeLog{slog.New(slog.NewTextHandler(&out, nil))}
	log.Println("error encoding and sending metric family:", &net.OpError{Op: "write", Err: errors.New("broken pipe")})
	log.Println("error gathering metrics:", errors.New("twice"))
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=WARN msg="error gathering metrics: twice"`) {
		t.Errorf("logged\n%s", got)
	}
}
