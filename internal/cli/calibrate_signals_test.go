//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// protected returns a backend that is calibrated via the proxy, with the store and what is read of the messages.
func protected(t *testing.T, store config.Store) (p *through, messages *os.File) {
	t.Helper()
	messages, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := new(cobra.Command)
	cmd.SetContext(t.Context())
	p = &through{backend: "gpu-1", before: config.Values{"service": "stt"}, target: &target{Store: store}, cmd: cmd, to: output, taken: true}
	stop := p.protect()
	t.Cleanup(func() {
		stop()
		_ = messages.Close()
		_ = output.Close()
	})
	return p, messages
}

// The first signal ends the search, whichever it is. While the backend is put back, one signal is only answered, and the next one ends that.
func TestCalibrateThroughSignals(t *testing.T) {
	arrived := make(chan os.Signal, 1) // keeps the process from ending if the code under test does not
	signal.Notify(arrived, syscall.SIGHUP, os.Interrupt)
	defer signal.Stop(arrived)
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Error(err)
		}
		<-arrived
	}
	var messages *os.File
	var p *through
	p, messages = protected(t, loader{load: func(ctx context.Context) (*config.Snapshot, error) {
		send(syscall.SIGHUP) // the terminal's second one
		send(syscall.SIGINT)
		answer := make([]byte, 1000)
		if n, err := messages.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "gpu-1 is being put back. The next signal ends that") || ctx.Err() != nil {
			t.Errorf("%v, %s, %v", err, answer, ctx.Err())
		}
		send(syscall.SIGINT)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	send(syscall.SIGHUP)
	<-p.cmd.Context().Done()
	if err := p.putBack(); err == nil || !strings.Contains(err.Error(), "NOT put back: interrupted. Put it back:\n  wsbouncer backend set gpu-1 --service stt") {
		t.Error(err)
	}
}

// A search ends when nothing reads its messages, and its backend is put back then.
func TestCalibrateThroughBrokenPipe(t *testing.T) {
	loaded := errors.New("loaded")
	p, messages := protected(t, loader{load: func(ctx context.Context) (*config.Snapshot, error) { return nil, errors.Join(loaded, ctx.Err()) }})
	_ = messages.Close()
	if _, err := io.WriteString(p.cmd.ErrOrStderr(), "step 1\n"); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	<-p.cmd.Context().Done()
	if err := p.putBack(); !errors.Is(err, loaded) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
