// Package kit is what the proofs are built of: their commands, the processes of proxies that they start, replace and ask, what they see of these
// processes and of servers' connections, goroutines that end together, traces of sessions, and the journal of what happened and what must not happen.
// Tests and examples that run the proxy as a process use it as well; the proxy itself does not.
package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Exit statuses of a proof's command.
const (
	Held    = 0
	Failed  = 1 // something was found, or the proof could not be carried out
	Misused = 2 // wrong flags
)

// Main runs a command until it returns, with a context that SIGINT and SIGTERM end, and exits with its status.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := Run(ctx, name, os.Args[1:], os.Stdout, os.Stderr, run)
	stop()
	os.Exit(status)
}

// Run runs a command and returns its exit status. It writes an error, behind the command's name, to diagnostics.
func Run(ctx context.Context, name string, args []string, out, diagnostics io.Writer, run func(ctx context.Context, args []string, out io.Writer) error) int {
	err := run(ctx, args, out)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return Held
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	fmt.Fprintf(diagnostics, "%s: %v\n", name, err)
	if errors.As(err, new(misuse)) {
		return Misused
	}
	return Failed
}

// misuse is an error of those who call a command.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// Misuse marks an error as one of those who call the command; nil stays nil.
func Misuse(err error) error {
	if err == nil {
		return nil
	}
	return misuse{err}
}

// Flags are the flags of a proof's command, which takes no other arguments.
type Flags struct {
	*flag.FlagSet
	seed *uint64
}

// NewFlags returns the flags of a command, whose help goes to out.
func NewFlags(name string, out io.Writer) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.SetOutput(out)
	return f
}

// SeedVar adds the flag -seed, whose default is a random number.
func (f *Flags) SeedVar(seed *uint64) {
	f.seed = seed
	f.Uint64Var(seed, "seed", 0, "`number` that makes the random choices repeatable, but not the timing (default: a random one, which is shown)")
}

// ListVar adds a flag whose value is a list of words, as [Words] reads it.
func (f *Flags) ListVar(list *[]string, name, usage string) {
	f.Func(name, usage, func(text string) error { *list = Words(text); return nil })
}

// Parse reads the flags.
func (f *Flags) Parse(args []string) error {
	if err := f.FlagSet.Parse(args); err != nil {
		return Misuse(err)
	}
	if f.NArg() > 0 {
		return Misuse(fmt.Errorf("unexpected argument %q: use flags only", f.Arg(0)))
	}
	if f.seed != nil && *f.seed == 0 {
		*f.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	return nil
}

// Words returns the words of a list with commas or spaces between them.
func Words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Within returns an error if an option is not from least to most, which names it, its value and what to use.
func Within[T int | float64 | time.Duration](option string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%s: %v is out of range: use %v to %v", option, value, least, most)
}

// Find returns the one of several things that has a name. what says what they are, for the error.
func Find[T any](what, name string, all []T, nameOf func(*T) string) (*T, error) {
	names := Names(all, nameOf)
	if i := slices.Index(names, name); i >= 0 {
		return &all[i], nil
	}
	return nil, spelling.Unknown(what, name, names)
}

// Names returns the names of several things.
func Names[T any](all []T, nameOf func(*T) string) (names []string) {
	for i := range all {
		names = append(names, nameOf(&all[i]))
	}
	return names
}

// Share returns the i-th of parts of n that are as equal as can be.
func Share(n, i, parts int) int { return n*(i+1)/parts - n*i/parts }
