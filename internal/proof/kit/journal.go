package kit

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Journal keeps what happened and what must not happen. Its methods may be called from any goroutine.
type Journal struct {
	Begin time.Time // static
	out   io.Writer // static: gets each line as it comes; nil for nowhere

	mu         sync.Mutex
	lines      []string     // guarded by mu: the latest
	violations []*Violation // guarded by mu: the first of each kind and place
}

// Violation is something that must not happen.
type Violation struct {
	Kind string
	// Place is where it happened, At when it did for the first time, and Text says what; the others of the kind there are only counted.
	Place, At, Text string
	Times           int
	// Before is what happened before.
	Before []string
	// History is what is known about what it is about.
	History []string
}

const (
	maxLines = 400 // how many lines are kept
	shown    = 20  // how many of them a violation shows
)

// NewJournal returns a journal whose lines go to out as they come; nil for nowhere.
func NewJournal(out io.Writer) *Journal { return &Journal{Begin: time.Now(), out: out} }

// Stamp returns a time since the beginning.
func (j *Journal) Stamp(at time.Time) string { return fmt.Sprintf("%8.3fs", at.Sub(j.Begin).Seconds()) }

// Event records what happened.
func (j *Journal) Event(format string, args ...any) {
	line := j.Stamp(time.Now()) + "  " + fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == maxLines {
		j.lines = append(j.lines[:0], j.lines[maxLines/2:]...)
	}
	j.lines = append(j.lines, line)
	if j.out != nil {
		fmt.Fprintln(j.out, line)
	}
}

// Violation records something that must not happen: the first of its kind in a place in full, the others as a number.
func (j *Journal) Violation(place, kind string, history []string, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.mu.Lock()
	at := strings.TrimSpace(j.Stamp(time.Now()))
	i := slices.IndexFunc(j.violations, func(v *Violation) bool { return v.Kind == kind && v.Place == place })
	if i >= 0 {
		j.violations[i].Times++
		j.mu.Unlock()
		return
	}
	j.violations = append(j.violations, &Violation{
		Kind: kind, Place: place, At: at, Text: text, Times: 1, Before: slices.Clone(j.lines[max(0, len(j.lines)-shown):]), History: history,
	})
	j.mu.Unlock()
	j.Event("FOUND %s: %s", kind, text)
}

// Found returns all violations.
func (j *Journal) Found() (all []Violation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range j.violations {
		all = append(all, *v)
	}
	return all
}

// Err returns an error that says what the first violation is; nil if there is none.
func (j *Journal) Err() error { return Err(j.Found()) }

// Err returns an error that says what the first violation is; nil if there is none.
func Err(found []Violation) error {
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", found[0].Kind, found[0].Text)
}

// Tell writes each kind of violation once: where and how often it happened, and the first one in full. It returns how many kinds there are.
func Tell(out io.Writer, found []Violation) (kinds int) {
	told := make(map[string]bool)
	for _, first := range found {
		if told[first.Kind] {
			continue
		}
		told[first.Kind] = true
		var places []string
		for _, v := range found {
			if v.Kind == first.Kind {
				places = append(places, strings.TrimSpace(fmt.Sprintf("%s %d", v.Place, v.Times)))
			}
		}
		what := strings.TrimPrefix(first.Place+", "+strings.TrimSpace(first.Text), ", ")
		fmt.Fprintf(out, "\nFOUND %s\n  how often: %s\n  the first, at %s: %s\n", first.Kind, strings.Join(places, ", "), first.At, what)
		for _, line := range first.Before {
			fmt.Fprintln(out, "    before:", line)
		}
		for _, line := range first.History {
			fmt.Fprintln(out, "    history:", line)
		}
	}
	return len(told)
}

// Conclude ends a proof whose processes' logs are below a directory: a data race there is a violation, too. It writes the lines and all violations, and
// returns an error that says what the first one is.
func (j *Journal) Conclude(out io.Writer, directory string, lines []string) error {
	if err := Races(directory); err != nil {
		j.Violation("", "a data race", nil, "%v", err)
	}
	fmt.Fprintf(out, "\n%s\n", strings.Join(lines, "\n"))
	Tell(out, j.Found())
	return j.Err()
}
