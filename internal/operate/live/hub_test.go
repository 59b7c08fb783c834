package live

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// TestStream has a subscriber see the first sample at once, and then what changes.
func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		r.change(func() {
			r.stats.Version = "v1"
			r.sessions = []api.Session{{ID: "a", FramesFromClient: 10, AgeSeconds: 10}, {ID: "b", FramesFromBackend: 20, AgeSeconds: 10}}
			r.ended, r.actions = []api.Session{{ID: "old"}}, []api.Action{{Action: "pause"}}
		})
		reader := r.subscribe(t, every(2))
		defer reader.cancel()
		first := reader.expect(t, "history ended audit stats sessions")
		if h := decode[api.History](t, first[0]); h.IntervalSeconds != 10 || h.Points == nil || len(h.Points) != 0 {
			t.Errorf("history %s", first[0].data)
		}
		if e := decode[[]api.Session](t, first[1]); len(e) != 1 || e[0].ID != "old" {
			t.Errorf("ended %s", first[1].data)
		}
		if a := decode[[]api.Action](t, first[2]); len(a) != 1 || a[0].Action != "pause" {
			t.Errorf("audit %s", first[2].data)
		}
		if s := decode[api.Stats](t, first[3]); s.Version != "v1" {
			t.Errorf("stats %s", first[3].data)
		}
		list := decode[api.SessionList](t, first[4])
		if list.Total != 2 || list.Matched != 2 || list.Sessions[0].ID != "b" || list.Sessions[0].FramesPerSecond != 2 {
			t.Errorf("sessions %s; want b first, with 2 frames per second since it began", first[4].data)
		}

		r.change(func() {
			r.sessions = []api.Session{{ID: "a", FramesFromClient: 15, FramesFromBackend: 1, AgeSeconds: 12}, {ID: "b", FramesFromBackend: 20, AgeSeconds: 12}}
			r.ended = append(r.ended, api.Session{ID: "new"})
		})
		time.Sleep(2 * time.Second)
		next := reader.expect(t, "ended stats sessions")
		if e := decode[[]api.Session](t, next[0]); len(e) != 1 || e[0].ID != "new" {
			t.Errorf("ended %s", next[0].data)
		}
		list = decode[api.SessionList](t, next[2])
		if list.Sessions[0].ID != "a" || list.Sessions[0].FramesPerSecond != 3 || list.Sessions[1].FramesPerSecond != 0 {
			t.Errorf("sessions %s; want a with 3 frames per second, then b with none", next[2].data)
		}

		r.change(func() { r.actions = append(r.actions, api.Action{Action: "kill"}) })
		time.Sleep(8 * time.Second) // the history gets its first point meanwhile
		all, _ := reader.waiting(t)
		count := map[string]int{}
		for _, e := range all {
			count[e.name]++
			if e.name == api.EventAudit && decode[[]api.Action](t, e)[0].Action != "kill" {
				t.Errorf("audit %s", e.data)
			}
		}
		if count["stats"] != 4 || count["sessions"] != 4 || count["history"] != 1 || count["audit"] != 1 || count["ended"] != 0 {
			t.Errorf("in 8 s: %v", count)
		}
	})
}

// TestSamplesOnlyForSubscribers counts how often the sessions are read.
func TestSamplesOnlyForSubscribers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.taken() != 0 {
			t.Fatalf("%d samples without a subscriber", r.taken())
		}
		slow := r.subscribe(t, every(10))
		time.Sleep(20*time.Second + time.Millisecond)
		synctest.Wait()
		if r.taken() != 3 {
			t.Fatalf("%d samples in 20 s, one each 10 s; want 3", r.taken())
		}
		slow.waiting(t)
		quick := r.subscribe(t, every(1)) // the last sample will do
		quick.expect(t, "history stats sessions")
		if r.taken() != 3 {
			t.Fatal("a second subscriber had the sessions read again within the shorter interval")
		}
		for range 10 {
			time.Sleep(time.Second)
			if all, _ := quick.waiting(t); len(all) < 2 {
				t.Fatalf("%q in a second", names(all))
			}
		}
		if r.taken() != 13 {
			t.Fatalf("%d samples; want 13", r.taken())
		}
		all, _ := slow.waiting(t)
		if got := names(all); got != "history stats sessions" && got != "stats sessions history" {
			t.Errorf("the subscriber with the longer interval got %q in ten seconds", got)
		}
		quick.cancel()
		slow.cancel()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if r.taken() != 13 || r.sample != nil || r.rates.sessions != nil {
			t.Errorf("%d samples, and %v is kept without a subscriber", r.taken(), r.sample)
		}
	})
}

