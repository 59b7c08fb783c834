package failoverproof

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// deepgram returns a result of Deepgram's about chunks of session 9.
func deepgram(first, last int, start, end float64, final bool) string {
	return fmt.Sprintf(`{"type":"Results","start":%g,"duration":%g,"is_final":%t,"channel":{"alternatives":[{"transcript":"s9:%d-%d","words":[]}]}}`,
		start, end-start, final, first, last)
}

// dashScope returns one of DashScope's.
func dashScope(id, first, last int) string {
	return fmt.Sprintf(`{"payload":{"output":{"sentence":{"sentence_id":%d,"begin_time":%d,"end_time":%d,"text":"s9:%d-%d","sentence_end":true}}}}`,
		id, (first-1)*100, last*100, first, last)
}

// turn returns one of AssemblyAI's.
func turn(number, first, last, start, end int) string {
	return fmt.Sprintf(`{"type":"Turn","turn_order":%d,"end_of_turn":true,"transcript":"s9:%d-%d","words":[{"start":%d,"end":%d}]}`, number, first, last,
		start, end)
}

// What a client must not see is counted, and what it may see is not.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name, protocol string
		messages       []string
		chunks         int
		want           Faults
	}{
		{"all well", sim.Deepgram, []string{
			deepgram(1, 2, 0, 0.2, false), deepgram(1, 3, 0, 0.3, true), deepgram(4, 4, 0.3, 0.33, false), deepgram(4, 5, 0.3, 0.5, true),
		}, 5, Faults{}},
		{"cut inside a chunk", sim.Deepgram, []string{
			deepgram(1, 3, 0, 0.25, true), deepgram(3, 4, 0.25, 0.33, false), deepgram(3, 5, 0.25, 0.5, true),
		}, 5, Faults{}},
		{"lost", sim.Deepgram, []string{deepgram(1, 2, 0, 0.2, true), deepgram(5, 6, 0.4, 0.6, true)}, 6, Faults{Lost: 2, WrongTimes: 1}},
		{"lost at the beginning", sim.Deepgram, []string{deepgram(2, 2, 0.1, 0.2, true)}, 2, Faults{Lost: 1, WrongTimes: 1}},
		{"lost at the end", sim.Deepgram, []string{deepgram(1, 2, 0, 0.2, true), deepgram(3, 4, 0.2, 0.4, false)}, 4, Faults{Lost: 2}},
		{"twice", sim.Deepgram, []string{deepgram(1, 3, 0, 0.3, true), deepgram(1, 3, 0, 0.3, true)}, 3, Faults{Twice: 3, WrongTimes: 1}},
		{"twice, the border", sim.Deepgram, []string{deepgram(1, 3, 0, 0.3, true), deepgram(3, 4, 0.3, 0.4, true)}, 4, Faults{Twice: 1}},
		{"a part lost", sim.Deepgram, []string{deepgram(1, 3, 0, 0.3, true), deepgram(4, 6, 0.34, 0.6, true)}, 6, Faults{WrongTimes: 1}},
		{"returned", sim.Deepgram, []string{deepgram(1, 3, 0, 0.3, true), deepgram(2, 3, 0.1, 0.3, false)}, 3, Faults{Returned: 1}},
		{"times from zero", sim.Deepgram, []string{deepgram(1, 3, 0, 0.3, true), deepgram(4, 6, 0, 0.3, true)}, 6, Faults{WrongTimes: 2}},
		{"times beside", sim.Deepgram, []string{deepgram(1, 3, 0.15, 0.45, true)}, 3, Faults{WrongTimes: 2}},
		{"foreign", sim.Deepgram, []string{deepgram(1, 2, 0, 0.2, true), `{"transcript": "s8:1"}`}, 2, Faults{Foreign: 1}},
		{"numbers", sim.DashScope, []string{dashScope(1, 1, 2), dashScope(2, 3, 4), dashScope(1, 5, 6)}, 6, Faults{WrongNumbers: 1, Greetings: 1}},
		{"a second greeting", sim.AssemblyAI, []string{
			`{"type":"Begin"}`, `{"type":"Turn","turn_order":0,"end_of_turn":true,"transcript":"s9:1","words":[{"start":0,"end":100}]}`, `{"type":"Begin"}`,
		}, 1, Faults{Greetings: 1}},
		{"replies", sim.Vosk, []string{
			`{"text": "s9:1", "result": [{"word": "s9:1", "start": 0, "end": 0.1}]}`, `{"text": ""}`, `{"text": ""}`,
		}, 1, Faults{Replies: 1}},
		{"gaps", sim.Vosk, []string{`{"text": "s9:1 s9:3"}`, `{"text": ""}`}, 3, Faults{Lost: 1}},
		{"an edge twice where that may be", sim.FunASR, []string{
			`{"mode": "2pass-offline", "text": "s9:1-5"}`, `{"mode": "2pass-offline", "text": "s9:4-8"}`,
		}, 8, Faults{}},
		{"a message again where servers change", sim.AssemblyAI, []string{
			`{"type":"Begin"}`, turn(0, 1, 5, 0, 500), turn(1, 4, 4, 347, 401), turn(2, 5, 8, 401, 800),
		}, 8, Faults{}},
		{"too much again", sim.AssemblyAI, []string{`{"type":"Begin"}`, turn(0, 1, 5, 0, 500), turn(1, 2, 8, 100, 800)}, 8, Faults{Twice: 4, WrongTimes: 1}},
		{"again at a wrong time", sim.AssemblyAI, []string{`{"type":"Begin"}`, turn(0, 1, 5, 0, 500), turn(1, 4, 8, 0, 800)}, 8, Faults{WrongTimes: 2}},
		{"listed again", sim.WhisperLiveKit, []string{
			`{"type":"config"}`,
			`{"lines": [{"text": "s9:1-2", "start": "0:00:00.00", "end": "0:00:00.20"}]}`,
			`{"lines": [{"text": "s9:1-2", "start": "0:00:00.00", "end": "0:00:00.20"}, {"text": "s9:3", "start": "0:00:00.20", "end": "0:00:00.30"}]}`,
		}, 3, Faults{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := protocolNamed(test.protocol)
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			j := newJudge(9, p, func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) })
			for _, m := range test.messages {
				j.message(hunt.Message{Opcode: frame.Text, Payload: []byte(m)}, false)
			}
			j.over(test.chunks, 1)
			if j.faults != test.want {
				t.Errorf("got %+v; want %+v\n%s", j.faults, test.want, strings.Join(notes, "\n"))
			}
		})
	}
}

