package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// Trace is a database's record of one change of one field, in the order of the changes. Its texts are raw, secret or not.
type Trace struct {
	Action Action
	Kind   Kind
	Name   string
	// Field that changed; empty for the trace that an entity was added or removed, which those of its fields follow.
	Field string
	// From and To are its texts; nil for the default.
	From, To *string
}

// TraceEdits returns traces as edits that may be shown, grouped by entity.
func TraceEdits(traces []Trace) (edits Edits) {
	for _, t := range traces {
		switch last := len(edits) - 1; {
		case t.Action == Changed:
			edits = append(edits, t.edit()...)
		case t.Field == "":
			edits = append(edits, Edit{Action: t.Action, Kind: t.Kind, Name: t.Name})
		case last >= 0:
			text := t.To
			if t.Action == Removed {
				text = t.From
			}
			if text != nil {
				if edits[last].Values == nil {
					edits[last].Values = make(Values)
				}
				edits[last].Values[t.Field] = *text
			}
		}
	}
	for i := range edits {
		if edits[i].Action != Changed {
			edits[i].Values = shown(edits[i].Kind, edits[i].Values)
		}
	}
	slices.SortStableFunc(edits, func(a, b Edit) int {
		return cmp.Or(
			cmp.Compare(a.Kind.order(), b.Kind.order()), cmp.Compare(a.Name, b.Name),
			cmp.Compare(fieldOrder(a.Kind, a.Field), fieldOrder(b.Kind, b.Field)),
		)
	})
	return edits
}

func (t Trace) edit() Edits {
	for _, f := range Fields(t.Kind) {
		if f.Name == t.Field {
			return diffField(t.Kind, t.Name, f, textOr(t.From, f.Default), textOr(t.To, f.Default))
		}
	}
	edit := Edit{Action: Changed, Kind: t.Kind, Name: t.Name, Field: t.Field, From: secret.Hidden, To: secret.Hidden} // of another version
	if _, gone := removed[t.Kind][t.Field]; gone {                                                                    // none of them was a secret
		edit.From, edit.To = textOr(t.From, ""), textOr(t.To, "")
	}
	return Edits{edit}
}

func textOr(text *string, or string) string {
	if text == nil {
		return or
	}
	return *text
}

// Rows are the fields of all entities as they stand in a database, by kind and name.
type Rows map[Kind]map[string]Values

// Undo undoes traces, the last first.
func (r Rows) Undo(traces []Trace) {
	for _, t := range slices.Backward(traces) {
		entities := r[t.Kind]
		if entities == nil {
			entities = make(map[string]Values)
			r[t.Kind] = entities
		}
		switch {
		case t.Action == Added && t.Field == "":
			delete(entities, t.Name)
		case t.Action == Added:
		case t.From == nil && t.Field != "":
			delete(entities[t.Name], t.Field)
		default: // the last that is taken back of an entity's removal is that it was removed
			if entities[t.Name] == nil {
				entities[t.Name] = make(Values)
			}
			if t.Field != "" {
				entities[t.Name][t.Field] = *t.From
			}
		}
	}
}

// Content returns the content of the rows, which may be those of an earlier version, without validating it, and what it could not parse.
func (r Rows) Content() (Content, Problems) {
	content := NewContent()
	var problems Problems
	for _, kind := range Kinds() {
		for _, name := range sortedKeys(r[kind]) {
			problems = append(problems, content.Set(kind, name, FromEarlier(kind, r[kind][name]))...)
		}
	}
	return content, problems
}

// Column returns the name of a field's column in a database.
func Column(field string) string { return strings.ReplaceAll(field, "-", "_") }

// FieldOf returns the name of a column's field.
func FieldOf(column string) string { return strings.ReplaceAll(column, "_", "-") }
