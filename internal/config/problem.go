package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Place string `json:"place,omitempty"` // such as file:line:column; empty if there is none
	Kind  Kind   `json:"kind,omitempty"`  // of the entity; empty for a problem of no entity
	Name  string `json:"name,omitempty"`  // of the entity
	Field string `json:"field,omitempty"` // of the entity; empty for a problem of the whole entity
	Text  string `json:"text"`            // the value, what is wrong with it and what is allowed; never a secret
}

// Error returns the problem on one line.
func (p Problem) Error() string {
	var b strings.Builder
	if p.Place != "" {
		b.WriteString(p.Place + ": ")
	}
	if p.Kind != "" {
		b.WriteString(string(p.Kind))
		if p.Name != "" {
			b.WriteString(" " + p.Name)
		}
		b.WriteString(": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	return b.String() + p.Text
}

// Problems is everything that is wrong with a configuration. errors.As finds it in errors of this package and of stores.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// add appends a problem.
func (p *Problems) add(kind Kind, name, field, format string, args ...any) {
	*p = append(*p, Problem{Kind: kind, Name: name, Field: field, Text: fmt.Sprintf(format, args...)})
}

// sorted returns the problems in a stable order, without duplicates.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Kind.order(), b.Kind.order()), cmp.Compare(a.Name, b.Name),
			cmp.Compare(fieldOrder(a.Kind, a.Field), fieldOrder(b.Kind, b.Field)), cmp.Compare(a.Text, b.Text),
		)
	})
	return slices.Compact(p)
}

// With returns these problems and those in err. It leaves out problems in err with fields that have a problem here: a field that could
// not be parsed has its default, which no one wrote.
func (p Problems) With(err error) Problems {
	all := slices.Clone(p)
	var others Problems
	if !errors.As(err, &others) && err != nil {
		others = Problems{{Text: err.Error()}}
	}
	for _, other := range others {
		told := func(own Problem) bool {
			return own.Kind == other.Kind && own.Name == other.Name && own.Field == other.Field
		}
		if other.Field == "" || !slices.ContainsFunc(p, told) {
			all = append(all, other)
		}
	}
	return all.sorted()
}

// err returns the problems as an error, nil if there are none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p.sorted()
}
