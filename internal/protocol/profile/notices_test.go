package profile

import (
	"encoding/json"
	"strings"
	"testing"
)

// The messages to clients have their placeholders filled in, and stays valid JSON whatever the texts are.
func TestTell(t *testing.T) {
	p := mustParse(t, `profiles: {p: {from: whisperlive, tell: {queue: '{"place":$place,"wait":$wait,"of":"$service"}', moved: '{"moved":"$service"}',
  degraded: '{"state":"$state","why":"$reason"}'}}}`)
	tell := p.Tell()
	const odd = `a"b$place`
	for want, got := range map[string]string{
		`{"place":3,"wait":12,"of":"stt"}`:          tell.Queue("stt", 3, 12),
		`{"place":1,"wait":null,"of":"a\"b$place"}`: tell.Queue(odd, 1, -1),
		`{"moved":"stt"}`:                           tell.Moved("stt"),
		`{"state":"degraded","why":"a\"b$place"}`:   tell.Degraded("stt", odd),
		`{"state":"normal","why":""}`:               tell.Degraded("stt", ""),
	} {
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("got %s; want %s", got, want)
		}
	}
	if !tell.Queues() || !tell.Moves() || !tell.Degrades() || mustParse(t, "profiles: {p: {}}").Tell().Queues() {
		t.Error("the profile does not know what it has")
	}
	if again := mustParse(t, string(p.YAML())); *again.Tell() != *tell {
		t.Errorf("printed and read again: %+v", again.Tell())
	}
}

func TestTellRefused(t *testing.T) {
	for yaml, want := range map[string]string{
		`tell: {queue: '{"place":"$position"}'}`:                `tell.queue: unknown placeholder "$position": use one of $place, $wait, $service`,
		`tell: {moved: '{"place":$place}'}`:                     `tell.moved: unknown placeholder "$place"`,
		`tell: {queue: '{"place":$place'}`:                      `tell.queue is not valid JSON once its placeholders are filled in: {"place":1`,
		`from: whisperlive, tell: {queue: 'place $place'}`:      "tell.queue is not valid JSON",
		`tell: {queue: '{"wait":"$service}'}`:                   "tell.queue is not valid JSON",
		`tell: {que: x}`:                                        `unknown key "que": did you mean "queue"?`,
		`tell: {queue: [x]}`:                                    "found a list; expected text",
		`tell: {queue: ` + strings.Repeat("x", maxTell+1) + "}": "tell.queue has 1025 bytes: use at most 1024",
	} {
		_, err := Parse("t.yaml", []byte("profiles: {p: {"+yaml+"}}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v; want %q", yaml, err, want)
		}
	}
	mustParse(t, "profiles: {p: {tell: {queue: 'place $place, $wait s', degraded: none}}}") // not JSON, nor is the protocol
}
