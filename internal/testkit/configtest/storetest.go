// Package configtest has the contract of [config.Store] as tests, which every store must pass.
package configtest

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Place is where the stores of one test keep their configuration, empty at first.
type Place struct {
	// Open returns a store for the place. All stores of one place see the same configuration, as if each belonged to another
	// process. The test closes them.
	Open func(t testing.TB, options config.Options) config.Store
	// Single says that a place can have only one open store.
	Single bool
}

// Run tests the stores of new places.
func Run(t *testing.T, place func(t *testing.T) Place) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Place)
		both bool // needs two stores in one place
	}{
		{"empty", testEmpty, false},
		{"round trip", testRoundTrip, false},
		{"back to defaults", testDefaults, false},
		{"mutations", testMutations, false},
		{"refused", testRefused, false},
		{"profiles are checked", testProfileCheck, false},
		{"nothing to change", testNoChange, false},
		{"conflict", testConflict, false},
		{"one writer wins", testWriters, false},
		{"no update is lost", testLostUpdate, false},
		{"history", testHistory, false},
		{"many versions", testManyVersions, false},
		{"secrets", testSecrets, false},
		{"roll back", testRollBack, false},
		{"watch oneself", testWatchOneself, false},
		{"watch others", testWatchOthers, true},
		{"watch is coalesced", testCoalesced, false},
		{"cancelled", testCancelled, false},
		{"closed", testClosed, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := place(t)
			if test.both && p.Single {
				t.Skip("only one store can be open here")
			}
			test.run(t, p)
		})
	}
}

// open opens a store, and closes it when the test ends.
func (p Place) open(t testing.TB) config.Store {
	t.Helper()
	s := p.Open(t, config.Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// other opens a second store if the place allows it; otherwise it returns the first.
func (p Place) other(t testing.TB, first config.Store) config.Store {
	if p.Single {
		return first
	}
	return p.open(t)
}

func load(t testing.TB, s config.Store) *config.Snapshot {
	t.Helper()
	snapshot, err := s.Load(t.Context())
	if err != nil {
		t.Fatalf("loading: %v", err)
	}
	return snapshot
}

// apply applies a change that must succeed.
func apply(t testing.TB, s config.Store, change config.Change) *config.Snapshot {
	t.Helper()
	if change.Who == "" {
		change.Who = "tester"
	}
	snapshot, err := s.Apply(t.Context(), change)
	if err != nil {
		t.Fatalf("applying: %v", err)
	}
	return snapshot
}

// Fill replaces the configuration with [Small].
func Fill(t testing.TB, s config.Store) *config.Snapshot {
	t.Helper()
	return replace(t, s, Small())
}

// replace replaces the configuration with a content.
func replace(t testing.TB, s config.Store, content config.Content) *config.Snapshot {
	t.Helper()
	return apply(t, s, config.Change{Expect: load(t, s).Version(), Content: &content})
}

// set returns the mutation of some fields of a backend.
func set(backend string, values config.Values) []config.Mutation {
	return []config.Mutation{{Verb: config.Set, Kind: config.KindBackend, Name: backend, Values: values}}
}

// same fails the test unless two contents are equal, and says what is different.
func same(t testing.TB, what string, got, want config.Content) {
	t.Helper()
	if edits := config.Diff(&want, &got); len(edits) > 0 {
		t.Errorf("%s: it differs from what it should be:\n%v", what, edits)
	}
}

func history(t testing.TB, s config.Store, limit int) []config.Revision {
	t.Helper()
	revisions, err := s.History(t.Context(), limit)
	if err != nil {
		t.Fatalf("history: %v", err)
	}
	return revisions
}
