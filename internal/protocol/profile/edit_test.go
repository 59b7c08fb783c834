package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// nested is a profile with paths of all kinds.
const nested = `
profiles:
  p:
    failover:
      verdict: full
      audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: time, times: end, unit: s}]
      shift: [{path: "a[].b", unit: s}, {path: c.d, unit: s}, {path: "e[][1]", unit: ms}, {path: "a[0].b", unit: s}, {path: "f[].f[].f", unit: s}]
      renumber: [{path: n, first: 0}]
`

// another returns a tracker of the profile on its second server, this many bytes of audio after the first one.
func another(tb testing.TB, yaml string, from Position) *Tracker {
	k := NewTracker(mustParse(tb, yaml), "")
	k.Begin(Leg{})
	k.Sent(k.ClientMessage(frame.Binary, nil, int(from)+32000))
	k.Begin(Leg{From: from})
	k.Sent(k.ClientMessage(frame.Binary, nil, 32000))
	k.CaughtUp()
	return k
}

// Rewriting changes the numbers at the paths and nothing else: the same as encoding/json finds.
func TestRewriteAgainstTree(t *testing.T) {
	p := mustParse(t, nested)
	rapid.Check(t, func(t *rapid.T) {
		k := newTracker(p.program.tracker, "")
		k.Begin(Leg{})
		from := 2 * rapid.IntRange(0, 1<<20).Draw(t, "from")
		k.Sent(k.ClientMessage(frame.Binary, nil, from+2))
		k.Begin(Leg{From: Position(from)})
		text := drawJSON(t, 0)
		j := k.ServerMessage(frame.Text, []byte(text))
		var before, after any
		decode(t, text, &before)
		decode(t, string(j.Payload), &after)
		micros := k.format.lastsFor(int64(from), 1e6)
		if want := shifted(before, "", micros); !reflect.DeepEqual(after, want) {
			t.Fatalf("%s\nbecame\n%s\nwant\n%v", text, j.Payload, want)
		}
	})
}

func decode(t *rapid.T, text string, to *any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	*to = normal(*to)
}

// normal replaces numbers by exact ones.
func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, _ := new(big.Rat).SetString(v.String())
		return r.RatString()
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = normal(v[key])
		}
	}
	return v
}

// shifted returns a tree with shifted times. Numbers are texts in it.
func shifted(v any, path string, micros int64) any {
	switch v := v.(type) {
	case string:
		unit := big.NewRat(micros, 1e6)
		switch {
		case path == ".e[][1]":
			unit = big.NewRat(roundTo(micros, 1000)/1000, 1)
		case path != ".a[].b" && path != ".a[][0].b" && path != ".c.d" && path != ".f[].f[].f":
			return v
		}
		r, ok := new(big.Rat).SetString(v)
		if !ok || r.Sign() < 0 || strings.Contains(v, "x") {
			return v
		}
		return r.Add(r, unit).RatString()
	case []any:
		for i := range v {
			step := "[]"
			if strings.HasSuffix(path, ".e[]") {
				step = fmt.Sprintf("[%d]", i)
			}
			v[i] = shifted(v[i], path+step, micros)
		}
	case map[string]any:
		for key := range v {
			v[key] = shifted(v[key], path+"."+key, micros)
		}
	}
	return v
}

