package profile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// takeover is one session with servers that die, and with a caller of its [Tracker] that does what the real proxy does. Each sample of the
// audio is its own number, so that servers can say exactly what they have heard. Every step of every party is an action that the test
// chooses.
type takeover struct {
	scene   *takeoverScene
	chooser chooser
	tracker *Tracker
	shift   Position // by which the caller begins wrongly after a move; 0 is right

	// The client.
	samples  int // sent so far
	messages int // sent so far that get a reply
	over     bool
	got      []result
	replies  int

	// The caller.
	entries  []Entry
	payloads [][]byte
	ops      []frame.Opcode
	cursor   int
	furthest int // entries that servers have been sent
	from     Position
	resume   bool // the first entry is cut
	deaths   int

	server hearer
	inbox  [][]byte
	outbox [][]byte

	wrong string
}

// hearer is a server, after what it has been sent was decoded: nil samples and end for the client's end message.
type hearer interface {
	hear(samples []int, end bool) (results []result)
}

// result is what a server says, and what a client understands.
type result struct {
	Final    bool    `json:"final"`
	Last     bool    `json:"last,omitempty"`
	N        int     `json:"n"`
	Start    float64 `json:"start"`
	Duration float64 `json:"duration"`
	From     int     `json:"from"` // samples, by their numbers
	To       int     `json:"to"`
}

type takeoverScene struct {
	name   string
	yaml   string
	encode func(samples []int) (frame.Opcode, []byte)
	decode func(payload []byte) []int
	server func(c chooser) hearer
	slack  int // samples by which the times that servers write are wrong
	counts bool
	places int // decimals of times
}

const sampleRate = 16000

// step does one action.
func (w *takeover) step() {
	switch c := w.chooser(20); {
	case c < 5:
		w.clientSends()
	case c < 10:
		w.send()
	case c < 14:
		w.hear()
	case c < 19:
		w.deliver()
	case w.chooser.chance(30):
		w.die()
	}
}

// begin begins the session.
func (w *takeover) begin(p *Profile) {
	w.tracker = NewTracker(p, "")
	w.server = w.scene.server(w.chooser)
	w.tracker.Begin(Leg{})
}

// clientSends lets the client send audio.
func (w *takeover) clientSends() {
	if w.over {
		return
	}
	samples := make([]int, 1+w.chooser(400))
	for i := range samples {
		samples[i] = w.samples + i
	}
	w.samples += len(samples)
	op, payload := w.scene.encode(samples)
	w.come(op, payload)
}

// clientEnds lets it send its end message.
func (w *takeover) clientEnds() {
	if !w.over {
		w.over = true
		w.come(frame.Text, []byte("end"))
	}
}

func (w *takeover) come(op frame.Opcode, payload []byte) {
	var b []byte
	if w.tracker.NeedsPayload(op, len(payload)) {
		b = payload
	}
	e := w.tracker.ClientMessage(op, b, len(payload))
	w.entries, w.payloads, w.ops = append(w.entries, e), append(w.payloads, payload), append(w.ops, op)
	w.messages++
	if got, want := w.tracker.Received(), Position(w.samples*w.sampleSize()); got != want {
		w.wrong = fmt.Sprintf("received: %d, want %d", got, want)
	}
}

func (w *takeover) sampleSize() int { return w.tracker.program.Failover.audio.size() }

// size is the bytes of a sample, as positions count.
func (a *audioSpec) size() int { return encodingOf(a.encoding.value).SampleSize() }

// send sends the server the next message.
func (w *takeover) send() {
	for w.cursor < len(w.entries) && !w.tracker.Resend(w.entries[w.cursor]) {
		w.cursor++
	}
	if w.cursor == len(w.entries) {
		return
	}
	e, payload := w.entries[w.cursor], w.payloads[w.cursor]
	if w.resume && e.Kind == EntryAudio {
		w.resume = false
		if e.From < w.from {
			cut, ok := w.tracker.Cut(nil, e, payload, w.from)
			if !ok {
				w.wrong = fmt.Sprintf("%q cannot be cut", payload)
				return
			}
			payload = cut
		}
	}
	w.inbox = append(w.inbox, payload)
	w.tracker.Sent(e)
	w.cursor++
	if w.furthest = max(w.furthest, w.cursor); w.furthest == w.cursor {
		w.tracker.CaughtUp()
	}
}

