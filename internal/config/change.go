package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// Verb is what a mutation does.
type Verb string

// The verbs.
const (
	Add    Verb = "add"    // an entity that is not there yet
	Set    Verb = "set"    // fields of one that is there
	Remove Verb = "remove" // one that is there
)

// Mutation changes one entity.
type Mutation struct {
	Verb   Verb   `json:"verb"`
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Values Values `json:"values,omitempty"` // fields to set, see [Content.Set]
}

// Change is what somebody wants to write to a store: mutations, or a whole content in the place of all there is.
type Change struct {
	// Expect is the version that the writer has seen. When another one is there by now, nothing is written and the error is a
	// [ConflictError]. It may be empty with mutations, which then are made whatever else has changed.
	Expect string `json:"expect,omitempty"`
	// Who makes the change, for the history; must be given.
	Who string `json:"who"`
	// Why, for the history.
	Why string `json:"why,omitempty"`
	// Mutations are made in their order.
	Mutations []Mutation `json:"mutations,omitempty"`
	// Content replaces everything, if it is given.
	Content *Content `json:"-"`
}

// Check returns what is wrong with the change before anything else is known.
func (c *Change) Check() error {
	var errs []error
	if c.Who == "" {
		errs = append(errs, errors.New("who is missing: say who makes the change"))
	}
	for _, text := range []string{c.Who, c.Why} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > 1000 {
			errs = append(errs, fmt.Errorf("invalid text %.40q: use at most 1000 bytes of UTF-8", text))
		}
	}
	switch {
	case c.Content != nil && len(c.Mutations) > 0:
		errs = append(errs, errors.New("a change has either mutations or a whole configuration, not both"))
	case c.Content != nil && c.Expect == "":
		errs = append(errs, errors.New("a whole configuration needs the version that it replaces"))
	}
	return errors.Join(errs...)
}

// Result returns what the current content becomes. Whether it is valid is not checked. The error is [Problems].
func (c *Change) Result(current *Content) (Content, error) {
	if c.Content != nil {
		return c.Content.Clone(), nil
	}
	to := current.Clone()
	var problems Problems
	for _, m := range c.Mutations {
		problems = append(problems, to.mutate(m)...)
	}
	if len(problems) > 0 {
		return Content{}, problems
	}
	return to, nil
}

func (c *Content) mutate(m Mutation) (problems Problems) {
	if _, ok := tables[m.Kind]; !ok {
		return Problems{{Text: spelling.Unknown("kind of entity", string(m.Kind), kindNames()).Error()}}
	}
	exists := c.Has(m.Kind, m.Name)
	switch {
	case m.Verb != Add && m.Verb != Set && m.Verb != Remove:
		problems.add(m.Kind, m.Name, "", "%v", spelling.Unknown("verb", string(m.Verb), []string{string(Add), string(Set), string(Remove)}))
	case m.Verb == Add && exists:
		problems.add(m.Kind, m.Name, "", "already exists: choose another name, or use `set` to change it")
	case m.Verb != Add && !exists:
		problems = append(problems, Problem{Text: spelling.Unknown(string(m.Kind), m.Name, c.Names(m.Kind)).Error()})
	case m.Verb == Remove:
		c.Remove(m.Kind, m.Name)
	default:
		return c.Set(m.Kind, m.Name, m.Values)
	}
	return problems
}
