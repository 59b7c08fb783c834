package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// notShown are the fields of the statistics that are no metrics: texts, when they changed, and variants, whose names come from
// clients.
var notShown = []string{
	"Backends.Health.Since", "Backends.Health.Reason",
	"Backends.Health.CircuitSince", "Backends.Health.CircuitReason",
	"Backends.Health.ProbeSince", "Backends.Health.ProbeReason", "Backends.Health.CanarySince", "Backends.Health.CanaryReason",
	"Backends.Health.OutlierSince", "Backends.Health.OutlierReason", "Backends.Health.StalledSince", "Backends.Health.StalledReason",
	"Backends.Health.FullAt", "Backends.Health.CeilingCause", "Backends.Health.CeilingSince", "Backends.Health.CeilingReason", // the ceiling is shown
	"Backends.Variants",
	"Discovery.Asked", "Discovery.Answered", "Discovery.Failing", "Discovery.Reason", "Discovery.LeftOut", // failing is shown as 0 or 1
	"Leaving",                                                                                       // removed backends: shown only as sums
	"Configuration.Version", "Configuration.Since", "Configuration.Reason", "Configuration.Applied", // each version would be its own series
	"Configuration.Unsaved", "Configuration.UnsavedSince", // among the problems
	"Backends.Retired",                                                                                      // the sum over backend_retired_total
	"Shortages",                                                                                             // texts
	"Disks",                                                                                                 // exporters of the machine have them
	"Services.Used.AudioInEstimatedSeconds", "Services.Used.AudioOutEstimatedSeconds", "Tenants.AudioQuota", // the report has them
	"Tenants.Used.AudioInEstimatedSeconds", "Tenants.Used.AudioOutEstimatedSeconds", "Tenants.Used.AudioInUnknownBytes", "Tenants.Used.AudioOutUnknownBytes", "Tenants.Used.Results",
	"OtherTenants.Used.AudioInEstimatedSeconds", "OtherTenants.Used.AudioOutEstimatedSeconds", "OtherTenants.Used.AudioInUnknownBytes", "OtherTenants.Used.AudioOutUnknownBytes", "OtherTenants.Used.Results",
	"Tenants.Services",          // tenants times services would be too many series
	"TLS.Certificates.Listener", // behind the file, in one label
	"TLS.Certificates.Names", "TLS.Certificates.NotBefore", "TLS.Certificates.NotAfter", "TLS.Certificates.State", "TLS.Loaded",
	"TLS.Certificates.Failure",        // certificate expiry is what to watch
	"TLS.Failure", "TLS.FailureSince", // a failure is shown as 0 or 1
	"Limits.Lately",                                          // names come from clients
	"Services.ReconnectSeconds",                              // a setting
	"Services.Failover",                                      // settings, and sums over failovers_total and unassured_sessions_total
	"Backends.Stalls", "Backends.Moved", "Backends.NotMoved", // counted by the meters
	"Backends.MedianLagSeconds", "Backends.AnsweredSessions", "Backends.HeardSessions",
	"Backends.Condition", "Services.Condition", // what they are made of is shown
	"Backends.Overdue",                              // the sum of its sessions is shown
	"Backends.Places.Cap", "Backends.Places.Others", // the cap has a metric, and each proxy reports its own grant
	"Backends.Published.At", "Backends.Published.Reason", "Backends.Published.Since", // TestScrape has the time
	"Backends.Proxies", "Fleet.Missing", // each proxy reports its own part
	"Fleet.Mode", "Fleet.Ledger", "Fleet.Problem", "Fleet.Advice", "Fleet.SinceSeconds", "Fleet.FrozenWhy", "Fleet.FrozenSeconds", // shown as 0 or 1
	"Fleet.Proxies.Version", "Fleet.Proxies.Address", "Fleet.Proxies.Host", "Fleet.Proxies.State", "Fleet.Proxies.AgeSeconds", "Fleet.Proxies.Sessions",
	"Fleet.Proxies.Configuration", "Fleet.Proxies.Places", "Fleet.Proxies.Grants", "Fleet.Proxies.Problem", // each proxy reports its own
	"Problems.What", "Problems.Text", "Problems.Since", "Problems.Cure", "Problems.Causes", "Problems.Proxies", // clients could add names, and the rest is for people
	"Backends.FirstReplySeconds", "Backends.FirstReplies", // a histogram has them
	"Drain", // times, and the sessions that ended because of it, which have their own class
}

// TestEverythingIsShownExactly gives every field of the statistics its own value, and finds each in the scrape, as
// often as it should be there, through the text that Prometheus reads. A new field fails it until there is a metric for it.
func TestEverythingIsShownExactly(t *testing.T) {
	const first = 1 << 40 // large, so that a rounding error would show
	var filled filler
	filled.next = first
	var s api.Stats
	filled.fill(reflect.ValueOf(&s).Elem(), "")
	for _, path := range notShown {
		if !filled.hidden[path] {
			t.Errorf("the statistics have no field %s", path)
		}
	}

	server := serve(t, func() Snapshot { return Snapshot{Stats: s} })
	shown := make(map[float64]int)
	texts := make(map[string]bool)
	for _, f := range scrape(t, server) {
		for _, m := range f.Metric {
			shown[value(m)]++
			for _, label := range m.Label {
				texts[label.GetValue()] = true
			}
		}
	}
	for number, path := range filled.numbers {
		want := 1
		if path == "Services.Utilisation" { // under its former name, too
			want = 2
		}
		if shown[number] != want {
			t.Errorf("%s is %f, which the scrape has %d times; want %d", path, number, shown[number], want)
		}
		delete(shown, number)
	}
	for number := range shown {
		if number != 0 && number != 1 && number != 2 { // 2 proxies
			t.Errorf("the scrape has %f, which is not in the statistics", number)
		}
	}
	for text, path := range filled.texts {
		if !texts[text] {
			t.Errorf("%s is %q, which is in no label", path, text)
		}
	}
}

