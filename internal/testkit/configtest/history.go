package configtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// manyVersions is how many versions testManyVersions makes: a number of three digits, since stores that number their versions must
// not sort them as texts. Stores with a bounded history keep at least that many.
const manyVersions = 100

// testManyVersions makes a hundred versions, and rolls back to those around which the number gets one more digit.
func testManyVersions(t *testing.T, p Place) {
	s := p.open(t)
	versions := []*config.Snapshot{replace(t, s, Small())}
	for n := 2; n <= manyVersions; n++ {
		change := connections(1000 + n)
		change.Who, change.Why = "author-"+strconv.Itoa(n), fmt.Sprintf("change %d", n)
		versions = append(versions, apply(t, s, change))
	}
	reader := p.other(t, s)
	for _, limit := range []int{1, 9, 10, 11, 99, 100, 1000} {
		all := history(t, reader, limit)
		if len(all) != min(limit, manyVersions) {
			t.Errorf("the last %d revisions: there are %d", limit, len(all))
			continue
		}
		for i, r := range all {
			n := manyVersions - i
			if n == 1 {
				continue // made in another way
			}
			if r.Version != versions[n-1].Version() || r.Who != "author-"+strconv.Itoa(n) || r.Why != fmt.Sprintf("change %d", n) || len(r.Edits) != 1 {
				t.Errorf("the last %d revisions: revision %d is %+v; it should be version %s", limit, i, r, versions[n-1].Version())
				break
			}
		}
	}

	// A client that has seen only an old version is told all changes since, and who made them.
	stale := connections(7)
	stale.Expect = versions[8].Version()
	_, err := s.Apply(t.Context(), stale)
	var conflict *config.ConflictError
	if !errors.As(err, &conflict) || len(conflict.Since) != manyVersions-9 || conflict.Since[0].Who != "author-100" {
		t.Errorf("a change for version %s: %v", stale.Expect, err)
	}

	for _, n := range []int{99, 9, 10, 100} {
		want := versions[n-1]
		content, err := reader.At(t.Context(), want.Version())
		if err != nil {
			t.Errorf("version %d: %v", n, err)
			continue
		}
		same(t, fmt.Sprintf("version %d", n), content, want.Content())
		now, err := rollBack(t.Context(), s, want.Version(), load(t, s).Version(), "carol")
		if err != nil {
			t.Errorf("rolling back to version %d: %v", n, err)
			continue
		}
		same(t, fmt.Sprintf("after rolling back to version %d", n), now.Content(), want.Content())
		if latest := history(t, reader, 1); len(latest) != 1 || latest[0].Version != now.Version() || latest[0].Who != "carol" {
			t.Errorf("after rolling back to version %d the latest revision is %+v", n, latest)
		}
	}
}

func testHistory(t *testing.T, p Place) {
	s := p.open(t)
	begun := time.Now().Add(-time.Minute)
	replace(t, s, Small())
	apply(t, s, config.Change{Who: "alice", Why: "more load", Mutations: set("gpu-2", config.Values{"connections": "48", "warm": "8", "labels.rack": "r 1"})})
	last := apply(t, s, config.Change{Who: "bob", Mutations: []config.Mutation{
		{Verb: config.Remove, Kind: config.KindBackend, Name: "gpu-1"},
		{Verb: config.Set, Kind: config.KindService, Name: "stt", Values: config.Values{"queue-timeout": "1m"}},
	}})
	all := history(t, p.other(t, s), 10)
	if len(all) != 3 {
		t.Fatalf("the history has %d revisions: %v", len(all), all)
	}
	for i, want := range []string{
		"bob: service stt: queue-timeout 10s -> 1m; backend gpu-1: removed (service stt, url ws://10.0.0.0:2700/, connections 32, labels.zone a)",
		`alice: backend gpu-2: connections 32 -> 48; backend gpu-2: warm cap -> 8; backend gpu-2: labels.rack (none) -> "r 1"`,
		"tester: service stt: added (path /v1/stt); backend gpu-1: added (service stt, url ws://10.0.0.0:2700/, connections 32, labels.zone a); " +
			"backend gpu-2: added (service stt, url ws://10.0.0.1:2700/, connections 32, labels.zone a)",
	} {
		if got := all[i].String(); got != want {
			t.Errorf("revision %d is\n%s\nand should be\n%s", i, got, want)
		}
		if all[i].At.Before(begun) || all[i].At.After(time.Now().Add(time.Minute)) {
			t.Errorf("revision %d is of %v", i, all[i].At)
		}
	}
	if all[0].Version != last.Version() || all[1].Why != "more load" || all[2].Why != "" {
		t.Errorf("the history is %+v", all)
	}
	if two := history(t, s, 2); len(two) != 2 || two[1].Version != all[1].Version {
		t.Errorf("the last two revisions: %v", two)
	}
	if none := history(t, s, 0); len(none) != 0 {
		t.Errorf("the last no revisions: %v", none)
	}
}

func testRollBack(t *testing.T, p Place) {
	s := p.open(t)
	empty := load(t, s)
	small := replace(t, s, Small())
	full := replace(t, s, Unusual(t))
	apply(t, s, config.Change{Mutations: []config.Mutation{
		{Verb: config.Remove, Kind: config.KindBackend, Name: "all.fields_1"},
		{Verb: config.Remove, Kind: config.KindService, Name: "all-1"},
		{Verb: config.Remove, Kind: config.KindProfile, Name: "own-1"},
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"warm": "5", "labels": ""}},
	}})
	last := apply(t, s, config.Change{Mutations: set("gpu-1", config.Values{"warm": "", "state": "draining"})})
	n := len(history(t, s, 100))

	for i, version := range []*config.Snapshot{full, small, empty, full} {
		content, err := s.At(t.Context(), version.Version())
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		same(t, "an older version", content, version.Content())
		now, err := rollBack(t.Context(), p.other(t, s), version.Version(), load(t, s).Version(), "carol")
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		same(t, "after rolling back", now.Content(), version.Content())
		same(t, "loaded after rolling back", load(t, s).Content(), version.Content())
		if r := history(t, s, 1)[0]; r.Who != "carol" || !strings.Contains(r.Why, version.Version()) {
			t.Errorf("step %d: the history has %+v", i, r)
		}
	}
	if more := len(history(t, s, 100)) - n; more != 4 {
		t.Errorf("rolling back made %d revisions; it should be 4", more)
	}
	if _, err := rollBack(t.Context(), s, small.Version(), last.Version(), "carol"); !errors.As(err, new(*config.ConflictError)) {
		t.Errorf("rolling back with an old version seen: %v", err)
	}
	for _, version := range []string{"", "no-version", "-1", "99999999"} {
		if _, err := s.At(t.Context(), version); !errors.Is(err, config.ErrNoVersion) {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

// rollBack restores the configuration of an older version, as wsbouncer config rollback does.
func rollBack(ctx context.Context, s config.Store, version, expect, who string) (*config.Snapshot, error) {
	content, err := s.At(ctx, version)
	if err != nil {
		return nil, err
	}
	return s.Apply(ctx, config.Change{Expect: expect, Who: who, Why: "roll back to version " + version, Content: &content})
}
