package configtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// waitTimeout is how long a test waits for something that must happen; it is far longer than that takes.
const waitTimeout = 30 * time.Second

// await waits for a value of a watcher.
func await(t testing.TB, watcher <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-watcher:
		if !ok {
			t.Fatal("the channel was closed")
		}
	case <-time.After(waitTimeout):
		t.Fatal("nothing was said to a watcher")
	}
}

// awaitConnections loads the configuration whenever the watcher reports a change, until it sees a backend's new cap. It returns how
// long that took.
func awaitConnections(t testing.TB, s config.Store, watcher <-chan struct{}, connections int) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		await(t, watcher)
		if b, _ := load(t, s).Backend("gpu-1"); b.Connections == connections {
			return time.Since(begun)
		}
	}
}

func connections(n int) config.Change {
	return config.Change{Who: "tester", Mutations: set("gpu-1", config.Values{"connections": strconv.Itoa(n)})}
}

func testWatchOneself(t *testing.T, p Place) {
	s := p.open(t)
	replace(t, s, Small())
	one, two := s.Watch(t.Context()), s.Watch(t.Context())
	await(t, one) // the first comes at once
	await(t, two)
	apply(t, s, connections(48))
	awaitConnections(t, s, one, 48)
	awaitConnections(t, s, two, 48)
}

func testWatchOthers(t *testing.T, p Place) {
	s, other := p.open(t), p.open(t)
	replace(t, s, Small())
	watcher := s.Watch(t.Context())
	awaitConnections(t, s, watcher, 32)
	quickest := waitTimeout
	for n := 40; n < 45; n++ {
		apply(t, other, connections(n))
		quickest = min(quickest, awaitConnections(t, s, watcher, n))
	}
	if quickest > time.Second { // the others may have been held up by a busy machine
		t.Errorf("changes of another process were seen after %v and more; it must be a second at most", quickest)
	}
}

func testCoalesced(t *testing.T, p Place) {
	s := p.open(t)
	replace(t, s, Small())
	watcher := s.Watch(t.Context())
	for n := range 10 { // nobody reads from the channel meanwhile
		apply(t, s, connections(40+n))
	}
	if n := len(watcher); n != 1 {
		t.Errorf("%d values wait for the watcher; they should be one", n)
	}
	awaitConnections(t, s, watcher, 49)
}

func testCancelled(t *testing.T, p Place) {
	s := p.open(t)
	want := replace(t, s, Small())
	ctx, cancel := context.WithCancel(t.Context())
	watcher := s.Watch(ctx)
	await(t, watcher)
	cancel()
	for range watcher { // until it is closed
	}
	if _, ok := <-s.Watch(ctx); ok {
		t.Error("watching with a context that has ended says something")
	}
	_, loading := s.Load(ctx)
	_, writing := s.Apply(ctx, connections(48))
	_, reading := s.History(ctx, 1)
	_, older := s.At(ctx, want.Version())
	for i, err := range []error{loading, writing, reading, older} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d with a context that has ended: %v", i, err)
		}
	}
	same(t, "after calls that were cancelled", load(t, s).Content(), want.Content())
	await(t, s.Watch(t.Context())) // still works
}

func testClosed(t *testing.T, p Place) {
	before := goleak.IgnoreCurrent()
	s := p.Open(t, config.Options{})
	replace(t, s, Small())
	one, two := s.Watch(t.Context()), s.Watch(t.Context())
	await(t, one)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, watcher := range []<-chan struct{}{one, two} {
		for range watcher { // until it is closed
		}
	}
	if _, ok := <-s.Watch(t.Context()); ok {
		t.Error("watching a closed store says something")
	}
	_, loading := s.Load(t.Context())
	_, writing := s.Apply(t.Context(), connections(48))
	_, reading := s.History(t.Context(), 1)
	_, older := s.At(t.Context(), "1")
	for i, err := range []error{loading, writing, reading, older} {
		if !errors.Is(err, config.ErrClosed) {
			t.Errorf("call %d of a closed store: %v", i, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing it again: %v", err)
	}
	goleak.VerifyNone(t, before)
}

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