// A proof in which too little happened fails as well.
func TestReportFails(t *testing.T) {
	for want, change := range map[string]func(r *Report){
		"":                                    func(*Report) {},
		"lost 1":                              func(r *Report) { r.Faults[Lost]++ },
		"failed: an exception: 1":             func(r *Report) { r.Failed = map[string]int{"an exception": 1} },
		"refused 1":                           func(r *Report) { r.Returns.refused++ },
		"no final result came":                func(r *Report) { r.Finals = 0 },
		"none of 4 events happened":           func(r *Report) { r.Events = nil },
		"only 0 of 40 cuts were made":         func(r *Report) { r.Cuts, r.Returns.times = nil, nil },
		"only 9 of 40 cuts were made":         func(r *Report) { r.Cuts = map[Cut]int{Reset: 4, End: 5} },
		"no client came back, so nothing was": func(r *Report) { r.Returns.times = nil },
		"none of the sessions moved that 2 orders were about (": func(r *Report) {
			r.Events[Move], r.Ordered = 2, map[string]int{"not_moved: no place": 7, api.MoveEnded: 1}
		},
		"none of the sessions moved that 3 orders": func(r *Report) { r.Events, r.Ordered = map[Kind]int{Move: 3}, nil },
	} {
		r := Report{Protocol: "vosk", Finals: 1, Events: map[Kind]int{Kill: 1}, Cuts: map[Cut]int{Reset: 10}, AskedEvents: 4, AskedCuts: 40}
		r.Returns.times = map[Cut][]time.Duration{Reset: {time.Second}}
		change(&r)
		if err := r.Err(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q; got %v", want, err)
		}
	}
	for name, r := range map[string]Report{
		"nothing was to happen": {Finals: 1},
		"some were refused":     {Finals: 1, Events: map[Kind]int{Move: 1}, Ordered: map[string]int{"not_moved: no place": 7, api.MoveDone: 1}},
		"a server had none":     {Finals: 1, Events: map[Kind]int{Move: 1, Kill: 2}, Ordered: map[string]int{api.MoveEnded: 1}},
	} {
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session's audio has each chunk, whole and in order, and messages of lengths that the protocol allows.
func TestSpeech(t *testing.T) {
	for _, name := range Protocols() {
		p, err := protocolNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		s := newSpeech(9, p, rand.New(rand.NewPCG(1, 2)), 60, 0)
		var all []byte
		pauses := 0
		for {
			audio, pause := s.next()
			if len(audio) == 0 {
				break
			}
			if length := len(audio) * 1000 / p.perSecond; length < int(p.least/time.Millisecond) || length > int((p.most+p.least)/time.Millisecond)+1 {
				if !p.commits {
					t.Errorf("%s: a message of %d ms", name, length)
				}
			}
			all = append(all, audio...)
			if pause {
				pauses++
				if m := all[len(all)-sim.MarkSize:]; m[6] != 1 {
					t.Errorf("%s: a pause behind a mark without one", name)
				}
			}
		}
		next, paused := uint16(1), 0
		sim.Marks(all, func(m sim.Mark) {
			if m.Seq != next && m.Seq != next-1 || m.Session != 9 {
				t.Fatalf("%s: mark %+v behind chunk %d", name, m, next-1)
			}
			next = m.Seq + 1
			if m.Pause {
				paused++
			}
		})
		if want := s.bytes(p.chunk) * 60; next != 61 || len(all) != want || paused < 3 || s.spoken() != 60*p.chunk {
			t.Errorf("%s: %d chunks, %d bytes of %d, %d pauses, %v", name, next-1, len(all), want, paused, s.spoken())
		}
		if p.commits && pauses != paused {
			t.Errorf("%s: told of %d pauses of %d", name, pauses, paused)
		}
		if bytes.Contains(all, make([]byte, sim.MarkSize)) {
			t.Errorf("%s: audio without marks", name)
		}
	}
}
