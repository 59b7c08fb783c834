package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// putBackTime is for how long putting a backend back is tried while the proxy or its store is unreachable, and putBackEvery how often.
const (
	putBackTime  = 5 * time.Minute
	putBackEvery = time.Second
)

// protect has signals and output that nothing reads end the search instead of the process, until stop is called.
func (p *through) protect() (stop func()) {
	search, end := context.WithCancel(p.cmd.Context())
	last, abandon := context.WithCancel(context.WithoutCancel(search))
	output := &ending{to: p.to, end: end}
	p.to, p.last = output, last
	p.cmd.SetContext(search)
	p.cmd.SetErr(output)
	signals, pipes := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	signal.Notify(pipes, syscall.SIGPIPE) // so that a write fails instead; sockets raise it, too, so it does not end the search
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for said := false; ; {
			select {
			case s := <-signals:
				switch {
				case !p.ended.Swap(true):
					end()
				case s == syscall.SIGHUP: // a terminal that is closed may send several
				case !said:
					said = true
					fmt.Fprintf(output, "The backend %s is being put back. The next signal ends that: it will not be put back then.\n", p.backend)
				default:
					abandon()
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		close(quit)
		<-done
		end()
		abandon()
	}
}

// ending is where a search writes its messages to. It ends the search when that fails. Several goroutines may write.
type ending struct {
	mu  sync.Mutex
	to  io.Writer // guarded by mu
	end context.CancelFunc
}

func (e *ending) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.to.Write(b)
	if err != nil {
		e.end()
	}
	return n, err
}

// putBack puts the backend back as it was.
func (p *through) putBack() error {
	if !p.taken {
		return nil
	}
	p.ended.Store(true)
	ctx, cancel := context.WithTimeout(p.last, putBackTime)
	defer cancel()
	err := p.restore(ctx)
	for said := false; mayPass(err) && tasks.Sleep(ctx, putBackEvery); err = p.restore(ctx) {
		if !said {
			fmt.Fprintf(p.to, "The backend %s cannot be put back yet, which is tried again for %s: %v\n", p.backend, minutes(putBackTime), err)
			said = true
		}
	}
	if err != nil && p.last.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("the backend %s was NOT put back: %w. Put it back:\n%s", p.backend, err, p.words())
	}
	return nil
}

// mayPass reports whether an error is one of a proxy or a store that does not answer at present.
func mayPass(err error) bool {
	answered := (*client.Error)(nil)
	return errors.As(err, new(*client.UnreachableError)) || errors.Is(err, config.ErrUnreachable) || errors.Is(err, remote.ErrStore) ||
		errors.As(err, &answered) && answered.Status == http.StatusServiceUnavailable
}

func (p *through) restore(ctx context.Context) error {
	content, _, err := p.target.content(ctx)
	if err != nil {
		return err
	}
	back := []config.Mutation{{Verb: config.Set, Kind: config.KindBackend, Name: p.backend, Values: p.before}}
	if content.Has(config.KindService, p.service()) {
		back = append(back, config.Mutation{Verb: config.Remove, Kind: config.KindService, Name: p.service()})
	}
	_, err = p.change(ctx, "put back", back...)
	return err
}