// hear lets the server hear a message.
func (w *takeover) hear() {
	if len(w.inbox) == 0 {
		return
	}
	payload := w.inbox[0]
	w.inbox = w.inbox[1:]
	var results []result
	if string(payload) == "end" {
		results = w.server.hear(nil, true)
	} else {
		results = w.server.hear(w.scene.decode(payload), false)
	}
	for _, r := range results {
		w.outbox = append(w.outbox, fmt.Appendf(nil, `{"final":%v,"last":%v,"n":%d,"start":%.*f,"duration":%.*f,"from":%d,"to":%d}`,
			r.Final, r.Last, r.N, w.scene.places, r.Start, w.scene.places, r.Duration, r.From, r.To))
	}
}

// deliver takes a result to the client, which checks it.
func (w *takeover) deliver() {
	if len(w.outbox) == 0 {
		return
	}
	message := w.outbox[0]
	w.outbox = w.outbox[1:]
	j := w.tracker.ServerMessage(frame.Text, message)
	if !j.Pass {
		return
	}
	var r result
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		w.wrong = fmt.Sprintf("%s became %s: %v", message, j.Payload, err)
		return
	}
	w.replies++
	w.check(r)
}

func (w *takeover) check(r result) {
	var last result
	for i := len(w.got) - 1; i >= 0; i-- {
		if w.got[i].Final {
			last = w.got[i]
			last.N++
			break
		}
	}
	slack := w.scene.slack
	complain := func(format string, args ...any) {
		if w.wrong == "" {
			w.wrong = fmt.Sprintf("%+v after %+v: ", r, last) + fmt.Sprintf(format, args...)
		}
	}
	switch empty := r.From == r.To; {
	case r.N != last.N:
		complain("its number should be %d", last.N)
	case empty:
	case r.From > last.To+slack:
		complain("samples are lost")
	case r.From < last.To-slack:
		complain("samples are repeated")
	case math.Abs(r.Start-float64(r.From)/sampleRate) > (float64(slack)+0.02)/sampleRate:
		complain("it should start at %f", float64(r.From)/sampleRate)
	}
	if w.scene.counts && w.replies > w.messages+w.tracker.debt {
		complain("%d replies to %d messages, with %d in advance", w.replies, w.messages, w.tracker.debt)
	}
	w.got = append(w.got, r)
}

// die lets the server die, and another one take over.
func (w *takeover) die() {
	w.deaths++
	w.inbox, w.outbox = nil, nil
	w.server = w.scene.server(w.chooser)
	w.from = w.tracker.Answered()
	if w.from > 0 {
		w.from = max(0, w.from+w.shift*Position(w.sampleSize()))
	}
	w.tracker.Begin(Leg{From: w.from})
	w.cursor, w.resume = 0, true
	for w.cursor < len(w.entries) && w.tracker.Done(w.entries[w.cursor]) && w.shift >= 0 {
		w.cursor++
	}
	w.furthest = max(w.furthest, w.cursor)
	if w.furthest == w.cursor {
		w.tracker.CaughtUp()
	}
}

// finish lets client and server come to the end, and checks the whole.
func (w *takeover) finish() {
	w.clientEnds()
	for range 10 * len(w.entries) {
		w.send()
		w.hear()
	}
	for len(w.outbox) > 0 {
		w.deliver()
	}
	to := 0
	for _, r := range w.got {
		if r.Final {
			to = max(to, r.To)
		}
	}
	switch {
	case w.wrong != "":
	case w.tracker.Whole() != "":
		w.wrong = w.tracker.Whole()
	case to < w.samples-w.scene.slack:
		w.wrong = fmt.Sprintf("the finals cover %d of %d samples", to, w.samples)
	case len(w.got) == 0 || !w.got[len(w.got)-1].Final:
		w.wrong = "the last result is no final"
	case w.scene.counts && w.replies != w.messages+w.tracker.debt:
		w.wrong = fmt.Sprintf("%d replies to %d messages, with %d in advance", w.replies, w.messages, w.tracker.debt)
	}
}

// recogniser is a server that ends utterances at random.
type recogniser struct {
	c       chooser
	heard   []int
	from    int // the first sample of the utterance
	n       int
	replies bool // it replies to each message once, and an utterance ends with a message
	eager   bool // it ends utterances where the audio says so, and then sends a result for what comes next
	least   int  // the samples of an utterance
}

