package profile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

const takeoverYAML = `
profiles:
  p:
    %s
    end: {client: {text: end}, server: stays}
    failover:
      verdict: full
      %s
      partial: {json: {final: false}}
      shift: [{path: start, unit: s}]
      renumber: [{path: n, first: 0}]
`

var takeoverScenes = []takeoverScene{
	{
		name: "times", places: 7, encode: encodeBinary, decode: unwrap,
		yaml: fmt.Sprintf(takeoverYAML, "", `audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: time, times: [start, duration], unit: s}]`),
		server: func(c chooser) hearer { return &recogniser{c: c} },
	}, {
		name: "times with two decimals", places: 2, encode: encodeBinary, decode: unwrap, slack: 161,
		yaml: fmt.Sprintf(takeoverYAML, "", `audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: time, times: [start, duration], unit: s}]`),
		server: func(c chooser) hearer { return &recogniser{c: c, least: 400} },
	}, {
		name: "base64", places: 7, encode: encodeBase64, decode: decodeBase64,
		yaml: fmt.Sprintf(takeoverYAML, "", `audio: {messages: {json: {type: append}}, base64: audio, encoding: s16le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: time, times: [start, duration], unit: s}]`),
		server: func(c chooser) hearer { return &recogniser{c: c} },
	}, {
		name: "floats", places: 7, encode: encodeFloats, decode: decodeFloats,
		yaml: fmt.Sprintf(takeoverYAML, "", `audio: {messages: {opcode: binary}, floats: pcm, encoding: f32le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: time, times: [start, duration], unit: s}]`),
		server: func(c chooser) hearer { return &recogniser{c: c} },
	}, {
		name: "count", places: 7, encode: encodeBinary, decode: unwrap, counts: true,
		yaml: fmt.Sprintf(takeoverYAML, `reuse: lockstep
    reset: {send: end, until: {json: {final: true}}}`, `audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: count}]
      stall: replies`),
		server: func(c chooser) hearer { return &recogniser{c: c, replies: true} },
	}, {
		name: "next", places: 7, encode: encodeBinary, decode: unwrap,
		yaml: fmt.Sprintf(takeoverYAML, "", `audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      answered: [{messages: {json: {final: true}}, by: next, times: [start], unit: s}]`),
		server: func(c chooser) hearer { return &recogniser{c: c, eager: true} },
	},
}

// run lets a session live and die.
func (s *takeoverScene) run(p *Profile, shift Position, c chooser, steps int) *takeover {
	w := &takeover{scene: s, chooser: c, shift: shift}
	w.begin(p)
	for range steps {
		if w.step(); w.wrong != "" || w.samples > 1<<16-1000 {
			break
		}
	}
	w.finish()
	return w
}

// Whatever servers die, and whenever: every sample is in exactly one final, in order, and times and numbers continue. A longer run:
//
//	go test ./internal/protocol/profile -run TestTakeover -rapid.checks 100000 -timeout 0
func TestTakeover(t *testing.T) {
	for i := range takeoverScenes {
		s := &takeoverScenes[i]
		t.Run(s.name, func(t *testing.T) {
			p := mustParse(t, s.yaml)
			deaths, finals := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				w := s.run(p, 0, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }, 100)
				if w.wrong != "" {
					t.Fatalf("%s\nafter %d deaths:\n%v", w.wrong, w.deaths, w)
				}
			})
			for seed := range uint64(2 * rapidChecks()) {
				w := s.run(p, 0, rand.New(rand.NewPCG(seed, 1)).IntN, 300)
				if w.wrong != "" {
					t.Fatalf("seed %d: %s\nafter %d deaths:\n%v", seed, w.wrong, w.deaths, w)
				}
				deaths += w.deaths
				for _, r := range w.got {
					if r.Final {
						finals++
					}
				}
			}
			t.Logf("%d deaths, %d finals", deaths, finals)
			if deaths < 4*rapidChecks() {
				t.Errorf("only %d servers died", deaths)
			}
		})
	}
}

// The test above can fail: a caller that begins a few samples too early or too late after a move is found.
func TestTakeoverFindsWrongWatermark(t *testing.T) {
	for i := range takeoverScenes {
		s := &takeoverScenes[i]
		p := mustParse(t, s.yaml)
		for _, shift := range []Position{-1 - Position(s.slack), 1 + Position(s.slack)} {
			found := false
			for seed := range uint64(200) {
				if w := s.run(p, shift*3, rand.New(rand.NewPCG(seed, 1)).IntN, 300); w.wrong != "" {
					found = true
					break
				}
			}
			if !found {
				t.Errorf("%s: a watermark moved by %d samples is not found", s.name, shift)
			}
		}
	}
}
