package profile

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// packed returns a message of Kyutai's protocol: its type and then names and values.
func packed(kind string, members ...any) []byte {
	b := msgp.AppendMapHeader(nil, uint32(1+len(members)/2))
	b = msgp.AppendString(msgp.AppendString(b, "type"), kind)
	for i := 0; i < len(members); i += 2 {
		b = msgp.AppendString(b, members[i].(string))
		switch v := members[i+1].(type) {
		case float64:
			b = msgp.AppendFloat64(b, v)
		case float32:
			b = msgp.AppendFloat32(b, v)
		case int:
			b = msgp.AppendInt(b, v)
		case string:
			b = msgp.AppendString(b, v)
		case bool:
			b = msgp.AppendBool(b, v)
		case nil:
			b = msgp.AppendNil(b)
		case []float32:
			b = msgp.AppendArrayHeader(b, uint32(len(v)))
			for _, f := range v {
				b = msgp.AppendFloat32(b, f)
			}
		}
	}
	return b
}

// Floats are decoded, however they are encoded, so that speech is heard in them.
func TestFloatsDecoded(t *testing.T) {
	k := track(t, "profiles: {p: {from: kyutai}}")
	k.Begin(Leg{})
	payload := packed("Audio", "pcm", []float32{0.5, -1})
	e := k.client(frame.Binary, string(payload))
	want := []byte{'x', 0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf}
	if got, ok := k.Audio([]byte("x"), e, payload); !ok || !bytes.Equal(got, want) {
		t.Errorf("% x, %v; want % x", got, ok, want)
	}
	_, payload = encodeFloats([]int{1, 2, 3, 4, -5, 6})
	e = k.come(frame.Binary, string(payload))
	got, ok := k.Audio(nil, e, payload)
	if len(got) != int(e.To-e.From) || !ok {
		t.Fatalf("%d bytes, %v; want %d", len(got), ok, e.To-e.From)
	}
	for i, want := range []float32{1, 2, 3, 4, -5, 6} {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])); v != want {
			t.Errorf("item %d is %v; want %v", i, v, want)
		}
	}
	for _, items := range []string{"\xca\x3f\x00\x00\x00\xa1a", "\xca\x3f\x00\x00\x00\xca\x3f", "\xca\x3f\x00\x00\x00\xc0"} {
		payload = append(packed("Audio", "pcm", []float32{})[:len(packed("Audio", "pcm", []float32{}))-1], "\x92"+items...)
		if got, ok := k.Audio([]byte("x"), k.come(frame.Binary, string(payload)), payload); ok || string(got) != "x" {
			t.Errorf("% x is decoded to % x", payload, got)
		}
	}
}

// A session of Kyutai's server continues on another one: audio is counted in MessagePack, and times in it continue.
func TestKyutaiFacts(t *testing.T) {
	p, err := Named("kyutai")
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(p, "")
	tr.Begin(Leg{})
	say := func(message []byte, want EntryKind) {
		t.Helper()
		e := tr.ClientMessage(frame.Binary, message, len(message))
		if e.Kind != want {
			t.Errorf("%q: kind %d; want %d", message[:20], e.Kind, want)
		}
		tr.Sent(e)
	}
	second := packed("Audio", "pcm", make([]float32, 24000))
	for range 3 {
		say(second, EntryAudio)
	}
	say(packed("Marker", "id", 7), EntryOther)
	if tr.Received() != 3*96000 || tr.Whole() != "" {
		t.Errorf("%d bytes received, %q", tr.Received(), tr.Whole())
	}
	word, end := packed("Word", "text", "one", "start_time", 0.56), packed("EndWord", "stop_time", 2.0)
	if j := tr.ServerMessage(frame.Binary, word); !j.Pass || !j.Final || tr.Answered() != 0 || !bytes.Equal(j.Payload, word) {
		t.Errorf("%+v, answered %d", j, tr.Answered())
	}
	if j := tr.ServerMessage(frame.Binary, end); !j.Pass || tr.Answered() != 2*96000 {
		t.Errorf("%+v, answered %d", j, tr.Answered())
	}
	tr.Begin(Leg{From: tr.Answered()})
	say(second, EntryAudio)
	tr.CaughtUp()
	if j := tr.ServerMessage(frame.Binary, word); !j.Pass || !bytes.Equal(j.Payload, packed("Word", "text", "one", "start_time", 2.56)) {
		t.Errorf("%q", j.Payload)
	}
	if step := packed("Step", "step_idx", 3, "prs", []float32{1, 2}); !bytes.Equal(tr.ServerMessage(frame.Binary, step).Payload, step) {
		t.Error("a step is changed")
	}
	if tr.Answered() != 2*96000 {
		t.Errorf("answered %d", tr.Answered())
	}
	say(packed("OggOpus", "data", "OggS"), EntryOther)
}

// Compressed audio is not counted, and the session is not taken over.
func TestPackedOpus(t *testing.T) {
	p, err := Named("kyutai")
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(p, "")
	tr.Begin(Leg{})
	b := msgp.AppendMapHeader(nil, 2)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "OggOpus")
	b = msgp.AppendBytes(msgp.AppendString(b, "data"), []byte("OggS"))
	tr.ClientMessage(frame.Binary, b, len(b))
	if tr.Whole() == "" {
		t.Error("a session with compressed audio can be taken over")
	}
}

