package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// playedTap is what the proxy that a test plays shows of a session.
func playedTap() []api.TapEvent {
	const id = "q7m2kd4x-1"
	all := []api.TapEvent{
		{Event: api.TapSession, What: "began", Service: "stt", Backend: "gpu-1", Client: "10.1.2.3:4001"},
		{Event: api.TapSession, What: "relaying", Service: "stt", Backend: "gpu-1", Client: "10.1.2.3:4001"},
		{Event: api.TapFrame, From: "client", Kind: "text", Size: 36, Fin: true, Text: "{\n  \"config\" : \x1b[31m\u202e{}}"},
		{Event: api.TapVerdict, From: "client", What: "passed"},
		{Event: api.TapFrame, From: "client", Kind: "binary", Size: 6400},
		{Event: api.TapFrame, From: "backend", Kind: "text", Size: 300, Fin: true, Text: "abc", Cut: true},
		{Event: api.TapVerdict, What: "reset", Reason: "1 message must come"},
		{Event: api.TapFrame, From: "proxy", To: "backend", Kind: "text", Size: 13, Fin: true, Text: `{"reset" : 1}`},
		{Event: api.TapVerdict, From: "backend", What: "moved", Reason: "busy"},
		{Event: api.TapVerdict, What: "of-a-newer-proxy"},
		{Event: api.TapSession, What: "moving", Reason: "busy"},
		{Event: api.TapSession, What: "moved", Backend: "gpu-2"},
		{Event: api.TapFrame, From: "backend", Kind: "close", Size: 9, Fin: true, Code: 1011, Reason: "no more\r\n"},
		{Event: api.TapSession, What: "ended", From: "backend", Code: 1011, Reason: "no more", Seconds: 3.4},
		{Event: api.TapConnection, What: "resetting", Reason: "2 messages must come"},
		{Event: api.TapFrame, From: "backend", Kind: "text", Size: 2, Fin: true, Text: "{}", What: "dropped"},
		{Event: api.TapConnection, What: "returned", Seconds: 0.0123},
		{Event: api.TapConnection, What: "discarded", Reason: "reset_failed: reset timed out", Seconds: 5.0004},
		{Event: api.TapMissed, Count: 1234},
		{Event: "of-a-newer-proxy", What: "x"},
		{Event: api.TapEnd, Reason: "everything that was to be watched has ended"},
	}
	for i := range all {
		if all[i].Time = noon.Add(time.Duration(i) * 1001 * time.Millisecond); all[i].Event != api.TapMissed && all[i].Event != api.TapEnd {
			all[i].Session = id
		}
	}
	return all
}

// serveTap serves that tap; for the service stt it ends the stream in the middle.
func (s *stage) serveTap(w http.ResponseWriter, r *http.Request) {
	q, err := api.ParseTapQuery(r.URL.Query())
	if err != nil || r.Header.Get(api.ChangeHeader) == "" || q.Who == "" {
		s.t.Errorf("%v, %v", err, r.Header)
	}
	if q.Session != "" && q.Session != "q7m2kd4x-1" {
		var f api.Failure
		f.Error.Kind, f.Error.Text = api.KindUnknown, "unknown session"
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(f)
		return
	}
	for i, e := range playedTap() {
		if i == 3 && q.Service == "stt" {
			return
		}
		_ = json.NewEncoder(w).Encode(e)
		_, _ = w.Write([]byte("\n"))
	}
}

