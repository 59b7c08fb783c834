package api

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// many returns sessions in no order, of which several are equal in each field.
func many(n int) []Session {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := make([]Session, n)
	for i := range all {
		all[i] = Session{
			ID: "q7m2kd4x-" + strconv.Itoa(i+1), Service: "stt", Backend: "gpu-" + strconv.Itoa(random.IntN(4)),
			Client: "10.0.0." + strconv.Itoa(random.IntN(9)) + ":" + strconv.Itoa(random.IntN(60000)), State: SessionStates[random.IntN(7)],
			Started: began.Add(time.Duration(random.IntN(n/2+1)) * time.Second), AgeSeconds: float64(random.IntN(100)),
			BytesFromClient: random.Uint64N(50), FramesFromBackend: random.Uint64N(50), WaitedSeconds: float64(random.IntN(3)),
			FramesPerSecond: float64(random.IntN(200)), LagSeconds: float64(random.IntN(5)),
		}
	}
	return all
}

// TestChoose holds a choice against sorting everything.
func TestChoose(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1000} {
		all := many(n)
		before := slices.Clone(all)
		for _, order := range append([]string{""}, SessionOrders...) {
			for _, limit := range []int{0, 1, 3, 100, n, 2 * n} {
				q := SessionQuery{Sort: order, Limit: limit, Backend: "gpu-1"}
				var want []Session
				for _, s := range all {
					if s.Backend == "gpu-1" {
						want = append(want, s)
					}
				}
				matched := len(want)
				slices.SortFunc(want, func(a, b Session) int { return q.compare(&a, &b) })
				if limit > 0 {
					want = want[:min(limit, len(want))]
				}
				got, count := q.Choose(all)
				if !slices.Equal(got, want) || count != matched {
					t.Fatalf("sort %q, limit %d of %d: chose %d of %d; want %d of %d in the order of a sort", order, limit, n, len(got), count, len(want), matched)
				}
				if got == nil {
					t.Fatal("the list is null in JSON")
				}
			}
		}
		if !slices.Equal(all, before) {
			t.Error("the sessions were reordered")
		}
	}
}

func TestParseEventQuery(t *testing.T) {
	for text, want := range map[string]EventQuery{
		"":                                    {2, SessionQuery{Sort: "rate", Limit: 100}},
		"interval=1":                          {1, SessionQuery{Sort: "rate", Limit: 100}},
		"interval=60&sort=lag&limit=1000":     {60, SessionQuery{Sort: "lag", Limit: 1000}},
		"service=stt&state=waiting&backend=b": {2, SessionQuery{Service: "stt", State: "waiting", Backend: "b", Sort: "rate", Limit: 100}},
	} {
		values, _ := url.ParseQuery(text)
		got, err := ParseEventQuery(values)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseEventQuery(got.Values()); err != nil || again != got {
			t.Errorf("%q came back as %+v, %v", got.Values().Encode(), again, err)
		}
	}
	for text, want := range map[string]string{
		"interval=0":    `interval: invalid number "0": use whole seconds from 1 to 60`,
		"interval=61":   `interval: invalid number "61": use whole seconds from 1 to 60`,
		"interval=2s":   `interval: invalid number "2s": use whole seconds from 1 to 60`,
		"interval=":     `interval: invalid number "": use whole seconds from 1 to 60`,
		"limit=0":       `limit: invalid number "0": use a whole number from 1 to 1000`,
		"limit=1001":    `limit: invalid number "1001": use a whole number from 1 to 1000`,
		"limit=all":     `limit: invalid number "all": use a whole number from 1 to 1000`,
		"state=ended":   `state: "ended" is not possible here: the event "ended" has the sessions that have ended`,
		"state=running": `state: unknown state "running": use one of waiting, relaying, moving, parked, answering, completing, closing, lingering, ended`,
		"sort=rates":    `sort: unknown order "rates": use one of started, age, bytes, frames, rate, lag, waited, client, backend, service, state, ended`,
		"every=2":       `unknown parameter "every": use interval, service, backend, tenant, client, state, sort or limit`,
	} {
		values, _ := url.ParseQuery(text)
		if _, err := ParseEventQuery(values); err == nil || err.Error() != want {
			t.Errorf("%q: got %v; want %s", text, err, want)
		}
	}
	values, _ := url.ParseQuery("interval=2")
	if _, err := ParseSessionQuery(values); err == nil || err.Error() != `unknown parameter "interval": use service, backend, tenant, client, state, sort or limit` {
		t.Errorf("got %v", err)
	}
}

// BenchmarkChoose chooses the 100 busiest of 9,000.
func BenchmarkChoose(b *testing.B) {
	all := many(9000)
	q := SessionQuery{Sort: "rate", Limit: 100}
	for b.Loop() {
		q.Choose(all)
	}
}

// A query for an address finds its clients with a port and without.
func TestMatchesClient(t *testing.T) {
	for _, c := range []struct {
		query, client string
		want          bool
	}{
		{"192.0.2.7", "192.0.2.7", true},
		{"192.0.2.7", "192.0.2.7:80", true},
		{"192.0.2.7:80", "192.0.2.7:80", true},
		{"192.0.2.7:80", "192.0.2.7", false},
		{"2001:db8::7", "2001:db8::7", true},
		{"2001:db8::7", "[2001:db8::7]:80", true},
		{"[2001:db8::7]:80", "[2001:db8::7]:80", true},
		{"2001:DB8::7", "[2001:db8::7]:80", true},
		{"::ffff:192.0.2.7", "192.0.2.7:80", true},
		{"192.0.2.7", "", false},
	} {
		var q SessionQuery
		if err := q.Set("client", c.query); err != nil {
			t.Error(err)
		}
		if got := q.Matches(&Session{Client: c.client}); got != c.want {
			t.Errorf("%s, asked for %s: %t", c.client, c.query, got)
		}
	}
	var q SessionQuery
	if err := q.Set("client", "10.0.0"); err == nil || !strings.HasPrefix(err.Error(), `client: invalid address "10.0.0"`) || q.Client != "" {
		t.Errorf("%v, %+v", err, q)
	}
}
