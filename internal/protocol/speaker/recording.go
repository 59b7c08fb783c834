package speaker

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Recording is audio as clients of a profile's servers send it or, where the servers speak, a text. It is immutable.
type Recording struct {
	profile *profile.Profile
	script  *profile.Script
	model   string   // empty if the profile's clients name none
	chunks  [][]byte // encoded audio, or words
	length  time.Duration
}

// ErrTakesText is returned for a recording where the servers get text, and ErrTakesAudio for a text where they get audio.
var (
	ErrTakesText  = errors.New("the profile's servers get text and speak it")
	ErrTakesAudio = errors.New("the profile's servers get audio")
)

// ErrNoModel is returned for a profile whose clients name a model, if none was given, and ErrModel for one whose clients name none.
var (
	ErrNoModel = errors.New("the profile's servers want the name of a model")
	ErrModel   = errors.New("the profile's clients name no model")
)

// NewRecording prepares a recording, up to a maximal length, for a profile's servers: it mixes the channels, resamples, and encodes. model is the
// name of the model that the client asks for; empty for profiles whose clients name none. The error says that the profile does not say what
// a client says, that the recording is empty, or that a model is missing or too much ([ErrNoModel], [ErrModel]).
func NewRecording(p *profile.Profile, audio *wav.Audio, most time.Duration, model string) (*Recording, error) {
	r, err := Prepare(p, model)
	if err != nil {
		return nil, err
	}
	s := r.script
	if s.TakesText() {
		return nil, fmt.Errorf("%s: %w", p.Name, ErrTakesText)
	}
	samples := resample(mix(beginning(audio, most)), audio.SampleRate, s.Rate)
	if n := int(most.Seconds() * float64(s.Rate)); len(samples) > n {
		samples = samples[:n]
	}
	if len(samples) == 0 {
		return nil, errors.New("the recording has no audio")
	}
	r.length = time.Duration(float64(len(samples)) / float64(s.Rate) * float64(time.Second))
	samplesIn := func(d time.Duration) int { return int(int64(s.Rate) * int64(d) / int64(time.Second)) }
	size, least := max(1, samplesIn(s.Chunk)), samplesIn(p.Failover().LeastAudio())
	if short := least - len(samples)%size; short > 0 && short < least { // the server does not take that little: silence follows
		samples = append(samples, make([]float32, short)...)
	}
	for len(samples) > 0 {
		n := min(size, len(samples))
		r.chunks = append(r.chunks, encode(samples[:n], s.Encoding))
		samples = samples[n:]
	}
	return r, nil
}

// NewText prepares a text for a profile's servers, which speak it: its words, each in a message. The model and the error are as for [NewRecording].
func NewText(p *profile.Profile, text, model string) (*Recording, error) {
	r, err := Prepare(p, model)
	if err != nil {
		return nil, err
	}
	if !r.script.TakesText() {
		return nil, fmt.Errorf("%s: %w", p.Name, ErrTakesAudio)
	}
	for _, word := range strings.Fields(text) {
		r.chunks = append(r.chunks, []byte(word+" "))
	}
	if len(r.chunks) == 0 {
		return nil, errors.New("the text has no words")
	}
	r.length = time.Duration(len(r.chunks)) * r.script.Chunk
	return r, nil
}

// Prepare returns a recording without audio, for clients that make theirs as they go ([Recording.Envelop]). The model and the error are as for
// [NewRecording].
func Prepare(p *profile.Profile, model string) (*Recording, error) {
	s := p.Script()
	if s == nil {
		return nil, fmt.Errorf("the profile %s does not say what a client says: add client to your own profile (docs/reference/write-a-profile.md)", p.Name)
	}
	switch named := s.NamesModel(); {
	case named && model == "":
		return nil, fmt.Errorf("%s: %w", p.Name, ErrNoModel)
	case !named && model != "":
		return nil, fmt.Errorf("%s: %w", p.Name, ErrModel)
	}
	return &Recording{profile: p, script: s, model: model}, nil
}

// Length is how long the audio lasts, and Chunks how many messages it takes.
func (r *Recording) Length() time.Duration { return r.length }

// Chunks returns how many messages the audio takes.
func (r *Recording) Chunks() int { return len(r.chunks) }

// Query is what the client adds to the query of the server's URL; empty for nothing.
func (r *Recording) Query() string {
	return strings.ReplaceAll(r.script.Query, profile.ModelMark, url.QueryEscape(r.model))
}

// AtLeast returns the recording as many times in a row as it takes to be this long. A last piece that is shorter than the others is left out, since some
// servers take none in the middle.
func (r *Recording) AtLeast(long time.Duration) *Recording {
	again := *r
	if n := len(r.chunks) - 1; n > 0 && len(r.chunks[n]) < len(r.chunks[0]) {
		again.chunks, again.length = r.chunks[:n], time.Duration(n)*r.script.Chunk
	}
	times := max(1, int((long+again.length-1)/again.length))
	again.chunks, again.length = slices.Repeat(again.chunks, times), again.length*time.Duration(times)
	return &again
}

// AtMost returns the beginning of the recording, as many whole messages as are not longer than this, and one at least.
func (r *Recording) AtMost(long time.Duration) *Recording {
	if r.length <= long {
		return r
	}
	first, n := *r, max(1, int(long/r.script.Chunk))
	first.chunks, first.length = r.chunks[:n:n], time.Duration(n)*r.script.Chunk
	return &first
}

