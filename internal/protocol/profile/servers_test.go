package profile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// nasty says how a simulated server misbehaves.
type nasty struct {
	ignoresReset bool // sometimes
	dies         bool // stops sending at some point, with the connection open
	overtakes    bool // the acknowledgement may overtake results
	late         bool // results of a task may come after its end
}

// say returns a text message that names the sessions that caused it.
func say(fields map[string]any, from []int) said {
	if from != nil {
		fields["from"] = slices.Compact(slices.Sorted(slices.Values(from)))
	}
	b, _ := json.Marshal(fields)
	return said{op: frame.Text, payload: string(b)}
}

// speaker returns the session whose audio a message is, or 0.
func speaker(payload string) (id int) {
	fmt.Sscanf(payload, "audio of %d,", &id)
	return id
}

// audio is some of a session's audio.
func audio(c chooser, v *visit) said {
	v.spoken++
	return said{op: frame.Binary, payload: fmt.Sprintf("audio of %d, %d.", v.id, v.spoken) + strings.Repeat("~", c(40))}
}

func text(s string) said { return said{op: frame.Text, payload: s} }

// vosk is alphacep/vosk-server with the states of alphacep/vosk-api's recogniser.
type voskServer struct {
	c       chooser
	nasty   nasty
	config  string // in force for the next recogniser
	frozen  *string
	words   []int // whose audio is in the utterance under way
	rest    []int // whose audio is in the pipeline, not decoded yet
	running bool
	silent  bool
}

func (s *voskServer) hear(op frame.Opcode, payload string) []said {
	if s.silent = s.silent || s.nasty.dies && s.c.chance(1); s.silent {
		return nil
	}
	if op == frame.Text && strings.Contains(payload, "config") {
		s.config = payload
		return nil
	}
	if s.frozen == nil {
		frozen := s.config
		s.frozen = &frozen
	}
	switch {
	case op == frame.Binary:
		begins := !s.running
		if begins { // what was not decoded of the last utterance begins the next
			s.words, s.running = s.rest, true
		}
		if id := speaker(payload); id != 0 {
			s.words = append(s.words, id)
			s.rest = []int{id}
		}
		silence := speaker(payload) == 0
		if !(silence && begins) && s.c.chance(20) { // the utterance has ended by itself
			s.running = false
			return []said{s.answer("text")}
		}
		return []said{s.answer("partial")}
	case payload == `{"eof" : 1}`:
		return []said{s.final(), {close: 1000}}
	case payload == `{"reset" : 1}`:
		if s.nasty.ignoresReset && s.c.chance(10) {
			return nil
		}
		return []said{s.final()}
	}
	return []said{{close: 1011}}
}

func (s *voskServer) answer(kind string) said {
	return say(map[string]any{kind: "...", "params": *s.frozen}, s.words)
}

func (s *voskServer) final() said {
	if !s.running {
		return say(map[string]any{"text": "", "params": *s.frozen}, nil)
	}
	a := s.answer("text")
	s.words, s.rest, s.running = nil, nil, false
	return a
}

func voskClient(c chooser, v *visit) (list []said) {
	configs := []string{"", "", `{"config" : {"sample_rate" : 8000}}`, `{"config" : {"phrase_list" : ["x"]}}`}
	if c.chance(70) { // most clients of a service do the same
		configs = configs[:3]
	}
	if v.first = configs[c(len(configs))]; v.first != "" {
		list = append(list, text(v.first))
	}
	for range c(6) {
		list = append(list, audio(c, v))
		if c.chance(3) {
			list = append(list, text(`{"reset" : 1}`))
		}
		if c.chance(2) {
			list = append(list, text(`{"config" : {"phrase_list" : ["late"]}}`))
		}
	}
	if c.chance(70) {
		list = append(list, text(`{"eof" : 1}`))
		if c.chance(10) {
			list = append(list, audio(c, v))
		}
	}
	return list
}

// echoServer answers each message with itself.
type echoServer struct {
	c     chooser
	nasty nasty
}

func (s *echoServer) hear(_ frame.Opcode, payload string) []said {
	if id := speaker(payload); id != 0 {
		return []said{say(map[string]any{}, []int{id})}
	}
	return []said{text("?")}
}

func echoClient(c chooser, v *visit) (list []said) {
	for range c(6) {
		list = append(list, audio(c, v))
	}
	return list
}

// funasrServer is FunASR's Python server without a punctuation model.
type funasrServer struct {
	c        chooser
	nasty    nasty
	buffered []int
	hotwords string
	name     string
	silent   bool
}

