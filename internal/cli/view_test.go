package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// broken is a store that fails.
type broken struct {
	config.Store
	err error
}

func (b *broken) Load(context.Context) (*config.Snapshot, error) { return nil, b.err }

func (b *broken) History(context.Context, int) ([]config.Revision, error) { return nil, b.err }

// With a database and a proxy, the proxy is asked for what is in force when the database fails, but not when what it says is not valid.
func TestViewBesideDatabase(t *testing.T) {
	s := onProxy(t, open)
	s.must("service add stt")
	connection, err := client.New("unix:"+s.socket, "")
	if err != nil {
		t.Fatal(err)
	}
	proxy := remote.New(connection, config.Options{})
	defer proxy.Close()
	var messages strings.Builder
	beside := &target{Store: &broken{err: errors.New("disk on fire")}, proxy: proxy, name: "db"}
	v, err := beside.view(t.Context(), &messages)
	if err != nil || !v.Content.Has(config.KindService, "stt") || v.Stale == nil || v.Stale.Reason != "disk on fire" {
		t.Errorf("got %+v, %v", v, err)
	}
	if text := messages.String(); !strings.Contains(text, "has failed since ") || !strings.Contains(text, ": disk on fire\nShown is version "+v.Version+", which is in force.\n") {
		t.Errorf("says %q", text)
	}
	beside.Store = &broken{err: config.Problems{{Kind: config.KindService, Name: "stt", Text: "wrong"}}}
	if _, err := beside.view(t.Context(), &messages); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("what is not valid: %v", err)
	}
	alone := &target{Store: &broken{err: errors.New("disk on fire")}, name: "db"}
	if _, err := alone.view(t.Context(), &messages); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("without a proxy: %v", err)
	}
}

// Only errors of the store itself say that changes need it.
func TestNeedsStore(t *testing.T) {
	running := new(remote.Client)
	database, proxy := &target{Store: &broken{}}, &target{Store: running, proxy: running}
	for _, c := range []struct {
		target *target
		err    error
		needs  bool
	}{
		{database, errors.New("disk on fire"), true},
		{database, config.ErrReadOnly, false},
		{database, config.Problems{{Text: "wrong"}}, false},
		{database, context.Canceled, false},
		{proxy, fmt.Errorf("it says: %w", remote.ErrStore), true},
		{proxy, config.ErrSchema, true},
		{proxy, &client.UnreachableError{Address: "x", Reason: errors.New("refused")}, false},
		{proxy, errors.New("the proxy refuses"), false},
	} {
		got := c.target.needed(c.err)
		if needs := strings.Contains(got.Error(), "cannot change the configuration because its store fails"); needs != c.needs {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestMarked(t *testing.T) {
	all := []json.RawMessage{json.RawMessage(`{"name":"a","x":{}}`)}
	stale := &remote.Stale{Since: time.Unix(0, 0).UTC(), Reason: `"no"`}
	want := `{"name":"a","x":{},"stale":{"since":"1970-01-01T00:00:00Z","reason":"\"no\""}}`
	if got := marked(all, stale); len(got) != 1 || string(got[0]) != want {
		t.Errorf("got %s", got)
	}
	if got := marked(all, nil); len(got) != 1 || string(got[0]) != string(all[0]) {
		t.Errorf("got %s", got)
	}
}
