package accesslog

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// whole is an entry with everything that a session can have.
func whole() Entry {
	ended := time.Date(2026, 11, 22, 11, 22, 20, 123_456_789, time.FixedZone("CET", 3600))
	return Entry{
		Ended: ended, ID: "q7m2kd4x-1042", Service: "stt", Path: "/v1/stt", Tenant: "acme", Client: origin.Address{AddrPort: netip.MustParseAddrPort("[2001:db8::7]:51234")},
		Status: 101, Reason: "done", RequestID: "r-1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		Session: &Session{
			Backend: "gpu-2", Started: ended.Add(-3 * time.Second), WaitedSeconds: 0.5, LastedSeconds: 2.5, FirstReplySeconds: 0.125,
			FramesFromClient: 1, BytesFromClient: 2, FramesFromBackend: 3, BytesFromBackend: 4,
			By: "client", Code: 1000, Class: "normal", Connection: "c-1", Fate: "returned",
		},
	}
}

// Programs read these lines: what they are does not change.
func TestFormats(t *testing.T) {
	refused := Entry{Ended: whole().Ended, Client: origin.Address{AddrPort: netip.MustParseAddrPort("10.0.0.7:51234")}, Path: `/a"b\c`, Status: 404, Reason: "there is no <service> for this path"}
	balanced := Entry{
		Ended: whole().Ended, Client: origin.Address{AddrPort: netip.AddrPortFrom(netip.MustParseAddr("2001:db8::7"), 0)},
		Peer: &origin.Address{AddrPort: netip.MustParseAddrPort("10.0.0.5:40000")}, Path: "/", Status: 404,
	}
	unread := Entry{Ended: whole().Ended, Tenant: "a b", Status: 400}
	for _, c := range []struct {
		entry          Entry
		json, combined string
	}{
		{
			whole(),
			`{"time":"2026-11-22T10:22:20.123Z","id":"q7m2kd4x-1042","service":"stt","path":"/v1/stt","tenant":"acme","client":"[2001:db8::7]:51234",` +
				`"status":101,"reason":"done","request_id":"r-1","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","backend":"gpu-2",` +
				`"started":"2026-11-22T10:22:17.123Z","waited_seconds":0.5,"lasted_seconds":2.5,"first_reply_seconds":0.125,` +
				`"frames_from_client":1,"bytes_from_client":2,"frames_from_backend":3,"bytes_from_backend":4,"audio_in_seconds":0,"results":0,` +
				`"by":"client","code":1000,"class":"normal","connection":"c-1","connection_fate":"returned"}`,
			`2001:db8::7 - acme [22/Nov/2026:11:22:20 +0100] "GET /v1/stt HTTP/1.1" 101 4 "-" "-"`,
		},
		{
			refused,
			`{"time":"2026-11-22T10:22:20.123Z","path":"/a\"b\\c","client":"10.0.0.7:51234","status":404,"reason":"there is no <service> for this path"}`,
			`10.0.0.7 - - [22/Nov/2026:11:22:20 +0100] "GET /a\x22b\x5Cc HTTP/1.1" 404 - "-" "-"`,
		},
		{
			balanced,
			`{"time":"2026-11-22T10:22:20.123Z","path":"/","client":"2001:db8::7","peer":"10.0.0.5:40000","status":404}`,
			`2001:db8::7 - - [22/Nov/2026:11:22:20 +0100] "GET / HTTP/1.1" 404 - "-" "-"`,
		},
		{
			unread,
			`{"time":"2026-11-22T10:22:20.123Z","tenant":"a b","status":400}`,
			`- - a\x20b [22/Nov/2026:11:22:20 +0100] "-" 400 - "-" "-"`,
		},
	} {
		for format, want := range map[string]string{JSON: c.json, Combined: c.combined} {
			if got := string(c.entry.appendLine(nil, format)); got != want+"\n" {
				t.Errorf("%s is\n%swant\n%s", format, got, want)
			}
		}
	}
}

// Whatever the texts are, an entry is one line, and in JSON all of it is in its fields.
func FuzzFormats(f *testing.F) {
	f.Add("/a\nb", "reason\r\n\x00\x1b[31m", "ten\"ant\\")
	f.Add("\u2028\u0085", "\xff\xfe", `\" 200 0`)
	f.Fuzz(func(t *testing.T, path, reason, tenant string) {
		e := whole()
		e.Path, e.Reason, e.Tenant = path, reason, tenant
		for _, format := range Formats {
			line := string(e.appendLine(nil, format))
			if strings.IndexByte(line, '\n') != len(line)-1 || strings.ContainsAny(line[:len(line)-1], "\r\x00\x1b") {
				t.Errorf("%s: not one plain line: %q", format, line)
			}
			if format == Combined && strings.Count(line, `"`) != 6 {
				t.Errorf("other quotes than those of the format: %q", line)
			}
			if format == JSON {
				var back Entry
				if err := json.Unmarshal([]byte(line), &back); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				if utf8.ValidString(reason) && back.Reason != reason {
					t.Errorf("%q became %q", reason, back.Reason)
				}
			}
		}
	})
}
