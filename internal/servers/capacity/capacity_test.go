package capacity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// own returns a profile with this capacity.
func own(t testing.TB, capacity string) *profile.Profile {
	t.Helper()
	list, err := profile.Parse("p.yaml", []byte("profiles: {p: {capacity: "+capacity+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// What the answers of the servers that the built-in profiles are for say.
func TestBuiltIn(t *testing.T) {
	for name, c := range map[string]struct {
		path, total, used string
		want              Reading
	}{
		"kyutai": {
			"/api/asr-streaming", `[{"path":"/api/tts_streaming","used_slots":"1","total_slots":"4"},{"path":"/api/asr-streaming","used_slots":"3","total_slots":"64"}]`, "",
			Reading{64, 3},
		},
		"kyutai-tts":      {"/api/tts_streaming", `[{"path":"/api/tts_streaming","used_slots":"1","total_slots":"4"}]`, "", Reading{4, 1}},
		"realtimestt":     {"/api/v1/ws", `{"limits":{"maxSessions":4}}`, `{"status":"live","activeSessions":2}`, Reading{4, 2}},
		"sglang-realtime": {"/v1/realtime", `{"asr_max_concurrent_sessions":32,"internal_states":[{}]}`, "", Reading{32, Unknown}},
		"vllm-realtime": {
			"/v1/realtime", "", "# HELP vllm:websocket_connections_active Open.\n# TYPE vllm:websocket_connections_active gauge\nvllm:websocket_connections_active 7.0\n",
			Reading{Unknown, 7},
		},
		"deepgram": {
			"/v1/listen", "# TYPE engine_estimated_stream_capacity gauge\nengine_estimated_stream_capacity 40\n# TYPE engine_active_requests gauge\n" +
				"engine_active_requests{kind=\"batch\"} 9\nengine_active_requests{kind=\"stream\"} 5\n# UNIT x seconds\n# EOF\n", "",
			Reading{40, 5},
		},
	} {
		p, err := profile.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		k := p.Capacity()
		got := Reading{Unknown, Unknown}
		if k.Total.URL != "" {
			if got.Total, err = parse(&k.Total, []byte(c.total), c.path, 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if k.Used.URL != "" {
			if c.used == "" {
				c.used = c.total
			}
			if got.Used, err = parse(&k.Used, []byte(c.used), c.path, 0); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAbsurd(t *testing.T) {
	json, metric := own(t, "{total: {url: /x, json: a.b}}"), own(t, "{total: {url: /x, metric: 'slots{gpu=\"0\"}'}}")
	for body, want := range map[string]string{
		`{"a":{"b":"many"}}`: "not a number", `{"a":{"b":-1}}`: "-1 is not a whole number", `{"a":{"b":0}}`: "0 is not a whole number", `{"a":{"b":1.5}}`: "1.5 is not",
		`{"a":{"b":1e9}}`: "1e+09 is not", `{"a":{"b":"NaN"}}`: "NaN is not", `{"a":{"b":null}}`: "not in the answer", `{"a":[]}`: "not in the answer",
		`{"a":{"b":{}}}`: "not a number", "<!DOCTYPE html><title>Login</title>": "not JSON", "": "not JSON", `{"a":{"b":8}} and more`: "not JSON",
	} {
		if n, err := parse(&json.Capacity().Total, []byte(body), "/", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v; want %q", body, n, err, want)
		}
	}
	item := own(t, "{total: {url: /x, item: path, json: slots}}")
	want := `not in the answer, in an item whose path is "/", the path of the server's URL`
	if n, err := parse(&item.Capacity().Total, []byte(`[{"path":"/stt","slots":8}]`), "/", 1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%d, %v; want %q", n, err, want)
	}
	for body, want := range map[string]string{
		"slots{gpu=\"1\"} 8\n": "not in the answer", "<html>\n": "not in the text format", "slots{gpu=\"0\"} +Inf\n": "+Inf is not",
		"# TYPE slots histogram\nslots_bucket{gpu=\"0\",le=\"+Inf\"} 3\nslots_sum{gpu=\"0\"} 3\nslots_count{gpu=\"0\"} 3\n": "is not a number",
	} {
		if n, err := parse(&metric.Capacity().Total, []byte(body), "/", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v; want %q", body, n, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	places := []*profile.Profile{
		own(f, "{total: {url: /x, json: a.b}}"), own(f, "{total: {url: /x, item: path, json: 'a[0]'}}"), own(f, "{total: {url: /x, metric: 'slots{gpu=\"0\"}'}}"),
	}
	for _, body := range []string{`{"a":{"b":8}}`, `[{"path":"/","a":["8"]}]`, "# TYPE slots gauge\nslots{gpu=\"0\"} 8\n"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range places {
			if n, err := parse(&p.Capacity().Total, body, "/", 1); err == nil && (n < 1 || n > most) {
				t.Errorf("%q: %d", body, n)
			}
		}
	})
}

func TestKept(t *testing.T) {
	var k Kept
	check := func(what string, want int) {
		t.Helper()
		if got := k.Ceiling(32); got != want {
			t.Errorf("%s: %d, want %d; %+v", what, got, want, k)
		}
	}
	take := func(total, used, own int) error { return k.Take(Reading{total, used}, own, 32) }
	check("nothing is known", 32)
	_ = take(8, 3, 3)
	check("a total", 8)
	_ = take(8, 6, 3)
	check("strangers in one reading", 8)
	_ = take(8, 7, 4)
	check("in two", 5)
	_ = take(8, 4, 4)
	check("they left", 8)
	_ = take(4, 6, 6)
	check("the total falls below what is in use", 4)
	for i, want := range []int{4, 4, 32} {
		if err := take(400, 6, 6); (err == nil) != (want == 32) {
			t.Errorf("jump %d: %v", i, err)
		}
		check("a jump above the cap", want)
	}
	_ = take(400, 390, 6)
	_ = take(400, 390, 6)
	check("a server that takes more than the cap", 16)
	_ = take(4, 9, 1)
	_ = take(4, 9, 1)
	check("strangers have all", 1)
	k = Kept{}
	_ = take(Unknown, 9, 4)
	_ = take(Unknown, 9, 4)
	check("no total", 27)
	_ = take(8, Unknown, 0)
	check("no used", 8)
	if err := take(9, 0, 0); err != nil {
		t.Error(err)
	}
}

// A server is asked once for numbers in one answer, and gets the backend's own fields at its own port.
func TestRead(t *testing.T) {
	t.Parallel()
	asked, key := 0, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		key = r.Header.Get("Authorization")
		switch r.URL.Path {
		case "/both":
			fmt.Fprint(w, `{"total":8,"used":3}`)
		case "/long":
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<17))
			}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	target, err := handshake.ParseTarget("ws" + strings.TrimPrefix(s.URL, "http") + "/asr")
	if err != nil {
		t.Fatal(err)
	}
	target.Header = []handshake.Field{{Name: "Authorization", Value: "Bearer x"}}
	r, err := Read(wstest.Context(t), own(t, "{total: {url: /both, json: total}, used: {url: /both, json: used}}"), target)
	if err != nil || r != (Reading{8, 3}) || asked != 1 || key != "Bearer x" {
		t.Errorf("%+v, %v; asked %d times, with %q", r, err, asked, key)
	}
	for capacity, want := range map[string]string{
		"{total: {url: /none, json: total}}": "404", "{total: {url: /long, json: total}}": "longer than", "{used: {url: /both, json: total.x}}": "/both: used: the number is not",
	} {
		if r, err := Read(wstest.Context(t), own(t, capacity), target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", capacity, r, err)
		}
	}
	if _, err := Read(wstest.Context(t), own(t, "{}"), target); err != ErrNowhere {
		t.Error(err)
	}
}