func (s *funasrServer) hear(op frame.Opcode, payload string) (list []said) {
	if s.silent = s.silent || s.nasty.dies && s.c.chance(1); s.silent {
		return nil
	}
	result := func() said {
		return say(map[string]any{"mode": "2pass-online", "wav_name": s.name, "params": s.hotwords}, s.buffered)
	}
	if op == frame.Binary {
		s.buffered = append(s.buffered, speaker(payload))
		for range s.c(3) {
			list = append(list, result())
		}
		return list
	}
	var m struct {
		Speaking *bool `json:"is_speaking"`
		End      bool  `json:"is_end"`
		Hotwords *string
		Name     string `json:"wav_name"`
	}
	if json.Unmarshal([]byte(payload), &m) != nil {
		return nil
	}
	if m.Name != "" {
		s.name = m.Name
	}
	if m.Hotwords != nil {
		s.hotwords = *m.Hotwords
	}
	if m.Speaking != nil && !*m.Speaking {
		if len(s.buffered) > 0 {
			list = append(list, result())
		}
		s.buffered = nil
		if m.End && !(s.nasty.ignoresReset && s.c.chance(10)) {
			list = append(list, say(map[string]any{"is_end": true, "wav_name": s.name}, nil))
		}
	}
	return list
}

func funasrClient(c chooser, v *visit) (list []said) {
	if c.chance(50) {
		v.first = fmt.Sprint("secret of ", v.id)
		list = append(list, text(fmt.Sprintf(`{"is_speaking":true,"hotwords":%q,"wav_name":"%d"}`, v.first, v.id)))
	} else {
		list = append(list, text(`{"is_speaking":true}`))
	}
	for range c(6) {
		list = append(list, audio(c, v))
		if c.chance(10) {
			list = append(list, text(`{"is_speaking":false}`))
		}
	}
	if c.chance(60) {
		list = append(list, text(`{"is_speaking":false,"is_end":true}`))
	}
	return list
}

// funasrRealtimeServer is FunASR's realtime server.
type funasrRealtimeServer struct {
	c        chooser
	nasty    nasty
	heard    []int
	hotwords string
	active   bool
	silent   bool
}

func (s *funasrRealtimeServer) hear(op frame.Opcode, payload string) []said {
	if s.silent = s.silent || s.nasty.dies && s.c.chance(1); s.silent {
		return nil
	}
	result := say(map[string]any{"sentences": 1, "params": s.hotwords}, s.heard)
	name, value, _ := strings.Cut(payload, ":")
	switch name = strings.ToUpper(name); {
	case op == frame.Binary && s.active:
		s.heard = append(s.heard, speaker(payload))
		if s.c.chance(50) {
			return []said{result}
		}
	case name == "START":
		s.heard, s.active = nil, true
		return []said{text(`{"event": "started"}`)}
	case name == "STOP":
		answers := []said{text(`{"event": "stopped"}`)}
		if s.active && len(s.heard) > 0 {
			answers = append([]said{result}, answers...)
		}
		s.active = false
		return answers
	case name == "HOTWORDS":
		s.hotwords = payload
		return []said{text(`{"event": "hotwords_set"}`)}
	case name == "POSTPROCESS_HOTWORDS" && !(s.nasty.ignoresReset && s.c.chance(10)):
		wrong, right, _ := strings.Cut(value, "=>")
		return []said{say(map[string]any{"event": "postprocess_hotwords_set", "postprocess_hotwords": map[string]string{wrong: right}}, nil)}
	}
	return nil
}

func funasrRealtimeClient(c chooser, v *visit) (list []said) {
	if c.chance(20) {
		v.first = []string{"HOTWORDS:a", "hotwords:b"}[c(2)]
		list = append(list, text(v.first))
	}
	if c.chance(95) {
		list = append(list, text("START"))
	}
	if c.chance(10) {
		v.later = []string{fmt.Sprint("HOTWORDS:", v.id)}
		list = append(list, text(v.later[0]))
	}
	for range c(6) {
		list = append(list, audio(c, v))
	}
	if c.chance(60) {
		list = append(list, text([]string{"STOP", "stop"}[c(2)]))
	}
	return list
}

// watsonServer is IBM Watson as documented.
type watsonServer struct {
	c      chooser
	nasty  nasty
	params string
	heard  []int
	active bool
	silent bool
}

func (s *watsonServer) hear(op frame.Opcode, payload string) (list []said) {
	if s.silent = s.silent || s.nasty.dies && s.c.chance(1); s.silent {
		return nil
	}
	listening := text(`{"state": "listening"}`)
	result := func() said { return say(map[string]any{"results": 1, "params": s.params}, s.heard) }
	switch {
	case op == frame.Text && strings.Contains(payload, "start"):
		s.params, s.active = payload, true
		return []said{listening}
	case op == frame.Text && strings.Contains(payload, "stop"), // less strict than the matchers
		op == frame.Binary && payload == "":
		if s.nasty.ignoresReset && s.c.chance(10) {
			return nil
		}
		for range s.c(3) {
			r := result()
			r.late = s.nasty.overtakes
			list = append(list, r)
		}
		s.heard = nil
		return append(list, listening)
	case op == frame.Binary:
		s.heard = append(s.heard, speaker(payload))
		for range s.c(2) {
			list = append(list, result())
		}
	}
	return list
}