// TestManyIntervals checks that each subscriber gets its interval on average, whatever the others ask for.
func TestManyIntervals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		intervals := []int{2, 3, 5, 60}
		var readers []*reader
		for _, seconds := range intervals {
			readers = append(readers, r.subscribe(t, every(seconds)))
		}
		got := make([]int, len(readers))
		for range 600 {
			time.Sleep(time.Second)
			for i, reader := range readers {
				all, _ := reader.waiting(t)
				for _, e := range all {
					if e.name == api.EventStats {
						got[i]++
					}
				}
			}
		}
		for i, seconds := range intervals {
			// The samples come each 2 s: 3 s is 2 or 4, 5 s is 4 or 6.
			least, most := 600/(seconds+1), 600/(seconds-1)+1
			if got[i] < least || got[i] > most {
				t.Errorf("interval %d s: %d statistics in 600 s", seconds, got[i])
			}
		}
		if r.taken() != 301 {
			t.Errorf("%d samples; want one each 2 s", r.taken())
		}
	})
}

// TestSlowSubscriber drops one that never reads; the others do not notice.
func TestSlowSubscriber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		deaf, reader := r.subscribe(t, every(1)), r.subscribe(t, every(1))
		defer reader.cancel()
		for range 30 {
			time.Sleep(time.Second)
			if all, ended := reader.waiting(t); ended || len(all) < 2 {
				t.Fatalf("got %q, ended: %v", names(all), ended)
			}
		}
		if all, ended := deaf.waiting(t); !ended || len(all) != queueSize {
			t.Errorf("the slow subscriber had %d events queued, dropped: %v; want %d and dropped", len(all), ended, queueSize)
		}
		deaf.cancel() // as its handler does
		if n := len(r.present()); n != 1 {
			t.Errorf("%d subscribers", n)
		}
	})
}

// TestQueries: subscribers with the same query get the same bytes, others their own lists.
func TestQueries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		r.change(func() { r.sessions = []api.Session{{ID: "a", Backend: "gpu-1"}, {ID: "b", Backend: "gpu-2"}} })
		other := every(1)
		other.Backend = "gpu-2"
		readers := []*reader{r.subscribe(t, every(1)), r.subscribe(t, every(1)), r.subscribe(t, other)}
		for _, reader := range readers {
			reader.expect(t, "history stats sessions")
		}
		byClient := every(60)
		byClient.Client, byClient.Limit = "10.0.0.98", 1
		alone := r.subscribe(t, byClient)
		list := decode[api.SessionList](t, alone.expect(t, "history stats sessions")[2])
		alone.cancel()
		if len(list.Sessions) != 1 || list.Sessions[0].ID != "b" || list.Sessions[0].Client != "10.0.0.98:9" || list.Sessions[0].Connection != "gpu-2/1" {
			t.Errorf("the sessions of client %s are %+v", byClient.Client, list)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		var stats, lists []*byte
		for _, reader := range readers {
			stats, lists = append(stats, &(<-reader.events)[0]), append(lists, &(<-reader.events)[0])
		}
		if stats[0] != stats[1] || stats[0] != stats[2] || lists[0] != lists[1] {
			t.Error("the same event was encoded more than once")
		}
		if lists[0] == lists[2] {
			t.Error("another query got the same list")
		}
		for _, reader := range readers {
			reader.cancel()
		}
	})
}

// TestNewsAreSentOnce: a new subscriber gets the last ones, and none gets one twice, also if it happens while another joins.
func TestNewsAreSentOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		n := 0
		end := func() {
			r.ended = append(r.ended, api.Session{ID: strconv.Itoa(n)})
			n++
		}
		r.change(func() {
			for range 70 {
				end()
			}
			r.onEnded = end
		})
		readers := []*reader{r.subscribe(t, every(1))}
		seen := make([][]string, 3)
		for second := range 20 {
			if second == 5 || second == 9 {
				readers = append(readers, r.subscribe(t, every(1)))
			}
			time.Sleep(time.Second)
			for i, reader := range readers {
				all, _ := reader.waiting(t)
				for _, e := range all {
					if e.name == api.EventEnded {
						for _, s := range decode[[]api.Session](t, e) {
							seen[i] = append(seen[i], s.ID)
						}
					}
				}
			}
		}
		for i, ids := range seen {
			if len(ids) < 60 {
				t.Errorf("subscriber %d saw only %d", i, len(ids))
			}
			for j := 1; j < len(ids); j++ {
				a, _ := strconv.Atoi(ids[j-1])
				if b, _ := strconv.Atoi(ids[j]); b != a+1 {
					t.Errorf("subscriber %d saw %d after %d", i, b, a)
				}
			}
			readers[i].cancel()
		}
	})
}

func TestTooManySubscribers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		var readers []*reader
		for range maxSubscribers {
			readers = append(readers, r.subscribe(t, every(60)))
		}
		if _, _, err := r.Subscribe(every(60)); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
		readers[7].cancel()
		readers[7].cancel() // once more does no harm
		if _, cancel, err := r.Subscribe(every(60)); err != nil {
			t.Errorf("there is room again: %v", err)
		} else {
			cancel()
		}
		r.Close()
		for i, reader := range readers {
			if _, ended := reader.waiting(t); !ended && i != 7 {
				t.Errorf("subscriber %d continues after the hub's end", i)
			}
		}
		if _, _, err := r.Subscribe(every(60)); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
