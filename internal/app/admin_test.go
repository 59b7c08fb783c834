package app

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
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

// shortListener fails some times before it accepts, as the machine's do that is short of memory.
type shortListener struct {
	net.Listener
	fails int
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.ENOBUFS}
	}
	return l.Listener.Accept()
}

// The admin API survives that the machine is short of something.
func TestAdminSurvivesShortage(t *testing.T) {
	listener := wstest.Listen(t)
	server := &http.Server{Handler: http.NotFoundHandler()}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(&enduring{&shortListener{listener, 3}, slog.New(slog.DiscardHandler)})
	}()
	response, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	_ = server.Close()
	if err := wstest.Receive(t, ended, "the end"); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("it ended with %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
