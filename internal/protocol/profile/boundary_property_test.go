package profile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// scene is a protocol with its profile, its server and its clients.
type scene struct {
	name  string
	yaml  string // of the profile; empty for the built-in one of the name
	serve func(c chooser, n nasty) server
	talk  func(c chooser, v *visit) []said
	nasty []nasty // ways in which the server may misbehave without harm
}

var scenes = []scene{
	{
		name: "echo", talk: echoClient,
		serve: func(c chooser, n nasty) server { return &echoServer{c, n} },
		nasty: []nasty{{}},
	}, {
		name: "vosk", talk: voskClient,
		serve: func(c chooser, n nasty) server { return &voskServer{c: c, nasty: n} },
		nasty: []nasty{{}, {ignoresReset: true}, {dies: true}},
	}, {
		name: "funasr", talk: funasrClient,
		yaml:  "profiles: {p: {from: funasr, unsafe: doubt}}",
		serve: func(c chooser, n nasty) server { return &funasrServer{c: c, nasty: n} },
		nasty: []nasty{{}, {ignoresReset: true}, {dies: true}},
	}, {
		name: "funasr-realtime", talk: funasrRealtimeClient,
		serve: func(c chooser, n nasty) server { return &funasrRealtimeServer{c: c, nasty: n} },
		nasty: []nasty{{}, {ignoresReset: true}, {dies: true}},
	}, {
		name: "watson", talk: watsonClient,
		yaml:  "profiles: {p: {from: watson, unsafe: doubt}}",
		serve: func(c chooser, n nasty) server { return &watsonServer{c: c, nasty: n} },
		nasty: []nasty{{}, {ignoresReset: true}, {dies: true}, {overtakes: true}},
	}, {
		name: "dashscope", talk: dashscopeClient,
		serve: func(c chooser, n nasty) server { return &dashscopeServer{c: c, nasty: n} },
		nasty: []nasty{{}, {late: true}},
	}, {
		name: "elevenlabs-tts", talk: contextsClient,
		serve: func(c chooser, n nasty) server { return &contextsServer{c: c, nasty: n} },
		nasty: []nasty{{}, {late: true}},
	}, {
		name: "dashscope drained", talk: dashscopeClient,
		yaml:  "profiles: {p: {from: dashscope, early: reset}}",
		serve: func(c chooser, n nasty) server { return &dashscopeServer{c: c, nasty: n} },
		nasty: []nasty{{late: true}},
	}, {
		name: "sherpa-onnx", talk: sherpaClient,
		yaml:  "profiles: {p: {from: sherpa-onnx, unsafe: quiet}}",
		serve: func(c chooser, n nasty) server { return &sherpaServer{c: c, nasty: n} },
		nasty: []nasty{{}, {overtakes: true}, {ignoresReset: true}},
	}, {
		name: "alive", talk: echoClient,
		yaml: `profiles: {p: {reuse: lockstep, stateless: true, greeting: {text: hello}, setup: "hi",
  keepalive: {send: "alive?", every: 10s, answer: {text: alive!}}, unanswered: {text: never}}}`,
		serve: func(c chooser, n nasty) server { return &aliveServer{echoServer: echoServer{c, n}} },
		nasty: []nasty{{}},
	}, {
		name: "whisperlive", talk: whisperClient,
		serve: func(c chooser, n nasty) server { return &whisperServer{c: c} },
		nasty: []nasty{{}},
	},
}

// profile returns the scene's profile, or with more keys one that inherits from it.
func (s *scene) profile(t testing.TB, more string) *Profile {
	t.Helper()
	yaml := s.yaml
	if yaml == "" {
		yaml = fmt.Sprintf("profiles: {p: {from: %s}}", s.name)
	}
	if more != "" {
		yaml = "profiles:\n  p" + yaml[len("profiles: {p"):len(yaml)-1] + "\n  q: {from: p, " + more + "}\n"
	}
	return mustParse(t, yaml)
}

func (s *scene) world(p *Profile, n nasty, c chooser) *world {
	return &world{
		profile: p, chooser: c, talk: s.talk, honest: n == (nasty{}) && p.From() != "p", broken: make(map[Reason]int),
		serve: func() server { return s.serve(c, n) },
	}
}

// run does n steps of the scene and returns what came of it.
func (s *scene) run(p *Profile, n nasty, seed uint64, steps int) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := s.world(p, n, rng.IntN)
	for range steps {
		if w.step(); w.wrong != "" {
			break
		}
	}
	return w
}