func watsonClient(c chooser, v *visit) (list []said) {
	v.first = `{"action": "start", "keywords": ["a"]}`
	if c.chance(10) {
		v.first = `{"action": "start", "keywords": ["b"]}`
	}
	if c.chance(5) {
		v.first = ""
	} else {
		list = append(list, text(v.first))
	}
	for range 1 + c(3) {
		for range c(4) {
			list = append(list, audio(c, v))
		}
		if c.chance(80) {
			list = append(list, []said{text(`{"action": "stop"}`), {op: frame.Binary}}[c(2)])
		}
		if c.chance(3) {
			v.later = []string{`{"action": "start", "keywords": ["c"]}`}
			list = append(list, text([]string{v.later[0], `{"action": "stop", "n": NaN}`, `{"action": 1, "action": "stop"}`, `{"action": "stop"}` + strings.Repeat(" ", 1<<16)}[c(4)]))
		}
	}
	return list
}

// dashscopeServer is DashScope as documented.
type dashscopeServer struct {
	c     chooser
	nasty nasty
	task  string
	heard []int
}

func (s *dashscopeServer) hear(op frame.Opcode, payload string) (list []said) {
	event := func(name string, from []int) said {
		return say(map[string]any{"header": map[string]any{"event": name, "task_id": s.task}}, from)
	}
	if op == frame.Binary {
		s.heard = append(s.heard, speaker(payload))
		for range s.c(2) {
			list = append(list, event("result-generated", s.heard))
		}
		return list
	}
	var m struct {
		Header struct {
			Action string
			Task   string `json:"task_id"`
		}
	}
	if json.Unmarshal([]byte(payload), &m) != nil {
		return nil
	}
	switch m.Header.Action {
	case "run-task":
		s.task, s.heard = m.Header.Task, nil
		return []said{event("task-started", nil)}
	case "finish-task":
		if s.c.chance(3) {
			return []said{event("task-failed", nil), {close: 1000}}
		}
		last := event("result-generated", s.heard)
		last.late = s.nasty.late
		return []said{last, event("task-finished", nil)}
	}
	return nil
}

func dashscopeClient(c chooser, v *visit) (list []said) {
	for k := range 1 + c(2) {
		id := fmt.Sprintf("%d-%d", v.id, k)
		if c.chance(10) {
			id = "always the same"
		}
		list = append(list, text(fmt.Sprintf(`{"header":{"action":"run-task","task_id":%q}}`, id)))
		for range c(4) {
			list = append(list, audio(c, v))
		}
		if c.chance(80) {
			list = append(list, text(fmt.Sprintf(`{"header":{"action":"finish-task","task_id":%q}}`, id)))
		}
	}
	return list
}

// sherpaServer is sherpa-onnx's online server in C++.
type sherpaServer struct {
	c     chooser
	nasty nasty
	heard []int
}

func (s *sherpaServer) hear(op frame.Opcode, payload string) (list []said) {
	if op == frame.Binary {
		s.heard = append(s.heard, speaker(payload))
		if s.c.chance(50) {
			list = append(list, say(map[string]any{"text": "..."}, s.heard))
		}
		return list
	}
	if payload != "Done" || s.nasty.ignoresReset && s.c.chance(10) {
		return nil
	}
	if len(s.heard) > 0 {
		last := say(map[string]any{"text": "...", "is_eof": true}, s.heard)
		last.late = s.nasty.overtakes
		list = append(list, last)
	}
	s.heard = nil
	return append(list, text("Done!"))
}

func sherpaClient(c chooser, v *visit) (list []said) {
	for range c(6) {
		list = append(list, audio(c, v))
	}
	if c.chance(60) {
		list = append(list, text("Done"))
	}
	return list
}

// aliveServer greets, keeps its session by keepalive messages, and answers each message with one.
type aliveServer struct {
	echoServer
}

func (s *aliveServer) greet() []said { return []said{text("one moment"), text("hello")} }

func (s *aliveServer) hear(op frame.Opcode, payload string) []said {
	switch payload {
	case "hi":
		return nil
	case "alive?":
		return []said{text("alive!")}
	}
	return s.echoServer.hear(op, payload)
}

// whisperServer is WhisperLive; it is full now and then.
type whisperServer struct {
	c     chooser
	ready bool
}

func (s *whisperServer) hear(op frame.Opcode, payload string) []said {
	switch {
	case !s.ready && s.c.chance(30):
		return []said{text(`{"uid": "x", "status": "WAIT", "message": 3}`), {close: 1000}}
	case !s.ready:
		s.ready = true
		return []said{text(`{"uid": "x", "message": "SERVER_READY"}`)}
	case payload == "END_OF_AUDIO":
		return []said{{close: 1000}}
	}
	return []said{say(map[string]any{"segments": 1}, []int{speaker(payload)})}
}

func whisperClient(c chooser, v *visit) (list []said) {
	list = append(list, text(`{"uid": "x"}`))
	for range c(6) {
		list = append(list, audio(c, v))
	}
	return append(list, said{op: frame.Binary, payload: "END_OF_AUDIO"})
}
