package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// The forms of what is printed, beside the one for people.
const (
	asWide = "wide" // a table with more columns
	asJSON = "json"
	asYAML = "yaml"
	asName = "name" // nothing but names, a line each
)

// forPeople are the words for the form for people, whichever a command has.
var forPeople = []string{"table", "text", "screen", "lines"}

// output is the flag for the form of what is printed.
type output struct {
	form    string
	allowed []string // the first is for people
}

// add adds the flag; people is what is printed for people, others are forms beside it.
func (o *output) add(cmd *cobra.Command, people string, others ...string) {
	o.allowed = append([]string{people}, others...)
	o.form = people
	usage := people + " for people or json for machines"
	if len(others) > 1 {
		usage = "form: " + spelling.OneOf(o.allowed)
	}
	cmd.Flags().VarP(o, "output", "o", usage)
	cmd.Flags().Lookup("output").DefValue = people
	completeWords(cmd, "output", o.allowed)
}

// forPrograms reports whether the form is one for programs.
func (o *output) forPrograms() bool { return o.form == asJSON || o.form == asYAML }

// print prints a value in a form for programs.
func (o *output) print(out io.Writer, value any) error {
	if o.form == asYAML {
		return printYAML(out, value)
	}
	return printJSON(out, value)
}

// Set implements pflag.Value.
func (o *output) Set(text string) error {
	if slices.Contains(forPeople, text) {
		text = o.allowed[0]
	}
	if !slices.Contains(o.allowed, text) {
		if len(o.allowed) == 2 {
			return fmt.Errorf("invalid value %q: use %s or %s", text, o.allowed[0], o.allowed[1])
		}
		return fmt.Errorf("invalid value %q: use %s", text, spelling.OneOf(o.allowed))
	}
	o.form = text
	return nil
}

func (o *output) String() string { return o.form }

// Type implements pflag.Value.
func (o *output) Type() string { return "form" }

func printJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// printYAML prints what printJSON prints, in the same order and with the same names, as YAML.
func printYAML(out io.Writer, value any) error {
	var b bytes.Buffer
	if err := printJSON(&b, value); err != nil {
		return err
	}
	var node yaml.Node // JSON is YAML, too; a node keeps the order of keys
	if err := yaml.Unmarshal(b.Bytes(), &node); err != nil {
		return fmt.Errorf("cannot print YAML: %w", err)
	}
	block(&node)
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return err
	}
	return e.Close()
}

// block has a node and what is below it printed without braces, and without quotes where none are needed.
func block(node *yaml.Node) {
	node.Style = 0
	for _, child := range node.Content {
		block(child)
	}
	if (node.Kind == yaml.MappingNode || node.Kind == yaml.SequenceNode) && len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
}

// rows is a list as commands print it.
type rows struct {
	heads []string
	wide  int // how many of the last columns are shown only in the wide form
	cells [][]string
	names []string
	all   any // for programs: a list
	note  string
}

// print prints the list in a form.
func (r *rows) print(out io.Writer, o *output) error {
	switch {
	case o.forPrograms():
		return o.print(out, r.all)
	case o.form == asName:
		for _, name := range r.names {
			if _, err := fmt.Fprintln(out, name); err != nil {
				return err
			}
		}
		return nil
	}
	heads, cells := r.heads, r.cells
	if o.form != asWide {
		heads = heads[:len(heads)-r.wide]
		cells = slices.Clone(cells)
		for i, row := range cells {
			cells[i] = row[:min(len(row), len(heads))]
		}
	}
	if err := table(out, heads, cells); err != nil || r.note == "" {
		return err
	}
	_, err := fmt.Fprintln(out, r.note)
	return err
}

// listFlags are the flags of commands that print a list.
type listFlags struct {
	output
	watch    bool
	interval time.Duration
}

func (f *listFlags) add(cmd *cobra.Command) {
	f.output.add(cmd, "table", asWide, asJSON, asYAML, asName)
	f.addWatch(cmd)
}

func (f *listFlags) addWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again and again until interrupted, in the same place of the terminal")
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "time between two lists of --watch")
}

// run prints the list that get returns: once, or again and again. What get writes to messages is shown with the list.
func (f *listFlags) run(cmd *cobra.Command, get func(messages io.Writer) (*rows, error)) error {
	return f.show(cmd, func(out, messages io.Writer) error {
		list, err := get(messages)
		if err != nil {
			return err
		}
		return list.print(out, &f.output)
	})
}

// show has a screen drawn once, or again and again.
func (f *listFlags) show(cmd *cobra.Command, draw func(out, messages io.Writer) error) error {
	out := cmd.OutOrStdout()
	if !f.watch {
		if cmd.Flags().Changed("interval") {
			return usageError(errors.New("--interval works only with --watch"))
		}
		return draw(out, cmd.ErrOrStderr())
	}
	switch {
	case f.forPrograms():
		return usageError(fmt.Errorf("--watch is for people: it does not work with --output %s", f.form))
	case f.interval < 100*time.Millisecond || f.interval > time.Hour:
		return usageError(fmt.Errorf("--interval: invalid duration \"%v\": use a duration from 100ms to 1h", f.interval))
	case !isTerminal(out):
		return usageError(errors.New("--watch draws on a terminal, but standard output is none: repeat the command instead, for example with --output json"))
	}
	w := watcher{out: out, size: func() (int, int) { return terminalSize(out) }, colours: colours(out), interval: f.interval, title: strings.TrimSpace(cmd.CommandPath()), draw: draw}
	return w.run(cmd.Context())
}