// Nothing that one session has caused reaches another, whatever happens in whatever order. A longer run:
//
//	go test ./internal/protocol/profile -run 'TestNoLeak|TestBoundaryStates' -rapid.checks 100000 -timeout 0
func TestNoLeak(t *testing.T) {
	steps := 600 * rapidChecks()
	for _, s := range scenes {
		for _, n := range s.nasty {
			t.Run(fmt.Sprintf("%s/%+v", s.name, n), func(t *testing.T) {
				p := s.profile(t, "")
				w := s.run(p, n, 1, steps)
				if w.wrong != "" {
					t.Fatal(w.wrong)
				}
				t.Logf("%d sessions, %d on used connections, %d answers, %d resets awaited; broken: %v", w.served, w.reused, w.answers, w.resets, w.broken)
				if s.name == "alive" && w.keptAlive < steps/1000 {
					t.Errorf("only %d keepalives were answered", w.keptAlive)
				}
				if w.reused < w.served/10 && p.Reuse != OneShot {
					t.Errorf("of %d sessions, only %d were on used connections", w.served, w.reused)
				}
			})
		}
	}
}

// The same, in small steps that can be shrunk to the shortest sequence that goes wrong.
func TestBoundaryStates(t *testing.T) {
	for _, s := range scenes {
		for _, n := range s.nasty {
			t.Run(fmt.Sprintf("%s/%+v", s.name, n), func(t *testing.T) {
				p := s.profile(t, "")
				rapid.Check(t, func(t *rapid.T) {
					w := s.world(p, n, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
					one := func(f func(*conn)) func(*rapid.T) {
						return func(t *rapid.T) {
							if len(w.conns) == 0 {
								t.Skip("no connection")
							}
							f(w.conns[w.chooser(len(w.conns))])
						}
					}
					t.Repeat(map[string]func(*rapid.T){
						"a client comes":        func(*rapid.T) { w.arrive(); w.sweep() },
						"a client sends":        one((*conn).clientSends),
						"a client sends more":   one((*conn).clientSends),
						"a client leaves":       one((*conn).clientLeaves),
						"a keepalive is due":    one((*conn).keepAlive),
						"the server hears":      one((*conn).serverHears),
						"the server hears more": one((*conn).serverHears),
						"the server answers":    one((*conn).serverSends),
						"an answer arrives":     one((*conn).arrives),
						"more of it arrives":    one((*conn).arrives),
						"a timer fires":         one((*conn).tick),
						"the server dies":       one((*conn).dies),
						"": func(t *rapid.T) {
							if w.wrong != "" {
								t.Fatal(w.wrong)
							}
						},
					})
				})
			})
		}
	}
}

// The test above can fail: without the reset, or with one that is not enough, it finds what leaks.
func TestLeakIsFound(t *testing.T) {
	for _, c := range []struct{ scene, more string }{
		{"vosk", "unsafe: blind"},
		{"funasr", "unsafe: [doubt, blind]"},
		{"watson", "unsafe: [doubt, blind]"},
		{"sherpa-onnx", "unsafe: [quiet, blind]"},
		{"echo", "unsafe: blind"},
		// The reset alone does not reset a recogniser that has just ended an utterance by itself.
		{"vosk", `reset: {send: '{"reset" : 1}', until: {count: 1}}`},
		{"vosk", `reset: {send: [{zeros: 640}, '{"reset" : 1}'], until: {count: 2}}`},
		{"vosk", `sticky: none`},
		{"vosk", `reset: none, stateless: true, replace: none`},
		// Hot words that the reset does not overwrite.
		{"funasr", `reset: {send: '{"is_speaking": false, "is_end": true, "wav_name": "$token"}'}`},
		// An acknowledgement that looks like an answer to the client.
		{"funasr", `reset: {until: {json: {is_end: true}}}, answers: {text: never}`},
		{"funasr-realtime", "unsafe: blind"},
		{"funasr-realtime", `sticky: none`},
		{"funasr-realtime", `reset: {send: 'POSTPROCESS_HOTWORDS:|=>$token'}`},
		{"watson", `answers: {text: never}, sticky: none`},
		{"watson", `sticky: none`},
	} {
		t.Run(c.scene+" "+c.more, func(t *testing.T) {
			for _, s := range scenes {
				if s.name != c.scene {
					continue
				}
				p := s.profile(t, c.more)
				if p.Reuse == OneShot {
					t.Fatal(p.Reason)
				}
				for seed := range uint64(20) {
					if w := s.run(p, nasty{}, seed, 20_000); w.wrong != "" {
						return
					}
				}
				t.Error("nothing was found")
			}
		})
	}
}
