package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// rig is a hub and what it shows. Tests use it in a bubble (testing/synctest).
type rig struct {
	*Hub
	mu       sync.Mutex // guards what follows
	stats    api.Stats
	totals   meter.Totals
	sessions []api.Session // their ids have one letter
	ended    []api.Session
	actions  []api.Action
	onEnded  func() // is called when the hub asks for the ended sessions
	samples  int    // how often the sessions were read
}

// startRig starts a hub. It has read the statistics once when startRig returns.
func startRig(t *testing.T) *rig {
	r := &rig{}
	r.Hub = Start(Options{Log: slog.New(slog.DiscardHandler), Source: Source{
		Stats: func() (stats api.Stats) {
			r.change(func() { stats = r.stats })
			return stats
		},
		Totals: func() (totals meter.Totals) {
			r.change(func() { totals = r.totals })
			return totals
		},
		Sessions: func(_ context.Context, into []Session) []Session {
			r.change(func() {
				r.samples++
				for _, s := range r.sessions {
					number := uint64(s.ID[0])
					s.ID, s.Client = "", ""
					into = append(into, Session{Session: s, Number: number, Address: origin.Address{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}), 9)}})
				}
			})
			return into
		},
		Name: func(s *Session) {
			s.ID, s.Client, s.Connection = string(rune(s.Number)), s.Address.String(), s.Backend+"/1"
		},
		Ended: func(after uint64) (ended []api.Session, next uint64) {
			r.change(func() {
				if r.onEnded != nil {
					r.onEnded()
				}
				ended, next = r.ended[after:], uint64(len(r.ended))
			})
			return ended, next
		},
		Audit: func(after uint64) (actions []api.Action, next uint64) {
			r.change(func() { actions, next = r.actions[after:], uint64(len(r.actions)) })
			return actions, next
		},
	}})
	t.Cleanup(r.Close)
	synctest.Wait()
	return r
}

// change changes what the hub shows.
func (r *rig) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// taken returns how many samples were taken.
func (r *rig) taken() (n int) {
	synctest.Wait()
	r.change(func() { n = r.samples })
	return n
}

// reader is a subscriber.
type reader struct {
	events <-chan []byte
	cancel func()
}

func (r *rig) subscribe(t *testing.T, q api.EventQuery) *reader {
	t.Helper()
	events, cancel, err := r.Subscribe(q)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return &reader{events, cancel}
}

// every returns a query with an interval.
func every(seconds int) api.EventQuery {
	return api.EventQuery{IntervalSeconds: seconds, SessionQuery: api.SessionQuery{Sort: "rate", Limit: 100}}
}

// event is a decoded event.
type event struct {
	name, data string
}

// waiting returns the events that wait for the reader, and whether the stream has ended.
func (r *reader) waiting(t *testing.T) (all []event, ended bool) {
	t.Helper()
	synctest.Wait()
	for {
		select {
		case text, ok := <-r.events:
			if !ok {
				return all, true
			}
			lines := strings.Split(string(text), "\n")
			if len(lines) != 4 || !strings.HasPrefix(lines[0], "event: ") || !strings.HasPrefix(lines[1], "data: ") || lines[2] != "" || lines[3] != "" {
				t.Fatalf("not one event: %q", text)
			}
			all = append(all, event{lines[0][len("event: "):], lines[1][len("data: "):]})
		default:
			return all, false
		}
	}
}

// names returns the names of events, separated by spaces.
func names(all []event) string {
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.name)
	}
	return b.String()
}

// expect fails unless the names of the events that wait are those.
func (r *reader) expect(t *testing.T, want string) []event {
	t.Helper()
	all, ended := r.waiting(t)
	if got := names(all); got != want || ended {
		t.Fatalf("got the events %q (stream ended: %v); want %q", got, ended, want)
	}
	return all
}

func decode[T any](t *testing.T, e event) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), &v); err != nil {
		t.Fatalf("%s: %v in %s", e.name, err, e.data)
	}
	return v
}
