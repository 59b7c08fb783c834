package remote

import (
	"encoding/json"
	"errors"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// The paths of the API.
const (
	root         = "/api/v1/config"
	versionPath  = root + "/version"
	changesPath  = root + "/changes"
	historyPath  = root + "/history"
	versionsPath = root + "/versions/"
)

// maxRequest limits the size of a request in bytes. A configuration of 5,000 backends takes about 1 MiB.
const maxRequest = 8 << 20

// entities are the entities of one kind by name. A missing field has its default, as in all stores. So nothing is lost in
// transfer, and a field that is not set stays unset.
type entities map[string]config.Values

// document is a configuration as the API sends it.
type document struct {
	Version  string                     `json:"version,omitempty"`
	Services map[string]json.RawMessage `json:"services"`
	Backends map[string]json.RawMessage `json:"backends"`
	Profiles map[string]json.RawMessage `json:"profiles"`
	Tenants  map[string]json.RawMessage `json:"tenants"`
	Keys     map[string]json.RawMessage `json:"keys"`
}

func encode(version string, content *config.Content) document {
	return encodeValues(version, content, content.Values)
}

// encodeShown is encode for a caller who may not see secrets. The hash of a key is left out: a text in its place would be no hash.
func encodeShown(version string, content *config.Content) document {
	return encodeValues(version, content, func(kind config.Kind, name string) config.Values {
		values := content.Shown(kind, name)
		if kind == config.KindKey {
			delete(values, "hash")
		}
		return values
	})
}

func encodeValues(version string, content *config.Content, values func(config.Kind, string) config.Values) document {
	all := func(kind config.Kind) map[string]json.RawMessage {
		to := make(map[string]json.RawMessage)
		for _, name := range content.Names(kind) {
			to[name] = config.JSON(kind, values(kind, name), false)
		}
		return to
	}
	return document{version, all(config.KindService), all(config.KindBackend), all(config.KindProfile), all(config.KindTenant), all(config.KindKey)}
}

// received is a document as the API reads it.
type received struct {
	Version  string   `json:"version"`
	Services entities `json:"services"`
	Backends entities `json:"backends"`
	Profiles entities `json:"profiles"`
	Tenants  entities `json:"tenants"`
	Keys     entities `json:"keys"`
}

// content returns the content of a document, and the problems of fields that could not be parsed. It does not validate the rest.
func (r *received) content() (content config.Content, problems config.Problems) {
	content = config.NewContent()
	for _, section := range []struct {
		kind config.Kind
		all  entities
	}{{config.KindService, r.Services}, {config.KindBackend, r.Backends}, {config.KindProfile, r.Profiles}, {config.KindTenant, r.Tenants}, {config.KindKey, r.Keys}} {
		for name, values := range section.all {
			problems = append(problems, content.Set(section.kind, name, values)...)
		}
	}
	return content, problems.With(nil) // in order
}

// change is the body of a POST to changesPath.
type change struct {
	Who       string            `json:"who"`
	Why       string            `json:"why,omitempty"`
	Expect    string            `json:"expect,omitempty"`
	Mutations []config.Mutation `json:"mutations,omitempty"`
	// Configuration replaces everything, if it is set.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	// DryRun asks what the change would do, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// allowedInChange lists the keys of a change, for error messages.
const allowedInChange = "who, why, expect, dry_run, and mutations or configuration"

// outcome is the answer to a change.
type outcome struct {
	Version string       `json:"version"`           // after the change
	Edits   config.Edits `json:"edits"`             // what it changed
	DryRun  bool         `json:"dry_run,omitempty"` // nothing was written
	// Configuration is set if the request asked for it.
	Configuration *document `json:"configuration,omitempty"`
}

// The kinds of errors that both sides know.
const (
	kindProblems  = "problems"   // the configuration is invalid
	kindConflict  = "conflict"   // the configuration was changed meanwhile
	kindReadOnly  = "read-only"  // [config.ErrReadOnly]
	kindNoVersion = "no-version" // [config.ErrNoVersion]
	kindSchema    = "schema"     // [config.ErrSchema]
	kindRefused   = "refused"    // the guard refused the request
	kindRequest   = "request"    // the request is malformed
	kindUnknown   = "not-found"  // no such path
	kindStore     = "store"      // any other error of the store
)

// failure is an error as the API sends it.
type failure struct {
	Kind     string          `json:"kind"`
	Text     string          `json:"text"`
	Problems config.Problems `json:"problems,omitempty"`
	Conflict *conflict       `json:"conflict,omitempty"`
}

type conflict struct {
	Expected string            `json:"expected"`
	Current  string            `json:"current"`
	Since    []config.Revision `json:"since"`
}

// failureOf converts an error of a store to a failure.
func failureOf(err error) failure {
	f := failure{Kind: kindStore, Text: err.Error()}
	var clash *config.ConflictError
	switch {
	case errors.As(err, &f.Problems):
		f.Kind = kindProblems
	case errors.As(err, &clash):
		f.Kind = kindConflict
		f.Conflict = &conflict{clash.Expected, clash.Current, clash.Since}
	case errors.Is(err, config.ErrReadOnly):
		f.Kind, f.Text = kindReadOnly, f.Text+" (use --database, with a role or as a user that may write, or give the proxy's that right)"
	case errors.Is(err, config.ErrNoVersion):
		f.Kind = kindNoVersion
	case errors.Is(err, config.ErrSchema):
		f.Kind = kindSchema
	}
	return f
}

// ErrStore says that the store of the proxy's configuration fails.
var ErrStore = errors.New("the configuration store fails")

// Error is an error answer of the proxy. errors.Is and errors.As find the error that a store would have returned.
type Error struct {
	text  string
	cause error // nil if the error is of no kind that both sides know
}

// Error returns the proxy's text.
func (e *Error) Error() string { return e.text }

// Unwrap returns the error of package config, if it was one.
func (e *Error) Unwrap() error { return e.cause }

// err is the reverse of failureOf.
func (f *failure) err() error {
	e := &Error{text: f.Text}
	switch {
	case f.Kind == kindProblems && len(f.Problems) > 0:
		e.cause = f.Problems
	case f.Kind == kindConflict && f.Conflict != nil:
		e.cause = &config.ConflictError{Expected: f.Conflict.Expected, Current: f.Conflict.Current, Since: f.Conflict.Since}
	case f.Kind == kindReadOnly:
		e.cause = config.ErrReadOnly
	case f.Kind == kindNoVersion:
		e.cause = config.ErrNoVersion
	case f.Kind == kindSchema:
		e.cause = config.ErrSchema
	case f.Kind == kindStore:
		e.cause = ErrStore
	}
	return e
}
