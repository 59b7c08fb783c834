package profile

import (
	"encoding/base64"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// format is what the bytes of a session's audio mean. It is fixed with the first audio.
type format struct {
	rate, channels int
	encoding       Encoding
	fixed          bool
}

// frameSize returns the bytes of one sample of all channels; 0 as long as the format is not known.
func (f *format) frameSize() int64 {
	if !f.fixed {
		return 0
	}
	return int64(f.encoding.SampleSize() * f.channels)
}

// bytesFor returns how many bytes a time in nanoseconds takes, to the nearest sample.
func (f *format) bytesFor(nanos int64) int64 {
	size := f.frameSize()
	if size == 0 || nanos <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(nanos), uint64(f.rate))
	low, carry := bits.Add64(low, 5e8, 0)
	frames, _ := bits.Div64(high+carry, low, 1e9) // at most 2^63 * 2^20 / 10^9, which is below 2^54
	if frames > math.MaxInt64/uint64(size) {
		return math.MaxInt64
	}
	return int64(frames) * size
}

// lastsFor returns how long a number of bytes lasts, in units of which a second has perSecond, to the nearest; 0 if the format is not known.
func (f *format) lastsFor(n, perSecond int64) int64 {
	size := f.frameSize()
	if size == 0 {
		return 0
	}
	if n < 0 {
		return -f.lastsFor(-n, perSecond)
	}
	second := uint64(size) * uint64(f.rate)
	high, low := bits.Mul64(uint64(n), uint64(perSecond))
	low, carry := bits.Add64(low, second/2, 0)
	if high += carry; high >= second {
		return math.MaxInt64
	}
	units, _ := bits.Div64(high, low, second)
	return int64(min(units, math.MaxInt64))
}

// choose returns what the client's text means for the property. It falls back to the default if the text says nothing about it.
func (c *choiceSpec) choose(text string) string {
	if c.within != "" {
		text = partOf(text, c.within)
	}
	if text == "" {
		return c.value
	}
	if name, ok := c.names[text]; ok {
		return name
	}
	if name, ok := c.names[strings.ToLower(text)]; ok {
		return name
	}
	return text
}