// After returns the rest of the recording after this many bytes of encoded audio; nil if there is none.
func (r *Recording) After(n int64) *Recording {
	all := bytes.Join(r.chunks, nil)
	if n >= int64(len(all)) {
		return nil
	}
	rest, size := *r, len(r.chunks[0])
	rest.length = time.Duration(float64(r.length) * float64(int64(len(all))-n) / float64(len(all)))
	rest.chunks = slices.Collect(slices.Chunk(all[n:], size))
	return &rest
}

// beginning returns as much of a recording as is used of it, so that a long file costs no more than that. A few more samples let the last one be
// interpolated.
func beginning(a *wav.Audio, most time.Duration) *wav.Audio {
	first := *a
	if n := (int(most.Seconds()*float64(a.SampleRate)) + 2) * 2 * a.Channels; n < len(a.PCM) {
		first.PCM = a.PCM[:n]
	}
	return &first
}

// mix returns the samples of a recording as numbers from -1 to 1, with all channels in one.
func mix(a *wav.Audio) []float32 {
	out := make([]float32, len(a.PCM)/2/a.Channels)
	for i := range out {
		sum := 0
		for c := range a.Channels {
			sum += int(int16(binary.LittleEndian.Uint16(a.PCM[2*(i*a.Channels+c):])))
		}
		out[i] = float32(sum) / float32(a.Channels) / 32768
	}
	return out
}

// resample changes the number of samples a second by linear interpolation.
func resample(in []float32, from, to int) []float32 {
	if from == to || len(in) == 0 {
		return in
	}
	out := make([]float32, int(int64(len(in))*int64(to)/int64(from)))
	for i := range out {
		at := float64(i) * float64(from) / float64(to)
		j := int(at)
		next := in[min(j+1, len(in)-1)]
		out[i] = in[j] + (next-in[j])*float32(at-float64(j))
	}
	return out
}

func encode(samples []float32, e profile.Encoding) []byte {
	var out []byte
	for _, v := range samples {
		if e == profile.F32LE {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			continue
		}
		scaled := math.Round(float64(v) * 32768)
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(min(max(scaled, -32768), 32767))))
	}
	return out
}

// Envelop returns the message that carries a piece of audio, or of text: the i-th in a session with a token. It may be the piece itself.
func (r *Recording) Envelop(i int, audio []byte, token uint64) Message {
	switch s := r.script; {
	case s.TakesText():
		if strings.HasPrefix(s.Envelope, "{") {
			audio = inJSON(string(audio))
		}
		text := strings.Replace(s.Envelope, profile.TextMark, string(audio), 1)
		return Message{frame.Text, []byte(strings.ReplaceAll(text, "$token", fmt.Sprintf("%016x", token)))}
	case s.Envelope != "":
		text := strings.Replace(s.Envelope, profile.AudioMark, base64.StdEncoding.EncodeToString(audio), 1)
		return Message{frame.Text, []byte(text)}
	case s.MessagePack != "":
		b := msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(nil, 2), "type"), "Audio")
		b = msgp.AppendArrayHeader(msgp.AppendString(b, s.MessagePack), uint32(len(audio)/4))
		for ; len(audio) >= 4; audio = audio[4:] {
			b = msgp.AppendFloat32(b, math.Float32frombits(binary.LittleEndian.Uint32(audio)))
		}
		return Message{frame.Binary, b}
	case s.Header != "":
		frames := len(audio) / map[profile.Encoding]int{profile.S16LE: 2, profile.F32LE: 4}[s.Encoding]
		header := strings.NewReplacer(profile.ChunkMark, strconv.Itoa(i), profile.FramesMark, strconv.Itoa(frames)).Replace(s.Header)
		b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...)
		return Message{frame.Binary, append(b, audio...)}
	}
	return Message{frame.Binary, audio}
}

// Chunk returns the i-th message of audio, or of text, in a session with a token.
func (r *Recording) Chunk(i int, token uint64) Message { return r.Envelop(i, r.chunks[i], token) }

// silence returns a message of silence, the i-th of audio.
func (r *Recording) silence(i int) Message {
	return r.Envelop(i, make([]byte, len(r.chunks[0])), 0)
}

// chunksMark stands for the number of messages of audio in what a client says.
const chunksMark = "$chunks"

// Fill returns messages of the profile with a session's token, the model, and the number of messages of audio.
func (r *Recording) Fill(said []profile.Message, token uint64, chunks int) []Message {
	out := make([]Message, len(said))
	for i := range said {
		payload := said[i].Append(nil, token)
		if said[i].Binary {
			out[i] = Message{frame.Binary, payload}
			continue
		}
		payload = bytes.ReplaceAll(payload, []byte(profile.ModelMark), inJSON(r.model))
		out[i] = Message{frame.Text, bytes.ReplaceAll(payload, []byte(chunksMark), strconv.AppendInt(nil, int64(chunks), 10))}
	}
	return out
}

// inJSON returns a text as it stands between the quotes of a JSON text.
func inJSON(text string) []byte {
	quoted, _ := json.Marshal(text) // a string never fails
	return quoted[1 : len(quoted)-1]
}
