package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// translationDialogue is a connection to OpenAI's simultaneous translation, /v1/realtime/translations, simulated from its documents and the
// models of its SDK. It takes audio in frames of 200 ms, writes down each word when it has ended, if the client asked for that, and translates
// each phrase when the speaker pauses. Text is only added; its time is that of the frame. At session.close it translates what is left,
// says session.closed, and closes.
//
// What it hears is simulated: a sound becomes a word of three syllables that follows from its length and loudness, and the translation
// of a word is the word spelled backwards. Unlike the real service, it does not speak: no session.output_audio.delta comes.
type translationDialogue struct {
	recognition
	dice      *rand.Rand // for ids
	id, model string
	expires   int64          // in seconds since 1970
	audio     map[string]any // the session's settings
	sounds    *recogniser
	frames    int    // that have begun
	rest      []byte // audio of the frame that is not complete
	told      int    // how many words of the phrase under way the transcript has
}

// translationFrame is the audio of a frame: 200 ms of 24 kHz in 16 bits.
const (
	translationFrame = 9600
	frameLength      = 200 * time.Millisecond
)

func newTranslationDialogue(query url.Values) *translationDialogue {
	return &translationDialogue{
		recognition: newRecognition("", 24000), sounds: newRecogniser(24000), model: query.Get("model"),
		audio: map[string]any{"input": map[string]any{}, "output": map[string]any{}},
	}
}

func (d *translationDialogue) greet(v *voice) {
	d.dice, d.id, d.expires = v.dice, fmt.Sprintf("sess_%016x", v.dice.Uint64()), time.Now().Add(time.Hour).Unix()
	d.tell(v, opening, "session.created")
}

// tell says an event that shows the session.
func (d *translationDialogue) tell(v *voice, r role, event string) {
	v.text(r, `{"type":"%s","event_id":"%s","session":{"id":"%s","type":"translation","model":%s,"expires_at":%d,"audio":%s}}`,
		event, d.event(), d.id, quote(d.model), d.expires, inJSON(d.audio))
}

func (d *translationDialogue) event() string { return fmt.Sprintf("event_%016x", d.dice.Uint64()) }

func (d *translationDialogue) fail(v *voice, code, reason string) {
	openAIFails(v, d.event(), code, reason, "")
}

func (d *translationDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	var said struct {
		Type    string `json:"type"`
		Audio   string `json:"audio"`
		Session struct {
			Audio map[string]map[string]any `json:"audio"`
		} `json:"session"`
	}
	if kind != frame.Text || json.Unmarshal(message, &said) != nil {
		d.fail(v, "invalid_json", "Could not parse the event: it must be a text message with JSON.")
		return
	}
	switch said.Type {
	case "session.update":
		for side, settings := range said.Session.Audio {
			if known, ok := d.audio[side].(map[string]any); ok {
				for name, value := range settings {
					known[name] = value
				}
			}
		}
		d.tell(v, remark, "session.updated")
	case "session.input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(said.Audio)
		if err != nil {
			d.fail(v, "invalid_value", "Invalid audio: not base64.")
			return
		}
		d.rest = append(d.rest, audio...)
		for len(d.rest) >= translationFrame {
			d.take(v, d.rest[:translationFrame])
			d.rest = append(d.rest[:0], d.rest[translationFrame:]...)
		}
	case "session.close":
		d.take(v, d.rest)
		d.phrase(v, d.heard.words(), d.sounds.finish())
		v.text(last, `{"type":"session.closed","event_id":"%s"}`, d.event())
		v.end(frame.NormalClosure, "")
	default:
		d.fail(v, "invalid_value", "Invalid value: "+said.Type)
	}
}

// take hears a frame.
func (d *translationDialogue) take(v *voice, audio []byte) {
	d.frames++
	d.utterances(audio, func(ends bool) {
		if ends {
			d.phrase(v, d.heard.words(), nil)
		}
	})
	d.sounds.listen(audio)
	if len(d.heard.runs) > 0 { // the audio names its session: what it sounds like does not matter
		return
	}
	if ended := d.sounds.results(); len(ended) > 0 {
		d.phrase(v, "", ended)
	}
	if words := d.sounds.words; len(words) > d.told {
		d.say(v, partial, "input", spelled(words[d.told:]))
		d.told = len(words)
	}
}

// phrase ends the phrase under way, which has the marks of sessions or sounds.
func (d *translationDialogue) phrase(v *voice, marks string, sounds []word) {
	words := spelled(sounds)
	if len(d.heard.runs) > 0 {
		words, d.told = strings.Fields(marks), 0
	}
	d.say(v, partial, "input", words[min(d.told, len(words)):])
	d.told = 0
	d.next()
	for i, w := range words {
		words[i] = translated(w)
	}
	d.say(v, final, "output", words)
}

// say adds words to the transcript (input) or to its translation (output).
func (d *translationDialogue) say(v *voice, r role, side string, words []string) {
	transcribes := d.audio["input"].(map[string]any)["transcription"] != nil
	if len(words) == 0 || side == "input" && !transcribes {
		return
	}
	v.text(r, `{"type":"session.%s_transcript.delta","event_id":"%s","delta":%s,"elapsed_ms":%d}`,
		side, d.event(), quote(" "+strings.Join(words, " ")), (time.Duration(max(0, d.frames-1)) * frameLength).Milliseconds())
}

// spelled returns the words that sounds stand for.
func spelled(sounds []word) []string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	var words []string
	for _, sound := range sounds {
		if !strings.HasPrefix(sound.text, "speech-") { // the recogniser's own account of an utterance
			continue
		}
		var w []byte
		for sum := crc32.ChecksumIEEE([]byte(sound.text)); len(w) < 6; sum /= uint32(len(consonants) * len(vowels)) {
			w = append(w, consonants[sum%uint32(len(consonants))], vowels[sum/uint32(len(consonants))%uint32(len(vowels))])
		}
		words = append(words, string(w))
	}
	return words
}

// translated returns a word spelled backwards. What has other signs than letters, such as a session's mark, is a name, and stays.
func translated(word string) string {
	letters := []rune(word)
	if slices.ContainsFunc(letters, func(c rune) bool { return !unicode.IsLetter(c) }) {
		return word
	}
	slices.Reverse(letters)
	return string(letters)
}
