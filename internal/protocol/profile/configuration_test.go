package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

func TestMergeObjects(t *testing.T) {
	for _, c := range []struct{ earlier, later, want string }{
		{`{}`, `{}`, `{}`},
		{`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		{`{"a":1.50, "x":[1, 2]}`, `{"a":1e3}`, `{"a":1e3,"x":[1, 2]}`},
		{`{"a":{"b":1,"c":{"d":1}}}`, ` {"a": {"c":{"e":2},"f":null}} `, `{"a":{"b":1,"c":{"d":1,"e":2},"f":null}}`},
		{`{"a":{"b":1}}`, `{"a":2}`, `{"a":2}`},
		{`{"a":2}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"\u0061":1}`, `{"a":2}`, `{"\u0061":2}`},
		{`{"a":1,"b":2,"a":3}`, `{"a":4,"c":5,"\u0061":6}`, `{"a":6,"b":2,"c":5}`},
		{`{"a":12345678901234567890.123456789}`, `{"b":true}`, `{"a":12345678901234567890.123456789,"b":true}`},
	} {
		if got, ok := mergeObjects(nil, []byte(c.earlier), []byte(c.later), 0); !ok || string(got) != c.want {
			t.Errorf("%s and %s: %s, want %s", c.earlier, c.later, got, c.want)
		}
	}
	for _, bad := range []string{``, `[]`, `{"a"}`, `{"a":1,}`, `{"a":1} x`, `{a:1}`, `{"a":}`, `1`, strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101)} {
		if _, ok := mergeObjects(nil, []byte(`{}`), []byte(bad), 0); ok {
			t.Errorf("%s is merged", bad)
		}
	}
}

// A client cannot make the merge of its configuration messages take long: the work, counted in allocations, grows with their lengths, and a message
// that is too long to keep is not looked into.
func TestMergeIsCheap(t *testing.T) {
	const n = 2000
	text := `{"config":{}` + strings.Repeat(`,"\n":0`, n) + `}`
	if allocs := testing.AllocsPerRun(1, func() {
		if _, ok := mergeObjects(nil, []byte(text), []byte(strings.ReplaceAll(text, `\n`, `\r`)), 0); !ok {
			t.Error("it is not merged")
		}
	}); allocs > 20*n {
		t.Errorf("%d members take %v allocations", n, allocs)
	}
	k := track(t, "profiles: {p: {from: vosk}}")
	k.Begin(Leg{})
	k.client(frame.Text, text)
	long := []byte(`{"config":{}` + strings.Repeat(`,"b":0`, maxConfiguration/6) + `}`)
	if allocs := testing.AllocsPerRun(1, func() { k.ClientMessage(frame.Text, long, len(long)) }); allocs > 20 || k.Whole() == "" {
		t.Errorf("a long message takes %v allocations; given up: %q", allocs, k.Whole())
	}
}

// Many short configuration messages behind a long one do not have that read again for each.
func TestManyMerges(t *testing.T) {
	k := track(t, "profiles: {p: {from: vosk}}")
	k.Begin(Leg{})
	k.client(frame.Text, `{"config":{"a":0`+strings.Repeat(`,"b":0`, maxConfiguration/8)+`}}`)
	short := []byte(`{"config":{}}`)
	for range 1000 {
		k.ClientMessage(frame.Text, short, len(short))
	}
	if k.Whole() != tooMuchConfiguration {
		t.Errorf("given up: %q", k.Whole())
	}
	k = track(t, "profiles: {p: {from: vosk}}") // a client that configures often, but not much
	k.Begin(Leg{})
	for range 5000 {
		k.client(frame.Text, `{"config":{"words":1}}`)
	}
	if why := k.Whole(); why != "" {
		t.Errorf("given up: %s", why)
	}
}

// Another server is configured as the first one was, in the profile's order.
func TestConfiguration(t *testing.T) {
	const yaml = `
profiles:
  p:
    failover:
      verdict: full
      audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      configure:
        - {messages: {json: {type: start}}, resend: last}
        - {messages: {json: {type: add}}, resend: all, except: {json: {dry: true}}}
        - {messages: {json: {type: set}}, resend: merged}
      forget: {json: {type: ping}}
      answered: {messages: {json: {final: true}}, by: time, times: end, unit: s}
      hide: [{messages: {json: {state: ready}}, most: 1}]
`
	k := track(t, yaml)
	k.Begin(Leg{})
	for _, message := range []string{
		`{"type":"set","a":{"x":1}}`, `{"type":"start","n":1}`, `{"type":"add","n":1}`, `{"type":"set","a":{"y":2}}`, `{"type":"add","n":2}`,
		`{"type":"ping"}`, `{"type":"start","n":2}`, `{"type":"add","dry":true}`,
	} {
		k.client(frame.Text, message)
	}
	audio := k.client(frame.Binary, strings.Repeat("a", 3200))
	came := k.come(frame.Text, `{"type":"start","n":3}`) // while there is no server
	k.Begin(Leg{})
	late := k.come(frame.Text, `{"type":"add","n":3}`)
	ping := k.come(frame.Text, `{"type":"ping"}`)
	var got []string
	for op, payload := range k.Configuration() {
		got = append(got, string(payload))
		if op != frame.Text {
			t.Error(op)
		}
		k.come(frame.Text, `{"type":"start","n":4}`) // does not disturb
	}
	want := `[{"type":"start","n":3} {"type":"add","n":1} {"type":"add","n":2} {"type":"set","a":{"x":1,"y":2}}]`
	if fmt.Sprint(got) != want {
		t.Errorf("configuration: %s\nwant %s", got, want)
	}
	for i, c := range []struct {
		e    Entry
		want bool
	}{
		{k.entries[0], false}, {k.entries[5], false}, {k.entries[7], true}, {audio, true}, {came, false}, {late, true}, {ping, true},
	} {
		if k.Resend(c.e) != c.want {
			t.Errorf("%d: %+v is sent again: %v", i, c.e, !c.want)
		}
	}
	if k.entries[7].Kind != EntryOther || k.entries[5].Kind != EntryTransient {
		t.Errorf("%+v", k.entries)
	}
}

// What a tracker keeps is limited, whatever clients and servers do.
func TestTrackerBounds(t *testing.T) {
	for _, c := range []struct {
		what, yaml string
		flood      func(k *tracking)
	}{
		{"configuration", `profiles: {p: {failover: {verdict: full, audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000},
			configure: {messages: {opcode: text}, resend: all}, answered: {messages: {json: {a: 1}}, by: utterance}}}}`, func(k *tracking) {
			k.ClientMessage(frame.Text, []byte("configure"), 9)
		}},
		{"long configuration", "profiles: {p: {from: funasr}}", func(k *tracking) { k.ClientMessage(frame.Text, nil, 1<<21) }},
		{"replies", "profiles: {p: {from: vosk}}", func(k *tracking) { k.client(frame.Binary, "aa") }},
		{"segments", "profiles: {p: {from: whisperlivekit, failover: {audio: {encoding: s16le}}}}", func(k *tracking) {
			k.ServerMessage(frame.Text, []byte(`{"lines":[{"end":"0:00:01","text":"`+strings.Repeat("a", 1<<19)+`"}]}`))
		}},
		{"doubt", "profiles: {p: {from: watson}}", func(k *tracking) { k.ClientMessage(frame.Text, []byte(`{"action":1,"action":"start"}`), 29) }},
	} {
		k := track(t, c.yaml)
		k.Begin(Leg{})
		for range 10_000 {
			if c.flood(k); k.Whole() != "" {
				break
			}
		}
		if k.Whole() == "" {
			t.Errorf("%s: no bound was found", c.what)
		}
		size := 0
		for _, kept := range k.configuration {
			size += len(kept.payload)
		}
		if size > maxConfiguration || len(k.owed.ring) > maxOwed || len(k.latest.text) > maxPrepended {
			t.Errorf("%s: %d bytes, %d replies, %d bytes of lists", c.what, size, len(k.owed.ring), len(k.latest.text))
		}
	}
}