// drawJSON draws a text that has the paths of nested, and others.
func drawJSON(t *rapid.T, depth int) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind = 6
	} else if depth > 4 {
		kind %= 4
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", `"x"`, `"x\"]"`, "{}", "[]"}).Draw(t, "other")
	case 1, 2, 3:
		return rapid.SampledFrom([]string{"0", "1", "1.5", "12.345678", "1e2", "7.0", "-1", "3.25e-2", "100000.000001"}).Draw(t, "number")
	case 4, 5:
		var items []string
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			items = append(items, space()+drawJSON(t, depth+1)+space())
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	var members []string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}), 0, 6, rapid.ID).Draw(t, "keys") {
		name := `"` + key + `"`
		if rapid.IntRange(0, 9).Draw(t, "escaped") == 0 {
			name = fmt.Sprintf(`"\u%04x"`, key[0])
		}
		members = append(members, space()+name+space()+":"+space()+drawJSON(t, depth+1))
	}
	return "{" + strings.Join(members, ",") + space() + "}"
}

// A message that nothing is to be done with is not copied, and neither that nor rewriting into memory at hand allocates anything.
func TestTrackerAllocates(t *testing.T) {
	first := track(t, timed)
	first.Begin(Leg{})
	second := another(t, timed, 32000)
	payload := []byte(`{"n":0,"start":0.00,"duration":0.5,"final":true,"words":[{"end":0.2},{"end":0.5}]}`)
	partial := []byte(`{"n":0,"start":0.00,"duration":0.5,"final":false}`)
	if j := first.ServerMessage(frame.Text, partial); &j.Payload[0] != &partial[0] {
		t.Error("a message was copied")
	}
	text := NewTracker(mustParse(t, audioYAML("messages: {json: {type: a}}, base64: audio, encoding: s16le, rate: 16000")), "")
	text.Begin(Leg{})
	append64 := []byte(`{"type":"a","audio":"` + strings.Repeat("AAAA", 1000) + `"}`)
	vosk := track(t, "profiles: {p: {from: vosk}}")
	vosk.Begin(Leg{})
	reply := []byte(voskPartial)
	for what, f := range map[string]func(){
		"binary audio":  func() { first.Sent(first.ClientMessage(frame.Binary, nil, 320)) },
		"base64":        func() { text.Sent(text.ClientMessage(frame.Text, append64, len(append64))) },
		"partial":       func() { first.ServerMessage(frame.Text, partial) },
		"final":         func() { first.ServerMessage(frame.Text, payload) },
		"partial moved": func() { second.ServerMessage(frame.Text, partial) },
		"final moved":   func() { second.ServerMessage(frame.Text, payload) },
		"lockstep": func() {
			vosk.Sent(vosk.ClientMessage(frame.Binary, nil, 320))
			vosk.ServerMessage(frame.Text, reply)
		},
	} {
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	if first.Whole() != "" || second.Whole() != "" || vosk.Whole() != "" || text.Received() == 0 {
		t.Error("nothing was tested")
	}
}

// FuzzRewrite rewrites any message: JSON stays JSON, and what no path leads to stays as it is.
func FuzzRewrite(f *testing.F) {
	for _, message := range []string{
		`{"a":[{"b":1.5},{"b":"2.50"}],"c":{"d":0},"e":[[0,1500],[1,"7"]],"n":3}`, `{"f":[{"f":[{"f":1e2}]}]}`, `{"a":[{"b":1},{"b":1,"b":2}]}`,
		`{"final":true,"end":1,"n":9223372036854775807}`, `{"a":[{"b":"\u0031"}]}`, `[1,2]`, `{"c":{"d":-1}}`, `{"c":{"d":99999999999999999999}}`,
		`{"segments":[{"end":"1.0","completed":true}]}`, "Done!", "",
	} {
		f.Add([]byte(message), uint32(1600))
	}
	p, whole := mustParse(f, nested), mustParse(f, "profiles: {p: {from: whisperlive}}")
	f.Fuzz(func(t *testing.T, message []byte, from uint32) {
		k := newTracker(p.program.tracker, "")
		k.Begin(Leg{})
		k.Sent(k.ClientMessage(frame.Binary, nil, int(from)))
		k.numbers[0].next = 5
		k.Begin(Leg{From: Position(from)})
		k.CaughtUp()
		original := bytes.Clone(message)
		j := k.ServerMessage(frame.Text, message)
		if !bytes.Equal(message, original) {
			t.Fatalf("%q was changed in place", original)
		}
		if j.Pass && json.Valid(message) {
			if !json.Valid(j.Payload) {
				t.Fatalf("%q became %q", message, j.Payload)
			}
			set := p.program.tracker.edits
			before, ok := collect(nil, message, set, set.all)
			after, _ := collect(nil, j.Payload, set, set.all)
			if ok && gaps(message, before) != gaps(j.Payload, after) {
				t.Fatalf("%q became %q", message, j.Payload)
			}
		}
		w := newTracker(whole.program.tracker, "")
		for range 3 {
			w.Begin(Leg{})
			if j := w.ServerMessage(frame.Text, message); j.Pass && json.Valid(message) && !json.Valid(j.Payload) {
				t.Fatalf("%q became %q", message, j.Payload)
			}
		}
	})
}

// gaps returns a text without the values that were found.
func gaps(text []byte, hits []hit) string {
	var b strings.Builder
	at := 0
	for _, h := range hits {
		if h.from < at || h.kind != hitText && h.kind != hitNumber {
			continue
		}
		b.Write(text[at:h.from])
		b.WriteByte('_')
		at = h.to
	}
	b.Write(text[at:])
	return b.String()
}

// FuzzCut cuts any audio anywhere: what is left is as long as it must be.
func FuzzCut(f *testing.F) {
	for _, payload := range []string{
		`{"type":"a","audio":"AAAAAAAA"}`, `{"type":"a","audio":"AAAAAA=="}`, `{"type":"a","audio":"AAA"}`, `{"type":"a","audio":"\/\/\u002bA"}`, `{"type":"a","audio":"-_-_"}`,
	} {
		f.Add([]byte(payload), uint16(2))
	}
	_, floats := encodeFloats([]int{1, 2, 3, 4, 5})
	f.Add(floats, uint16(8))
	f.Add([]byte("audio"), uint16(2))
	var programs []*trackerProgram
	for _, audio := range []string{"messages: {json: {type: a}}, base64: audio", "messages: {opcode: binary}, floats: pcm", "messages: {opcode: binary}"} {
		programs = append(programs, mustParse(f, audioYAML(audio+", encoding: f32le, rate: 16000")).program.tracker)
	}
	f.Fuzz(func(t *testing.T, payload []byte, skip uint16) {
		for i, p := range programs {
			op := frame.Binary
			if i == 0 {
				op = frame.Text
			}
			k := newTracker(p, "")
			e := k.ClientMessage(op, payload, len(payload))
			if e.Kind != EntryAudio || k.Whole() != "" {
				continue
			}
			at := e.From + Position(skip)/4*4
			cut, ok := k.Cut(nil, e, payload, at)
			if at > e.To && ok {
				t.Fatalf("%q is cut behind its end", payload)
			}
			if !ok {
				continue
			}
			again := newTracker(p, "")
			c := again.ClientMessage(op, cut, len(cut))
			if again.Whole() != "" || c.To-c.From != e.To-at {
				t.Fatalf("%q from %d of %d is %q, of %d: %s", payload, at, e.To, cut, c.To-c.From, again.Whole())
			}
		}
	})
}

// FuzzMerge merges any two texts: objects become an object.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"c":2},"\u0061":3}`))
	f.Add([]byte(`{}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, earlier, later []byte) {
		merged, ok := mergeObjects(nil, earlier, later, 0)
		if ok && !json.Valid(merged) {
			t.Fatalf("%q and %q are %q", earlier, later, merged)
		}
		if !ok && bytes.HasPrefix(earlier, []byte("{}")) && len(earlier) == 2 && bytes.HasPrefix(later, []byte("{")) && json.Valid(later) && bytes.Count(later, []byte("{")) < maxDepth && bytes.Count(later, []byte("[")) < maxDepth {
			t.Fatalf("%q is not merged", later)
		}
	})
}