// filler gives every field a value that no other has.
type filler struct {
	next    float64
	numbers map[float64]string // the fields by their values
	texts   map[string]string
	hidden  map[string]bool // the fields of notShown that exist
}

func (f *filler) fill(v reflect.Value, path string) {
	if f.numbers == nil {
		f.numbers, f.texts, f.hidden = make(map[float64]string), make(map[string]string), make(map[string]bool)
	}
	if slices.Contains(notShown, path) {
		f.hidden[path] = true
		return
	}
	f.next++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			panic("a time that is not in notShown: " + path)
		}
		for i := range v.NumField() {
			below := v.Type().Field(i).Name
			if path != "" {
				below = path + "." + below
			}
			f.fill(v.Field(i), below)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), path)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		keys := []reflect.Value{reflect.ValueOf(1000), reflect.ValueOf(418)}
		if v.Type().Key().Kind() == reflect.String {
			keys = []reflect.Value{reflect.ValueOf(pool.Served.String()), reflect.ValueOf(pool.Aged.String())}
		}
		for _, key := range keys {
			number := reflect.New(v.Type().Elem()).Elem()
			f.fill(number, path)
			v.SetMapIndex(key.Convert(v.Type().Key()), number)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %.0f", f.next))
		f.texts[v.String()] = path
	case reflect.Bool: // TestScrape tests fields that are only 0 or 1
	case reflect.Float64:
		v.SetFloat(f.next + 0.25)
		f.numbers[v.Float()] = path
	case reflect.Int, reflect.Int64:
		if path == "Loops.Loops.ID" {
			v.SetInt(int64(f.next))
			f.texts[fmt.Sprint(v.Int())] = path
			return
		}
		v.SetInt(int64(f.next))
		f.numbers[f.next] = path
	case reflect.Uint64:
		v.SetUint(uint64(f.next))
		f.numbers[f.next] = path
	default:
		panic("an unexpected kind of field:  " + path)
	}
}

// TestOneSnapshotPerScrape scrapes from many sides while the statistics change: each scrape asks for them once, and all that
// it shows belongs together.
func TestOneSnapshotPerScrape(t *testing.T) {
	const scrapers, scrapes = 8, 25
	var asked atomic.Uint64
	usual := map[uint16]uint64{1000: 0} // shared, and read only
	server := serve(t, func() Snapshot {
		n := asked.Add(1)
		s := api.Stats{
			Sessions: api.Sessions{Active: int64(n), Total: n, Refused: map[int]uint64{503: n}, Ended: usual},
			Services: []api.Service{{Name: "one"}, {Name: "two"}},
			Backends: []api.Backend{{Name: "one"}, {Name: "two"}},
			Relayed:  api.Relayed{FramesFromClients: n, BytesFromBackends: n},
			Loops:    api.Loops{Moved: n, Loops: []api.Loop{{Connections: int64(n)}}},
		}
		for i := range 2 {
			s.Services[i].Queue.Waiting = int(n)
			s.Backends[i].Idle = int(n)
		}
		return Snapshot{Stats: s}
	})
	series := []string{
		"wsbouncer_sessions_active", "wsbouncer_sessions_total", "wsbouncer_loops_moved_total", "wsbouncer_loop_connections",
		"wsbouncer_sessions_refused_total", "wsbouncer_relayed_frames_total", "wsbouncer_relayed_bytes_total",
		"wsbouncer_queue_waiting", "wsbouncer_queue_waiting", "wsbouncer_backend_connections", "wsbouncer_backend_connections",
	}
	var all sync.WaitGroup
	var seen sync.Map
	for range scrapers {
		all.Go(func() {
			for range scrapes {
				families := scrape(t, server)
				want := value(families["wsbouncer_sessions_total"].Metric[0])
				found := 0
				for _, f := range families {
					for _, m := range f.Metric {
						if value(m) == want && slices.Contains(series, f.GetName()) {
							found++
						}
					}
				}
				if found != len(series) {
					t.Errorf("%d numbers are %.0f; want %d", found, want, len(series))
				}
				if _, twice := seen.LoadOrStore(want, true); twice {
					t.Errorf("two scrapes have the same snapshot, number %.0f", want)
				}
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n != scrapers*scrapes {
		t.Errorf("the statistics were asked for %d times in %d scrapes", n, scrapers*scrapes)
	}
}

// TestRegisteringAsksNothing: the proxy registers the collector before its parts exist.
func TestRegisteringAsksNothing(t *testing.T) {
	prometheus.NewRegistry().MustRegister(New(func() Snapshot { panic("asked") }))
}

// serve serves the metrics of what source returns.
func serve(t *testing.T, source func() Snapshot) *httptest.Server {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(source))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server
}

// scrape gets the metrics as Prometheus does, by their names. It may be called by any goroutine.
func scrape(t *testing.T, server *httptest.Server) map[string]*dto.MetricFamily {
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Error(response.Status, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return families
}

// value returns the number of a gauge or counter; the other is 0.
func value(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }
