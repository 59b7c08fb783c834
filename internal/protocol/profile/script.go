package profile

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Script is what a client of the protocol says, so that the proxy can play a client: for the canary, and for profile verify. It is
// immutable.
type Script struct {
	// Query is added to the query of the server's URL; empty for nothing.
	Query string
	// Start holds the messages that begin a session, Settings those that begin one with settings that no other session may inherit (nil for
	// none), Follow those that follow the first message of audio, and End those that end the audio. They may contain a token and ModelMark.
	Start, Settings, Follow, End []Message
	// Envelope is the text message around audio, which AudioMark stands for, in base64, or around a piece of text to be spoken, which TextMark
	// stands for. If it is empty, the message is binary: the audio itself or, with MessagePack, a map with the samples as an array of this name.
	Envelope, MessagePack string
	// Header is a text before binary audio, with its length in four bytes, the least first. ChunkMark stands for the number of the message of
	// audio, from 0, and FramesMark for its samples. Empty for none.
	Header string
	// Encoding (S16LE or F32LE), Rate (samples a second) and Chunk (how much is in a message) describe the audio, which has one channel.
	Encoding Encoding
	Rate     int
	Chunk    time.Duration
	// Pause is how long the client waits between its audio and its end messages, for servers that drop what they have not answered then.
	Pause time.Duration
	// Silence is how much silence follows the end messages at most, until the last result has come.
	Silence time.Duration
	// Texts are the paths to the texts in results. [] stands for all items of a list.
	Texts []string

	declared            bool
	ready, last, failed []matcher
	answers             *matchSet
	texts               []*pathSet // by index in Texts
}

// AudioMark stands for the audio in [Script.Envelope].
const AudioMark = "$audio"

// ChunkMark and FramesMark stand for the number of a message of audio and its samples in [Script.Header].
const (
	ChunkMark  = "$chunk"
	FramesMark = "$frames"
)

// TextMark stands for a piece of text in [Script.Envelope], for servers that speak.
const TextMark = "$text"

// TakesText reports whether the servers get text and speak it.
func (s *Script) TakesText() bool { return strings.Contains(s.Envelope, TextMark) }

// ModelMark stands for the name of the model in what a client says, and in [Script.Query].
const ModelMark = "$model"

// NamesModel reports whether a client has to name a model.
func (s *Script) NamesModel() bool {
	named := func(m Message) bool { return !m.Binary && strings.Contains(m.payload, ModelMark) }
	return strings.Contains(s.Query, ModelMark) || slices.ContainsFunc(slices.Concat(s.Start, s.Settings, s.Follow, s.End), named)
}

// Script returns what the profile says about its clients, or nil if it says nothing.
func (p *Profile) Script() *Script {
	if !p.spec.script.declared {
		return nil
	}
	return &p.spec.script
}

// AwaitsReady reports whether audio waits for a message of the server, and IsReady whether this is that message.
func (s *Script) AwaitsReady() bool { return len(s.ready) > 0 }

// IsReady reports whether audio waits for this message of the server.
func (s *Script) IsReady(op frame.Opcode, payload []byte, token uint64) bool {
	return s.answers.match(op, payload, token).class&isReady != 0
}

// HasFailed reports whether the server says by this message that the session has failed.
func (s *Script) HasFailed(op frame.Opcode, payload []byte, token uint64) bool {
	return s.answers.match(op, payload, token).class&isFailed != 0
}

// HasLast reports whether the profile says which message of the server is a session's last. If not, the session ends with the server's
// close or, where each message gets one answer, with the last answer.
func (s *Script) HasLast() bool { return len(s.last) > 0 }

// IsLast reports whether this message of the server, after the client's end, is the session's last.
func (s *Script) IsLast(op frame.Opcode, payload []byte, token uint64) bool {
	return s.answers.match(op, payload, token).class&isUntil != 0
}

// TextsIn returns the texts that a message of the server has at Texts, in the order of the paths, empty ones included.
func (s *Script) TextsIn(op frame.Opcode, payload []byte) (texts []string) {
	read := collect
	if op == frame.Binary {
		read = collectPacked
	}
	for _, set := range s.texts {
		hits, ok := read(nil, payload, set, 1)
		for _, h := range hits {
			if ok && h.kind == hitText {
				texts = append(texts, unescaped(payload[h.from:h.to], h.escaped))
			}
		}
	}
	return texts
}

// Claims are what a profile says about its servers that can be tried.
type Claims struct {
	Greeting bool // there is a greeting
	Ready    bool // the server says when it is ready
	Busy     bool // a full server can be told
	End      bool // the client's end is known, and so is what the server does then
	Early    bool // a connection whose client left early is reset, not closed
	Settle   time.Duration
}

// Claims returns which of its claims can be tried.
func (p *Profile) Claims() Claims {
	s := p.spec
	return Claims{
		Greeting: len(s.greeting) > 0, Ready: len(s.ready) > 0, Busy: len(s.busy) > 0, End: len(s.end.client) > 0, Early: s.early == EarlyReset, Settle: s.reset.settle,
	}
}

// SaysGreeting reports whether this message of a server ends its greeting, and SaysReady whether the server says by it that it is ready.
func (p *Profile) SaysGreeting(op frame.Opcode, payload []byte) bool {
	return p.program.fromServer.match(op, payload, 0).class&isGreeting != 0
}

// SaysReady reports whether the server says by this message that it is ready for more than the client's first message.
func (p *Profile) SaysReady(op frame.Opcode, payload []byte) bool {
	return p.program.fromServer.match(op, payload, 0).class&isReady != 0
}

// Unanswered reports whether this message of a client gets no reply, on a server that replies to each message.
func (p *Profile) Unanswered(op frame.Opcode, payload []byte) bool {
	return p.program.fromClient.match(op, payload, 0).class&isUnanswered != 0
}

// ByUtterance reports whether final results answer what was sent some time before, since they have no times.
func (f *Failover) ByUtterance() bool {
	return slices.ContainsFunc(f.answered, func(a answerSpec) bool { return a.by == MeansUtterance })
}

// WholeState reports whether each result has all results so far, so that only the last one counts.
func (f *Failover) WholeState() bool { return len(f.prepend.path) > 0 }

// Trusting returns the profile with the doubts accepted that keep its way of reuse from being in force, so that it can be tried.
func (p *Profile) Trusting() *Profile {
	if p.Reuse == p.Declared {
		return p
	}
	s := *p.spec
	s.unsafe |= acceptDoubt | acceptQuiet
	trusting := *p
	trusting.spec = &s
	trusting.Reuse, trusting.Reason = s.effective()
	trusting.program = newProgram(&s, trusting.Reuse)
	trusting.program.tracker = p.program.tracker
	return &trusting
}

// SaysFull reports whether a server says by this message that it is full.
func (p *Profile) SaysFull(op frame.Opcode, payload []byte) bool {
	return p.program.fromServer.match(op, payload, 0).class&isBusy != 0
}

// ClosesFull reports whether a server says by this close code that it is full.
func (p *Profile) ClosesFull(code frame.CloseCode) bool {
	return inRanges(uint16(code), p.program.busyClose)
}

func newScript() Script {
	return Script{Encoding: S16LE, Rate: 16000, Chunk: 100 * time.Millisecond}
}

// compile prepares the matchers.
func (s *Script) compile() {
	s.answers = newMatchSet(maxMessage, nil, use{s.ready, isReady}, use{s.last, isUntil}, use{s.failed, isFailed})
	s.texts = nil
	for _, text := range s.Texts {
		path, _ := parseItemsPath(text) // checked when it was read
		s.texts = append(s.texts, newPathSet(path))
	}
}

// scriptAt is for what a profile says about its clients.
func scriptAt(to *Script) value {
	v := sectionAt(to, newScript(), (*Script).fields)
	read, print := v.read, v.print
	v.read = func(r *reader, path string, n *strictyaml.Node) {
		to.declared = true
		read(r, path, n)
	}
	v.print = func() *yaml.Node {
		if n := print(); n != nil || !to.declared {
			return n
		}
		return emptyYAML()
	}
	return v
}

func (s *Script) fields() []field {
	briefly := func(d *time.Duration) value {
		return durationAt(d).check(func(r *reader, n *strictyaml.Node) {
			if *d > time.Minute {
				r.problem(placeOf(n), "%s is out of range: use a duration from 0 to 1m", n.Value)
			}
		})
	}
	return []field{
		{"query", textAt(&s.Query).orNone().check(func(r *reader, n *strictyaml.Node) {
			if strings.ContainsAny(s.Query, " #?") {
				r.problem(placeOf(n), "invalid query %q: use name=value, joined by &, percent-encoded and without the question mark", s.Query)
			}
		})},
		{"start", messagesAt(&s.Start)},
		{"settings", messagesAt(&s.Settings)},
		{"ready", matchersAt(&s.ready)},
		{"audio", textAt(&s.Envelope).orNone().check(func(r *reader, n *strictyaml.Node) {
			if !isNone(n) && strings.Count(s.Envelope, AudioMark)+strings.Count(s.Envelope, TextMark) != 1 {
				r.problem(placeOf(n), "invalid message %q: use a text that contains %s once, which stands for the audio in base64, or %s for text to be spoken, or none for audio in binary messages", s.Envelope, AudioMark, TextMark)
			}
		})},
		{"messagepack", textAt(&s.MessagePack).orNone()},
		{"header", textAt(&s.Header).orNone()},
		{"encoding", bind(&s.Encoding, func(r *reader, n *strictyaml.Node) (Encoding, bool) {
			i, ok := r.word(n, encodingNames[S16LE], encodingNames[F32LE])
			return S16LE + Encoding(i), ok
		}, func(e Encoding) *yaml.Node { return word(e.String()) })},
		{"rate", numberAt(&s.Rate, 1000, 192000)},
		{"chunk", durationAt(&s.Chunk).check(func(r *reader, n *strictyaml.Node) {
			if s.Chunk < 10*time.Millisecond || s.Chunk > 5*time.Second {
				r.problem(placeOf(n), "%s is out of range: use a duration from 10ms to 5s", n.Value)
			}
		})},
		{"follow", messagesAt(&s.Follow)},
		{"pause", briefly(&s.Pause)},
		{"end", messagesAt(&s.End)},
		{"silence", briefly(&s.Silence)},
		{"last", matchersAt(&s.last)},
		{"failed", matchersAt(&s.failed)},
		{"text", bind(&s.Texts, (*reader).texts, func(texts []string) *yaml.Node { return oneOrList(quoteEach(texts)) })},
	}
}

// texts reads the paths to the texts in results.
func (r *reader) texts(n *strictyaml.Node) (texts []string, ok bool) {
	if isNone(n) {
		return nil, true
	}
	for _, item := range items(n) {
		text, ok := r.text(item)
		if !ok {
			continue
		}
		if _, err := parseItemsPath(text); err != nil {
			r.problem(placeOf(item), "invalid path %q: use keys with dots between them, and [] for all items of a list, such as segments[].text", text)
			continue
		}
		texts = append(texts, text)
	}
	return texts, true
}

// checkScript finds what does not fit together in what the profile says about its clients.
func (r *reader) checkScript(s *spec) {
	c := &s.script
	if !c.declared {
		return
	}
	if c.Envelope != "" && c.MessagePack != "" {
		r.problem(s.place("client.messagepack", "client.audio"), "audio is in a text message by client.audio, and in a MessagePack map by client.messagepack: set one of them to none")
	}
	if c.Header != "" && c.Envelope+c.MessagePack != "" {
		r.problem(s.place("client.header", "client.audio", "client.messagepack"), "client.header stands before audio in binary messages: set it, or client.audio and client.messagepack, to none")
	}
	if c.MessagePack != "" && c.Encoding != F32LE {
		r.problem(s.place("client.messagepack", "client.encoding"), "client.messagepack sends 32-bit floats: set client.encoding to f32le")
	}
}
