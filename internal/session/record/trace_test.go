package record

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
)

const (
	theTrace    = "4bf92f3577b34da6a3ce929d0e0e4736"
	theParent   = "00f067aa0ba902b7"
	validHeader = "00-" + theTrace + "-" + theParent + "-01"
)

// What does not have exactly the form of Trace Context, sections 3.2 and 4.3, is no trace.
func TestTraceparent(t *testing.T) {
	for _, c := range []struct {
		text  string
		ok    bool
		flags byte
	}{
		{validHeader, true, 1},
		{" " + validHeader + "\t", true, 1},
		{"00-" + theTrace + "-" + theParent + "-00", true, 0},
		{"00-" + theTrace + "-" + theParent + "-03", true, 3},
		{"00-" + theTrace + "-" + theParent + "-ff", true, 3}, // the other flags are reserved
		{"cc-" + theTrace + "-" + theParent + "-01", true, 1}, // a later version
		{"cc-" + theTrace + "-" + theParent + "-01-what the future brings", true, 1},
		{"cc-" + theTrace + "-" + theParent + "-01.what", false, 0},
		{validHeader + "-", false, 0},
		{validHeader + "0", false, 0},
		{"ff-" + theTrace + "-" + theParent + "-01", false, 0},
		{"0-" + theTrace + "-" + theParent + "-01", false, 0},
		{"00-" + strings.Repeat("0", 32) + "-" + theParent + "-01", false, 0},
		{"00-" + theTrace + "-" + strings.Repeat("0", 16) + "-01", false, 0},
		{strings.ToUpper(validHeader), false, 0},
		{"00_" + validHeader[3:], false, 0},
		{validHeader[:35] + "_" + validHeader[36:], false, 0},
		{validHeader[:52] + "_" + validHeader[53:], false, 0},
		{validHeader[:53] + "0g", false, 0},
		{validHeader[:54], false, 0},
		{"", false, 0},
		{strings.Repeat("-", 55), false, 0},
		{strings.Repeat("\x00", 55), false, 0},
		{strings.Repeat("ä", 40), false, 0},
		{validHeader + ", " + validHeader, false, 0},
	} {
		trace, ok := parseTraceparent(c.text)
		switch {
		case ok != c.ok:
			t.Errorf("%q: validHeader %v; want %v", c.text, ok, c.ok)
		case ok && (hex.EncodeToString(trace.ID[:]) != theTrace || hex.EncodeToString(trace.Parent[:]) != theParent || trace.Flags != c.flags):
			t.Errorf("%q: %+v", c.text, trace)
		case ok && trace.Sampled():
			t.Errorf("%q is sampled before the proxy has a span", c.text)
		}
	}
}

func TestTraceHeaders(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		want   string // the tracestate; "none" for no trace
	}{
		{http.Header{}, "none"},
		{http.Header{"Tracestate": {"a=1"}}, "none"},
		{http.Header{"Traceparent": {validHeader, validHeader}}, "none"},
		{http.Header{"Traceparent": {"x"}, "Tracestate": {"a=1"}}, "none"},
		{http.Header{"Traceparent": {validHeader}}, ""},
		{http.Header{"Traceparent": {validHeader}, "Tracestate": {"a=1", "b=2,c=3"}}, "a=1,b=2,c=3"},
		{http.Header{"Traceparent": {validHeader}, "Tracestate": {" , a=1,"}}, "a=1"},
		{http.Header{"Traceparent": {validHeader}, "Tracestate": {strings.Repeat("a", maxTracestate)}}, strings.Repeat("a", maxTracestate)},
		{http.Header{"Traceparent": {validHeader}, "Tracestate": {strings.Repeat("a", maxTracestate+1)}}, ""},
		{http.Header{"Traceparent": {validHeader}, "Tracestate": {"a=\x80"}}, ""},
	} {
		trace := TraceOf(c.header)
		switch {
		case trace == nil && c.want != "none":
			t.Errorf("%v is no trace", c.header)
		case trace != nil && trace.State != c.want:
			t.Errorf("%v: tracestate %q; want %q", c.header, trace.State, c.want)
		}
	}
}

// FuzzTraceparent checks that nothing panics, and that what is accepted says the same when it is written again.
func FuzzTraceparent(f *testing.F) {
	for _, text := range []string{validHeader, "cc-" + validHeader[3:] + "-more", strings.Repeat("-", 55)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, ok := parseTraceparent(text)
		if !ok {
			return
		}
		trace.Lease = trace.Parent
		written := trace.Traceparent()
		if again, ok := parseTraceparent(written); !ok || again.ID != trace.ID || again.Parent != trace.Parent || again.Flags != trace.Flags {
			t.Errorf("%q was written as %q", text, written)
		}
		if text = strings.Trim(text, " \t"); written[3:53] != text[3:53] {
			t.Errorf("%q was written as %q", text, written)
		}
	})
}