func TestSessionTap(t *testing.T) {
	s := onProxy(t, open)
	same(t, "for people", s.must("session tap q7m2kd4x-1"), `
12:00:00.000 session    q7m2kd4x-1 of service stt begins on gpu-1 for 10.1.2.3:4001
12:00:01.001 session    q7m2kd4x-1 of service stt for 10.1.2.3:4001 is relaying on gpu-1
12:00:02.002 client     text 36 B  { "config" : �[31m�{}}
12:00:03.003   profile  (client) passed
12:00:04.004 client     binary 6400 B, not the last of its message
12:00:05.005 backend    text 300 B  abc ...
12:00:06.006   profile  the reset begins: 1 message must come
12:00:07.007 proxy      to the backend: text 13 B  {"reset" : 1}
12:00:08.008   profile  (backend) another connection must serve the session: busy
12:00:09.009   profile  of-a-newer-proxy
12:00:10.010 session    moves to another connection: busy
12:00:11.011 session    continues on another connection, to gpu-2
12:00:12.012 backend    close 9 B, code 1011 (no more )
12:00:13.013 session    ended by the backend after 3.4s, code 1011: no more
12:00:14.014 connection is being reset: 2 messages must come
12:00:15.015 backend    text 2 B, dropped  {}
12:00:16.016 connection back in the pool, after a reset of 12.3ms
12:00:17.017 connection discarded: reset_failed: reset timed out, 5.0004s after the reset began
12:00:18.018 tap        missed 1234 events: this reader is too slow
12:00:19.019 of-a-newer-proxy x
12:00:20.020 tap        ends: everything that was to be watched has ended`)
	if out := s.must("session tap --backend gpu-1 --first 2"); !strings.Contains(out, "12:00:04.004 q7m2kd4x-1      client     binary 6400 B") {
		t.Errorf("several sessions are not told apart:\n%s", out)
	}
	var got []api.TapEvent
	for line := range strings.Lines(s.must("session tap q7m2kd4x-1 --output json --text 0 --for 10m")) {
		var e api.TapEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if len(got) != len(playedTap()) || got[5] != playedTap()[5] {
		t.Errorf("as JSON: %+v", got)
	}
	status, out, messages := s.run("session", "tap", "--service", "stt")
	if status != 1 || strings.Count(out, "\n") != 3 || !strings.Contains(messages, "the proxy ended the tap without saying why") {
		t.Errorf("a tap that is cut off: status %d\n%s%s", status, out, messages)
	}
	s.refuse(
		refusal{[]string{"session", "tap"}, 2, "nothing is chosen: give the id of a session"},
		refusal{[]string{"session", "tap", "a", "b"}, 2, "takes the id of one session, but got 2"},
		refusal{[]string{"session", "tap", ""}, 2, `invalid session id ""`},
		refusal{[]string{"session", "tap", "q7m2kd4x-2"}, 1, "unknown session"},
		refusal{[]string{"session", "tap", "q7m2kd4x-1", "--service", "stt"}, 2, "leave out --client, --backend, --service and --first"},
		refusal{[]string{"session", "tap", "q7m2kd4x-1", "--first", "1"}, 2, "leave out --client, --backend, --service and --first"},
		refusal{[]string{"session", "tap", "--service", "stt", "--first", "0"}, 2, `--first: invalid number "0": use a whole number from 1 to 1000`},
		refusal{[]string{"session", "tap", "--service", "stt", "--text", "5000"}, 2, `--text: invalid number "5000": use a whole number of bytes from 0 to 4096`},
		refusal{[]string{"session", "tap", "--service", "stt", "--for", "2h"}, 2, `--for: invalid duration "2h0m0s": use a duration above 0 and at most 1h`},
		refusal{[]string{"session", "tap", "--client", "gpu"}, 2, `--client: invalid address "gpu": use an IP address`},
		refusal{[]string{"session", "tap", "--service", "stt", "--output", "yaml"}, 2, `--output: invalid value "yaml": use text or json`},
	)
}

// Colours are only for terminals.
func TestTapColours(t *testing.T) {
	for _, coloured := range []bool{false, true} {
		var out bytes.Buffer
		p := newTapPrinter(painted{&out, coloured}, false, false)
		for _, e := range playedTap() {
			if err := p.print(nil, &e); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(out.String(), "\x1b[") != coloured {
			t.Errorf("coloured %v:\n%q", coloured, out.String())
		}
		if coloured && !strings.Contains(out.String(), red+"missed 1234 events") {
			t.Errorf("%q", out.String())
		}
	}
}

// What a client says reaches the terminal only as JSON's escapes, where the terminal might obey it.
func TestTapAsHarmlessJSON(t *testing.T) {
	var out strings.Builder
	line, err := json.Marshal(map[string]string{"text": "\u009b2J\x7f\u202eabc\U000e0041 \u00e4\U0001f600"})
	if err != nil {
		t.Fatal(err)
	}
	if err := newTapPrinter(&out, true, false).print(line, nil); err != nil {
		t.Fatal(err)
	}
	if want := `{"text":"\u009b2J\u007f\u202eabc\udb40\udc41 ä😀"}` + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
