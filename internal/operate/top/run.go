package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Options are the settings of the view.
type Options struct {
	Proxy    *client.Client
	Operator Operator
	Interval time.Duration // between two updates
	Style    Style
	In       io.Reader
	Out      io.Writer
}

// orderTimeout is how long an order may take.
const orderTimeout = 15 * time.Second

// Run shows a proxy on the whole terminal until the user quits or ctx ends. The terminal is as before when it returns, also after a
// panic or a signal.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &screen{ctx: ctx, model: NewModel(o.Proxy.Address(), o.Style), operator: o.Operator, queries: make(chan api.SessionQuery, 1)}
	program := tea.NewProgram(s, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler())
	s.program = program
	var workers sync.WaitGroup
	guarded := func(do func()) {
		workers.Go(func() {
			defer func() { // a panic here would leave the terminal as it is; the program restores it when it panics itself
				if r := recover(); r != nil {
					program.Send(crash{fmt.Sprintf("%v\n%s", r, debug.Stack())})
				}
			}()
			do()
		})
	}
	f := &feed{proxy: o.Proxy, interval: o.Interval, emit: func(u Update) { program.Send(u) }}
	query := s.model.Query()
	guarded(func() { f.run(ctx, s.queries, query) })
	guarded(func() { s.follow(ctx, o.Interval) })
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGQUIT) // SIGINT and SIGTERM end ctx
	guarded(func() {
		select {
		case <-ctx.Done():
		case <-signals:
		}
		program.Quit()
	})
	_, err := program.Run()
	cancel()
	signal.Stop(signals)
	workers.Wait()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// crash is a panic of a worker.
type crash struct{ text string }

// followed asks for the details of a session again.
type followed struct{}

// screen joins the model with the terminal. The program calls it from one goroutine.
type screen struct {
	ctx      context.Context
	model    *Model
	program  *tea.Program
	operator Operator
	queries  chan api.SessionQuery // the latest one that the feed has not taken yet
}

type (
	done struct {
		text string
		err  error
	}
	detailed struct {
		id      string
		session *api.SessionDetail
		err     error
	}
)

// Init implements [tea.Model].
func (s *screen) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (s *screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		s.model.Resize(message.Width, message.Height)
	case tea.KeyPressMsg:
		return s, s.carryOut(s.model.Key(message.String()))
	case tea.PasteMsg:
		for _, r := range message.Content {
			if s.model.typing {
				s.model.Key(string(r))
			}
		}
	case Update:
		s.model.Update(message)
	case done:
		s.model.Done(message.text, message.err)
	case detailed:
		s.model.Detail(message.id, message.session, message.err)
	case followed:
		if id := s.model.Following(); id != "" {
			return s, s.carryOut(Order{Show, id})
		}
	case crash:
		panic(message.text)
	}
	return s, nil
}

// View implements [tea.Model].
func (s *screen) View() tea.View {
	v := tea.NewView(s.model.View())
	v.AltScreen = true
	v.WindowTitle = "wsbouncer top"
	return v
}

// carryOut returns the command that carries out an order; nil if there is nothing to do.
func (s *screen) carryOut(o Order) tea.Cmd {
	do := func(f func(ctx context.Context) (string, error)) tea.Cmd {
		return func() tea.Msg {
			ctx, cancel := context.WithTimeout(s.ctx, orderTimeout)
			defer cancel()
			text, err := f(ctx)
			return done{text, err}
		}
	}
	switch o.Verb {
	case Quit:
		return tea.Quit
	case Suspend:
		return tea.Suspend
	case Watch:
		select {
		case <-s.queries: // which was not taken, and is no longer needed
		default:
		}
		s.queries <- s.model.Query()
	case Show:
		return func() tea.Msg {
			ctx, cancel := context.WithTimeout(s.ctx, orderTimeout)
			defer cancel()
			session, err := s.operator.Session(ctx, o.Target)
			return detailed{o.Target, &session, err}
		}
	case Kill:
		return do(func(ctx context.Context) (string, error) { return s.operator.Kill(ctx, o.Target) })
	case Drain:
		return do(func(ctx context.Context) (string, error) { return s.operator.SetState(ctx, o.Target, "draining") })
	case Enable:
		return do(func(ctx context.Context) (string, error) { return s.operator.SetState(ctx, o.Target, "enabled") })
	case Pause:
		return do(func(ctx context.Context) (string, error) { return s.operator.Pause(ctx, o.Target) })
	case Resume:
		return do(func(ctx context.Context) (string, error) { return s.operator.Resume(ctx, o.Target) })
	}
	return nil
}

// follow has the details of the session that is shown fetched again at each interval.
func (s *screen) follow(ctx context.Context, interval time.Duration) {
	for range tasks.Every(ctx, interval) {
		s.program.Send(followed{})
	}
}
