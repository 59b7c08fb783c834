package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
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

// putBack puts the backend back.
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
			fmt.Fprintf(p.to, "The backend %s cannot be put back yet: %v. Trying again for %s.\n", p.backend, err, minutes(putBackTime))
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

// mayPass reports whether an error is one of a proxy or a store that does not answer at present, or of a change that came first.
func mayPass(err error) bool {
	answered, ok := errors.AsType[*client.Error](err)
	return errors.As(err, new(*client.UnreachableError)) || errors.Is(err, config.ErrUnreachable) || errors.Is(err, remote.ErrStore) ||
		errors.As(err, new(*config.ConflictError)) || ok && answered.Status == http.StatusServiceUnavailable
}

// restore puts back what is as take left it. What others have changed meanwhile stays.
func (p *through) restore(ctx context.Context) error {
	content, version, err := p.target.content(ctx)
	if err != nil {
		return err
	}
	fields := make(config.Values)
	var left []string
	for _, field := range slices.Sorted(maps.Keys(p.before)) {
		switch now := content.Value(config.KindBackend, p.backend, field); now {
		case p.before[field]:
		case p.set[field]:
			fields[field] = p.before[field]
		default:
			left = append(left, field+" "+now)
		}
	}
	var back []config.Mutation
	switch has := content.Has(config.KindBackend, p.backend); {
	case !has:
		left = []string{"it was removed"}
	case len(fields) > 0:
		back = append(back, config.Mutation{Verb: config.Set, Kind: config.KindBackend, Name: p.backend, Values: fields})
	}
	if content.Has(config.KindService, p.service()) {
		back = append(back, config.Mutation{Verb: config.Remove, Kind: config.KindService, Name: p.service()})
	}
	if len(back) > 0 {
		if _, err := p.change(ctx, version, "put back", back...); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(p.to, "backend %s: left as others have changed it meanwhile: %s\n", p.backend, strings.Join(left, ", "))
	}
	return nil
}
