package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Verb is what a mutation does.
type Verb string

// The verbs.
const (
	Add    Verb = "add"    // a new entity
	Set    Verb = "set"    // fields of an entity
	Remove Verb = "remove" // an entity
)

// Mutation changes one entity.
type Mutation struct {
	Verb   Verb   `json:"verb"`
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Values Values `json:"values,omitempty"` // fields to set, see [Content.Set]
}

// Change is a change to a store: mutations, or a content that replaces the whole configuration.
type Change struct {
	// Expect is the version that the writer has read. If the store has another version, nothing is written and the error is a
	// [ConflictError]. With mutations it may be empty: then they are made in any version.
	Expect string `json:"expect,omitempty"`
	// Who makes the change, for the history; required.
	Who string `json:"who"`
	// Why the change is made, for the history.
	Why string `json:"why,omitempty"`
	// Mutations are made in this order.
	Mutations []Mutation `json:"mutations,omitempty"`
	// Content, if it is given, replaces the whole configuration.
	Content *Content `json:"-"`
}

// Names reports whether the change sets the field that a problem is about, removes its entity, or replaces everything.
func (c *Change) Names(p Problem) bool {
	field, _, _ := strings.Cut(p.Field, ".")
	return c.Content != nil || slices.ContainsFunc(c.Mutations, func(m Mutation) bool {
		_, set := m.Values[field]
		return m.Kind == p.Kind && m.Name == p.Name && (set || m.Verb == Remove)
	})
}

// Check returns what is wrong with the change itself, whatever the store contains.
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

// Apply returns the content after the change, which is valid. check may be nil, as for [Content.Validate]. The error is [Problems].
func (c *Change) Apply(current *Content, check ProfileCheck) (Content, error) {
	to, err := c.Result(current)
	if err == nil {
		err = to.Validate(check)
	}
	return to, err
}

// Result returns the content after the change, without validating it, but for secrets that the change would add. The error is [Problems].
func (c *Change) Result(current *Content) (Content, error) {
	to, problems := current.Clone(), Problems(nil)
	if c.Content != nil {
		to = c.Content.Clone()
	}
	for _, m := range c.Mutations {
		problems = append(problems, to.mutate(m)...)
	}
	to.refuseSecrets(current, &problems)
	to.refusePlaceholders(current, &problems)
	if len(problems) > 0 {
		return Content{}, problems
	}
	return to, nil
}

// refuseSecrets refuses secrets in the URLs of backends and in what services add to these. Those that were stored before stay in force.
func (c *Content) refuseSecrets(before *Content, problems *Problems) {
	for _, name := range sortedKeys(c.Services) {
		for parameter, text := range c.Services[name].SetQuery {
			template, err := profile.ParseTemplate(text)
			if err != nil || before.Services[name].SetQuery[parameter] == text {
				continue
			}
			if _, fixed := template.Fixed(); fixed && secret.IsName(parameter) && !isPlaceholder(text) {
				problems.add(KindService, name, "set-query", "%s looks like a secret, which is not stored here: use %s=env:NAME or %s=file:/path in the URL of the backends", parameter, parameter, parameter)
			}
		}
	}
	stored := make(map[string]bool)
	for _, b := range before.Backends {
		stored[b.URL] = true
	}
	for _, name := range sortedKeys(c.Backends) {
		address := c.Backends[name].URL
		if parameter := secret.Literal(address); parameter != "" && !stored[address] && secret.Placeholder(address) == "" {
			problems.add(KindBackend, name, "url", "the parameter %s looks like a secret, which is not stored here: use %s=env:NAME or %s=file:/path, or a header", parameter, parameter, parameter)
		}
	}
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
	case m.Verb == Add && m.Kind == KindBackend && m.Values["connections"] == "":
		// Only its operator knows how many a server takes.
		problems.add(m.Kind, m.Name, "connections", "the value is missing: use the most connections that the server may ever see at once")
	default:
		return c.Set(m.Kind, m.Name, m.Values)
	}
	return problems
}