// partOf returns a part of a text such as "audio/l16; rate=16000" or "audio/x-raw, rate=(int)16000": what is before the first semicolon or
// comma for "type", otherwise a parameter.
func partOf(text, part string) string {
	for i, field := range strings.FieldsFunc(text, func(c rune) bool { return c == ';' || c == ',' }) {
		name, value, _ := strings.Cut(field, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case i == 0 && part == "type":
			return name
		case i > 0 && strings.EqualFold(name, part):
			if _, after, ok := strings.Cut(value, ")"); ok && strings.HasPrefix(value, "(") {
				value = strings.TrimSpace(after)
			}
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// fromQuery sets the properties that the client's URL names.
func (t *Tracker) fromQuery(query string) {
	wanted := len(t.program.only) == 0
	for raw := range strings.SplitSeq(query, "&") {
		name, value, ok := parameter(raw)
		wanted = wanted || ok && slices.Contains(t.program.only, parameterValue{name, value})
		if ok && slices.Contains(t.program.unless, parameterValue{name, value}) {
			t.giveUp("the client asked for " + name + "=" + value + ", with which the profile offers no failover")
		}
	}
	if !wanted {
		p := t.program.only[0]
		t.giveUp("the client did not ask for " + p.name + "=" + p.value + ", without which the profile offers no failover")
	}
	t.program.audio.choose(&t.chosen, query)
}

// choose sets the properties of the audio to those that a URL with this raw query names.
func (a *audioSpec) choose(chosen *[3]string, query string) {
	for i, c := range a.properties() {
		chosen[i] = c.value
		if c.query == "" || query == "" {
			continue
		}
		for raw := range strings.SplitSeq(query, "&") {
			if name, value, ok := parameter(raw); ok && name == c.query {
				chosen[i] = c.choose(value)
				break
			}
		}
	}
}

// fromMessage sets the properties that a text message of the client names.
func (t *Tracker) fromMessage(payload []byte) {
	p := t.program
	hits, ok := collect(t.hits[:0], payload, p.heard.choices, p.heard.choices.all)
	t.keepHits(hits)
	if !ok {
		return
	}
	p.heard.chooseByMessage(&t.chosen, payload, hits)
	if t.format.fixed {
		if f, _ := readFormat(t.chosen); f != t.format {
			t.giveUp("the format of the audio changed")
		}
	}
}

// chooseByMessage sets the properties of the audio that were found in a text message.
func (p *audioProgram) chooseByMessage(chosen *[3]string, payload []byte, hits []hit) {
	for _, h := range hits {
		if h.kind != hitText && h.kind != hitNumber {
			continue
		}
		i := p.choiceOf[h.path]
		chosen[i] = p.properties()[i].choose(unescaped(payload[h.from:h.to], h.escaped))
	}
}

// unescaped returns what a text in JSON stands for.
func unescaped(text []byte, escaped bool) string {
	if !escaped {
		return string(text)
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			i++
			continue
		}
		c, length := unescape(text[i:])
		b.WriteRune(c)
		i += length
	}
	return b.String()
}

// readFormat returns the format with these properties: encoding, rate and channels. If it is not known, why is not empty.
func readFormat(chosen [3]string) (f format, why string) {
	encoding := encodingOf(chosen[0])
	if encoding == EncodingOther {
		return f, "the audio is compressed or in a container, so that its bytes are no time"
	}
	rate, ok := wholeNumber(chosen[1], maxRate)
	if !ok {
		return f, "the sample rate of the audio is not known"
	}
	channels := 1
	if chosen[2] != "" {
		if channels, ok = wholeNumber(chosen[2], maxChannels); !ok {
			return f, "the number of channels of the audio is not known"
		}
	}
	return format{rate, channels, encoding, true}, ""
}

// wholeNumber reads a number from 1 to limit, which may have zeros behind a point.
func wholeNumber(text string, limit int) (int, bool) {
	if whole, zeros, ok := strings.Cut(text, "."); ok && strings.Trim(zeros, "0") == "" {
		text = whole
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= limit
}

// audioLength returns how many bytes of decoded audio a message of the client has. ok is false if that cannot be told.
func (t *Tracker) audioLength(op frame.Opcode, payload []byte, size int) (n int64, ok bool) {
	p := t.program
	switch {
	case op == frame.Text && p.audioPath != nil:
		h, ok := t.findAudio(payload)
		return base64Length(payload[h.from:h.to], h.escaped), ok
	case op == frame.Binary && p.Failover.audio.floats != "":
		return floatsLength(payload, p.Failover.audio.floats)
	}
	return int64(size), op != frame.Text || !p.uncounted
}

// findAudio finds the audio in a text message. It returns the zero value if there is none. ok is false if it cannot be told.
func (t *Tracker) findAudio(payload []byte) (h hit, ok bool) {
	hits, ok := collect(t.hits[:0], payload, t.program.audioPath, 1)
	t.keepHits(hits)
	switch {
	case ok && len(hits) == 0:
		return hit{}, true
	case !ok || len(hits) > 1 || hits[0].kind != hitText:
		return hit{}, false
	}
	return hits[0], true
}

// base64Length returns how many bytes a base64 text stands for (RFC 4648, section 4), with or without padding.
func base64Length(text []byte, escaped bool) int64 {
	n := len(text)
	if escaped { // some encoders write \/ for /, or \u002B for +
		n = 0
		for i := 0; i < len(text); n++ {
			length := 1
			if text[i] == '\\' {
				var c rune
				if c, length = unescape(text[i:]); c == '=' || c == '\n' || c == '\r' {
					n--
				}
			} else if text[i] == '=' {
				n--
			}
			i += length
		}
	}
	for !escaped && n > 0 && text[n-1] == '=' {
		n--
	}
	return int64(n) * 6 / 8
}

// lineBreaks removes them, which base64Length does not count.
var lineBreaks = strings.NewReplacer("\r", "", "\n", "")

// cutBase64 appends the base64 text without its first bytes of audio.
func cutBase64(dst []byte, text string, skip int64) ([]byte, bool) {
	text = lineBreaks.Replace(text)
	encoding := base64Of(text)
	if start := skip / 3 * 4; skip%3 == 0 && start <= int64(len(text)) {
		return append(dst, text[start:]...), true
	}
	audio, err := encoding.DecodeString(text)
	if err != nil || skip > int64(len(audio)) {
		return dst, false
	}
	return encoding.AppendEncode(dst, audio[skip:]), true
}

// base64Of returns the kind of base64 that a text is in.
func base64Of(text string) *base64.Encoding {
	encoding := base64.StdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if !strings.HasSuffix(text, "=") && len(text)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	return encoding
}

func appendDecoded(dst []byte, text string) ([]byte, bool) {
	begin, text := len(dst), lineBreaks.Replace(text)
	dst, err := base64Of(text).AppendDecode(dst, []byte(text))
	if err != nil {
		return dst[:begin], false
	}
	return dst, true
}

// Cut appends to dst the payload of a message that has only the audio of e from a position on, between e.From and e.To. ok is false if the
// message cannot be cut.
func (t *Tracker) Cut(dst []byte, e Entry, payload []byte, at Position) (cut []byte, ok bool) {
	p := t.program
	skip := int64(at - e.From)
	switch length := int64(e.To - e.From); {
	case e.Kind != EntryAudio || skip < 0 || skip > length:
		return dst, false
	case skip == 0:
		return append(dst, payload...), true
	case p.Failover.audio.least > 0 && int64(e.To-at) < t.format.bytesFor(int64(p.Failover.audio.least)):
		return dst, false
	case p.audioPath != nil:
		if h, ok := t.findAudio(payload); ok && h.kind == hitText {
			cut, ok = cutBase64(append(dst, payload[:h.from]...), unescaped(payload[h.from:h.to], h.escaped), skip)
			if ok {
				return append(cut, payload[h.to:]...), true
			}
			return dst, false
		}
		if length != int64(len(payload)) { // otherwise the profile has both kinds, and this one is binary
			return dst, false
		}
	case p.Failover.audio.floats != "":
		return cutFloats(dst, payload, p.Failover.audio.floats, skip)
	}
	return append(dst, payload[skip:]...), true
}

// Audio appends to dst the decoded audio of a message whose payload this is. ok is false if it cannot be decoded.
func (t *Tracker) Audio(dst []byte, e Entry, payload []byte) (audio []byte, ok bool) {
	p := t.program
	switch {
	case e.Kind != EntryAudio:
		return dst, false
	case p.Failover.audio.floats != "":
		return appendFloats(dst, payload, p.Failover.audio.floats)
	case p.audioPath != nil && int64(e.To-e.From) != int64(len(payload)):
		h, ok := t.findAudio(payload)
		if !ok || h.kind != hitText {
			return dst, false
		}
		return appendDecoded(dst, unescaped(payload[h.from:h.to], h.escaped))
	}
	return append(dst, payload...), true
}

// Duration returns how long this many bytes of the session's audio last, and Bytes how many bytes last this long. Both return 0 as long as the
// format is not known.
func (t *Tracker) Duration(n int64) time.Duration {
	return time.Duration(t.format.lastsFor(n, 1e9))
}

func (t *Tracker) Bytes(d time.Duration) int64 { return t.format.bytesFor(int64(d)) }

// Format returns the encoding, samples a second and channels of the session's audio, as far as they are known.
func (t *Tracker) Format() (e Encoding, rate, channels int) {
	return t.format.encoding, t.format.rate, t.format.channels
}

// packedFloat is how many bytes a float takes in MessagePack.
const packedFloat = 5

// UsualBytes returns how many bytes of messages a second of clients' audio takes, unless they name another format; 0 if that is not known.
func (f *Failover) UsualBytes() int {
	a := &f.audio
	rate, _ := strconv.Atoi(a.rate.value)
	channels, _ := strconv.Atoi(a.channels.value)
	bytes := encodingOf(a.encoding.value).SampleSize() * rate * max(channels, 1)
	switch {
	case a.floats != "":
		return rate * max(channels, 1) * packedFloat
	case a.base64 != nil:
		return (bytes + 2) / 3 * 4
	}
	return bytes
}