func (r *recogniser) result(to int, final bool) result {
	from, end := 0, 0
	if len(r.heard) > 0 {
		from = r.heard[min(r.from, len(r.heard)-1)]
		end = r.heard[to-1] + 1
		if r.from >= to {
			from = end
		}
	}
	return result{
		Final: final, N: r.n, Start: float64(r.from) / sampleRate, Duration: float64(to-r.from) / sampleRate, From: from, To: end,
	}
}

func (r *recogniser) cut(to int) result {
	result := r.result(to, true)
	r.from, r.n = to, r.n+1
	return result
}

func (r *recogniser) hear(samples []int, end bool) (results []result) {
	if r.eager {
		for i, sample := range samples {
			if sample*2654435761>>7%600 == 0 {
				r.heard = append(r.heard, samples[:i+1]...)
				results = append(results, r.cut(len(r.heard)), r.result(len(r.heard), false))
				return append(results, r.hear(samples[i+1:], end)...)
			}
		}
	}
	r.heard = append(r.heard, samples...)
	n := len(r.heard)
	switch {
	case end:
		last := r.cut(n)
		last.Last = true
		return append(results, last)
	case r.replies:
		if r.c.chance(30) {
			return []result{r.cut(n)}
		}
		return []result{r.result(n, false)}
	}
	if !r.eager && r.c.chance(25) {
		if room := n - r.from - r.least; room > 0 {
			results = append(results, r.cut(n-r.c(room)))
		}
	}
	if n > 0 && r.c.chance(70) {
		results = append(results, r.result(n, false))
	}
	return results
}

// Ways of encoding audio.

func s16(samples []int) []byte {
	var b []byte
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

// unwrap reads the numbers of consecutive samples from their last 16 bits, if there are at most 2^16.
func unwrap(b []byte) (samples []int) {
	for ; len(b) > 1; b = b[2:] {
		samples = append(samples, int(binary.LittleEndian.Uint16(b)))
	}
	return samples
}

func encodeBinary(samples []int) (frame.Opcode, []byte) { return frame.Binary, s16(samples) }

func encodeBase64(samples []int) (frame.Opcode, []byte) {
	text := base64.StdEncoding.EncodeToString(s16(samples))
	switch len(samples) % 3 {
	case 1:
		text = strings.ReplaceAll(strings.ReplaceAll(text, "/", `\/`), "+", `\u002B`)
	case 2:
		text = strings.TrimRight(text, "=")
	}
	return frame.Text, fmt.Appendf(nil, `{"type":"append", "audio": "%s" ,"more":[1]}`, text)
}

func decodeBase64(payload []byte) []int {
	var m struct{ Audio string }
	if err := json.Unmarshal(payload, &m); err != nil {
		panic(err)
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(m.Audio, "="))
	if err != nil {
		panic(err)
	}
	return unwrap(b)
}

func encodeFloats(samples []int) (frame.Opcode, []byte) {
	b := msgp.AppendMapHeader(nil, 3)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "Audio")
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "pcm"), uint32(len(samples)))
	for i, s := range samples {
		switch { // as different libraries do it
		case i%3 == 0:
			b = msgp.AppendFloat32(b, float32(s))
		case i%3 == 1:
			b = msgp.AppendFloat64(b, float64(s))
		default:
			b = msgp.AppendInt(b, s)
		}
	}
	return frame.Binary, msgp.AppendBool(msgp.AppendString(b, "more"), true)
}

func decodeFloats(payload []byte) (samples []int) {
	v, rest, err := msgp.ReadMapStrIntfBytes(payload, nil)
	if err != nil || len(rest) > 0 || v["more"] != true {
		panic(fmt.Sprint(v, rest, err))
	}
	for _, s := range v["pcm"].([]any) {
		switch s := s.(type) {
		case float32:
			samples = append(samples, int(s))
		case float64:
			samples = append(samples, int(s))
		case int64:
			samples = append(samples, int(s))
		}
	}
	return samples
}

func (w *takeover) String() string {
	var b bytes.Buffer
	for _, r := range w.got {
		fmt.Fprintf(&b, "%+v\n", r)
	}
	return b.String()
}