func TestPackedMatchers(t *testing.T) {
	set := func(yaml string) *matchSet {
		p := mustParse(t, "profiles: {p: {greeting: "+yaml+"}}")
		return newMatchSet(1<<20, nil, use{p.spec.greeting, isGreeting})
	}
	for _, c := range []struct {
		yaml    string
		message []byte
		want    bool
	}{
		{"{msgpack: {type: Ready}}", packed("Ready"), true},
		{"{msgpack: {type: Ready}}", packed("Word"), false},
		{"{msgpack: {type: Ready}}", append(packed("Ready"), 0), false}, // something follows
		{"{msgpack: {type: Ready}}", packed("Ready")[:4], false},
		{"{msgpack: {type: Ready}}", packed("Ready", "type", "Ready"), false}, // twice, so ambiguous
		{"{msgpack: {type: Ready}}", nil, false},
		{"{msgpack: {type: Step, step_idx: 3}}", packed("Step", "step_idx", 3), true},
		{"{msgpack: {type: Step, step_idx: 3}}", packed("Step", "step_idx", 3.0), true},
		{"{msgpack: {step_idx: 3}}", packed("Step", "step_idx", "3"), false},
		{"{msgpack: {prs.1: '*'}}", packed("Step", "prs", []float32{1, 2}), true},
		{"{msgpack: {prs.2: '*'}}", packed("Step", "prs", []float32{1, 2}), false},
		{"{msgpack: {a: true, b: false, c: null}}", packed("x", "a", true, "b", false, "c", nil), true},
		{"{msgpack: {a: true}}", packed("x", "a", false), false},
		{"[{json: {type: Ready}}, {msgpack: {type: Go}}]", packed("Go"), true},
		{"[{json: {type: Ready}}, {msgpack: {type: Go}}]", packed("Ready"), false},
	} {
		if f := set(c.yaml).match(frame.Binary, c.message, 0); (f.class&isGreeting != 0) != c.want {
			t.Errorf("%s, %q: %v", c.yaml, c.message, !c.want)
		}
	}
	if f := set("{msgpack: {type: Ready}}").match(frame.Text, []byte(`{"type":"Ready"}`), 0); f.class != 0 {
		t.Error("a text matches")
	}
	both := set("[{json: {type: Ready}}, {msgpack: {type: Ready}}]")
	if f := both.match(frame.Text, []byte(`{"type":"Ready"}`), 0); f.class&isGreeting == 0 || f.doubt != 0 {
		t.Errorf("%+v", f)
	}
	if n := testing.AllocsPerRun(100, func() { both.match(frame.Binary, packedWord, 0) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

var packedWord = packed("Word", "text", "one", "start_time", 0.56)

func TestShiftPacked(t *testing.T) {
	for _, c := range []struct {
		number, want []byte
		unit         TimeUnit
	}{
		{msgp.AppendFloat64(nil, 0.56), msgp.AppendFloat64(nil, 8.56), UnitSeconds},
		{msgp.AppendFloat64(nil, 0.56), msgp.AppendFloat64(nil, 8000.56), UnitMilliseconds},
		{msgp.AppendFloat32(nil, 0.5), msgp.AppendFloat32(nil, 8.5), UnitSeconds},
		{msgp.AppendInt(nil, 1), msgp.AppendInt(nil, 9), UnitSeconds},
		{msgp.AppendInt(nil, 1), msgp.AppendInt(nil, 8001), UnitMilliseconds},
		{msgp.AppendInt(nil, -1), msgp.AppendInt(nil, 7), UnitSeconds},
		{msgp.AppendFloat64(nil, math.Inf(1)), nil, UnitSeconds},
		{msgp.AppendUint64(nil, math.MaxUint64), nil, UnitSeconds},
		{msgp.AppendInt(nil, 1), nil, UnitClock},
		{msgp.AppendString(nil, "1"), nil, UnitSeconds},
	} {
		if got, changed := shiftPacked(nil, c.number, c.unit, 8e6); changed != (c.want != nil) || !bytes.Equal(got, c.want) {
			t.Errorf("% x: % x, %t; want % x", c.number, got, changed, c.want)
		}
	}
}

// FuzzPacked rewrites messages that may be MessagePack: what was valid stays so, and nothing else changes than numbers at the paths.
func FuzzPacked(f *testing.F) {
	f.Add(packedWord)
	f.Add(packed("EndWord", "stop_time", 3))
	f.Add(packed("Step", "step_idx", 3, "prs", []float32{1, 2}))
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1})
	f.Fuzz(func(t *testing.T, message []byte) {
		p, err := Named("kyutai")
		if err != nil {
			t.Fatal(err)
		}
		tr := NewTracker(p, "")
		tr.Begin(Leg{})
		e := tr.ClientMessage(frame.Binary, message, len(message))
		audio := packed("Audio", "pcm", make([]float32, 24))
		tr.Sent(e)
		tr.Sent(tr.ClientMessage(frame.Binary, audio, len(audio)))
		tr.Begin(Leg{From: tr.Received()})
		tr.CaughtUp()
		got := tr.ServerMessage(frame.Binary, message)
		if !got.Pass || bytes.Equal(got.Payload, message) {
			return
		}
		before, after := stripped(t, message), stripped(t, got.Payload)
		if !bytes.Equal(before, after) {
			t.Errorf("%q became %q", message, got.Payload)
		}
	})
}

// stripped returns a valid message without the numbers that are shifted.
func stripped(t *testing.T, b []byte) (out []byte) {
	t.Helper()
	set := newPathSet(jsonPath{newSegment("start_time")}, jsonPath{newSegment("stop_time")})
	hits, ok := collectPacked(nil, b, set, set.all)
	if !ok {
		t.Fatalf("%q is not valid", b)
	}
	at := 0
	for _, h := range hits {
		if h.kind == hitNumber {
			out = append(out, b[at:h.from]...)
			at = h.to
		}
	}
	return append(out, b[at:]...)
}
