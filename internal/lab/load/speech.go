package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// maxAnswer is the longest answer of a speech server that the client accepts, in bytes.
const maxAnswer = 1 << 20

// closePeriods is how many periods a server has to end the connection after a session.
const closePeriods = 20

// speech is the talk of a client that streams a recording to a speech server with Vosk's protocol: chunks of audio at
// the pace of speech, each of which gets one answer, then the end of the audio, which gets one more. Then it connects
// again for the next session, until nothing more becomes due. It sends the first chunk of its first session as soon as it is
// connected; in later sessions, the first chunk waits for the client's next turn.
type speech struct {
	*client
	total    int   // chunks in this session; the message after them is the end of the audio
	asked    int   // messages that have become due
	sent     int   // messages sent
	answered int   // messages answered
	origin   int64 // when message 0 was due, or would have been
	paced    bool  // origin is known
	connects bool  // on its way to the next session
	over     bool  // the session is complete: its connection is ending
	halted   bool  // begins no further session
	cut      bool  // the end of the run ended the session before the end of the recording
	idle     int   // turns since the session was over
	message  []byte
	finals   []string
}

// begin implements talk.
func (s *speech) begin() {}

// opened implements talk.
func (s *speech) opened() {
	first := !s.greeted && !s.connects
	r := s.lane.recording
	*s = speech{client: s.client, total: len(r.chunks), halted: s.halted, message: s.message[:0], finals: s.finals[:0]}
	if len(r.config) > 0 && !s.halted {
		s.conn.Write(r.config)
	}
	switch {
	case s.halted:
		s.control(frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))
		s.over = true
		s.lane.settle(s.client)
	case first:
		s.asked = 1
		s.send()
	}
}

// due implements talk.
func (s *speech) due(at int64) {
	switch {
	case s.connects:
	case s.over:
		if s.idle++; s.idle >= closePeriods { // the server does not end the connection
			s.drop()
			s.ended()
		}
	case s.asked <= s.total:
		if !s.paced {
			s.paced = true
			s.origin = at - int64(s.asked)*int64(s.lane.period)
		}
		s.asked++
		s.send()
	}
}

// ready implements talk.
func (s *speech) ready() { s.send() }

// send sends what is due, as far as the socket takes it.
func (s *speech) send() {
	r := s.lane.recording
	for s.sent < s.asked && s.conn.Pending() == 0 && !s.closeSent && !s.lane.sendsEnded {
		next := r.end
		if s.sent < s.total {
			next = r.chunks[s.sent]
		}
		if s.counted(s.sent) {
			s.counts().Sent++
		}
		s.sent++
		s.conn.Write(next)
	}
}

// counted reports whether a message belongs to the steady part: all do but the one that the client sends once connected.
func (s *speech) counted(message int) bool { return s.greeted || message > 0 }

// take implements talk.
func (s *speech) take(p piece, now int64) {
	if s.over {
		if p.last {
			s.refuse(unasked)
		}
		return
	}
	if p.first && p.last {
		s.handleAnswer(p, p.payload, now)
		return
	}
	if len(s.message)+len(p.payload) > maxAnswer {
		s.failProtocol(frame.ErrMessageSize)
		return
	}
	s.message = append(s.message, p.payload...)
	if p.last {
		s.handleAnswer(p, s.message, now)
		s.message = s.message[:0]
	}
}

// handleAnswer checks and counts an answer.
func (s *speech) handleAnswer(p piece, answer []byte, now int64) {
	counts := s.counts()
	if s.answered >= s.sent {
		s.refuse(unasked)
		return
	}
	number := s.answered
	s.answered++
	switch text, what := parseAnswer(p.opcode, answer); what {
	case partial:
		counts.Partials++
	case final:
		counts.Finals++
		s.finals = append(s.finals, text)
	default:
		s.refuse(unreadable)
	}
	switch {
	case !s.greeted:
		s.recordFirstAnswer(now - s.began)
		s.markGreeted()
	default:
		counts.Received++
		if !s.paced || s.cut && number == s.total { // the end of a session that was cut short was not due yet
			break
		}
		latency := now - s.origin - int64(number)*int64(s.lane.period)
		counts.Latency.Record(latency)
		if number == 0 {
			s.recordFirstAnswer(s.took + latency) // without the wait for its turn
		}
		if number == s.total {
			counts.Final.Record(latency)
		}
	}
	if number == s.total {
		s.complete()
		s.control(frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))
	}
}

// complete ends the session, whose answers should be those of every other session.
func (s *speech) complete() {
	s.over = true
	same := true
	if s.cut {
		s.setOutcome(cut)
		// The last answer is to audio that was cut short; those before it must be the same as in other sessions.
		if model := s.lane.transcript.Load(); model != nil && len(s.finals) > 0 {
			before := s.finals[:len(s.finals)-1]
			same = len(before) <= len(*model) && slices.Equal(before, (*model)[:len(before)])
		}
	} else {
		s.setOutcome(complete)
		finals := slices.Clone(s.finals)
		if !s.lane.transcript.CompareAndSwap(nil, &finals) {
			same = slices.Equal(finals, *s.lane.transcript.Load())
		}
	}
	if !same {
		s.refuse(otherFinals)
	}
	s.lane.settle(s.client)
}

// refuse counts an answer that is not what it should be.
func (s *speech) refuse(why string) {
	s.counts().Mixed++
	s.counts().error(why)
}

// halt implements talk. It ends the current session, with the last audio that was due.
func (s *speech) halt() {
	s.halted = true
	if s.broken || s.connects || s.over || s.asked == 0 || s.asked > s.total {
		return
	}
	s.cut = true
	s.total = s.asked
	s.asked++
	s.send()
}

// finished implements talk.
func (s *speech) finished() bool {
	return s.connects || s.over || s.asked == 0 || s.lane.sendsEnded && s.answered >= s.sent
}

// inSession implements talk.
func (s *speech) inSession() bool { return !s.connects && !s.over }

// account implements talk.
func (s *speech) account() {
	if s.inSession() {
		s.counts().Unsent += int64(s.asked - s.sent)
		s.counts().lose(int64(s.sent - s.answered))
	}
}

// failed implements talk.
func (s *speech) failed() {
	if s.inSession() {
		s.counts().Unsent += int64(s.asked - s.sent)
		s.counts().Abandoned += int64(s.sent - s.answered)
	}
}

// closed implements talk: the server closes normally after the end of the audio.
func (s *speech) closed(code frame.CloseCode) bool {
	if code != frame.NormalClosure || s.sent <= s.total {
		return false
	}
	if !s.over {
		s.counts().lose(int64(s.sent - s.answered))
		s.complete()
	}
	return true
}

// ended implements talk.
func (s *speech) ended() {
	if s.over && !s.halted && !s.broken {
		s.connects = true
		s.lane.redial(s.client)
	}
}

// refused implements talk.
func (s *speech) refused(kind string) { s.fail(kind) }

// endOfAudio is the message that ends a session. Vosk servers compare it byte by byte.
const endOfAudio = `{"eof" : 1}`

// bytesPerSample of the audio that speech servers take.
const bytesPerSample = 2

// recording is an audio file as the frames that a client streams. It is static, and all loops share it.
type recording struct {
	config []byte   // the first frame of a session; empty for none
	chunks [][]byte // a frame for each piece of audio
	end    []byte   // the frame that ends the session
}

func newRecording(audio *wav.Audio, chunk time.Duration, config string, mask uint32) *recording {
	encode := func(opcode frame.Opcode, payload []byte) []byte {
		return frame.Append(nil, frame.Header{Fin: true, Opcode: opcode, Masked: true, Mask: mask}, payload)
	}
	r := &recording{end: encode(frame.Text, []byte(endOfAudio))}
	if config != "" {
		r.config = encode(frame.Text, []byte(config))
	}
	size := chunkSize(audio, chunk)
	for pcm := audio.PCM; len(pcm) > 0; {
		n := min(size, len(pcm))
		r.chunks = append(r.chunks, encode(frame.Binary, pcm[:n]))
		pcm = pcm[n:]
	}
	return r
}

// chunkSize returns the length in bytes of a chunk of audio.
func chunkSize(audio *wav.Audio, chunk time.Duration) int {
	return int(int64(audio.SampleRate)*int64(chunk)/int64(time.Second)) * bytesPerSample
}

// length returns the duration of the audio.
func length(audio *wav.Audio) time.Duration {
	samples := int64(len(audio.PCM) / bytesPerSample)
	return time.Duration(samples * int64(time.Second) / int64(audio.SampleRate))
}

// checkAudio returns an error if the audio cannot be streamed, whatever the other options.
func checkAudio(audio *wav.Audio) error {
	switch {
	case audio.BitsPerSample != 8*bytesPerSample || audio.Channels != 1:
		return fmt.Errorf("audio: %d channels of %d bits: use one channel (mono) of 16 bits",
			audio.Channels, audio.BitsPerSample)
	case audio.SampleRate <= 0:
		return fmt.Errorf("audio: %d samples per second: use more than 0", audio.SampleRate)
	case len(audio.PCM) == 0:
		return errors.New("audio: the file has no samples")
	}
	return nil
}

// What can be wrong with the answers of a speech server, as counted in Result.Errors.
const (
	unasked     = "mixed: answer that was not asked for"
	unreadable  = "mixed: answer that is neither partial nor final"
	otherFinals = "mixed: final texts differ from the first session's"
)

// answerKind is the kind of a speech server's answer.
type answerKind int

const (
	neither answerKind = iota
	partial            // the current utterance, which may still change
	final              // an utterance that has ended
)

// parseAnswer parses an answer of a Vosk server, and returns its text and its kind.
func parseAnswer(opcode frame.Opcode, answer []byte) (text string, what answerKind) {
	var parsed struct {
		Partial *string `json:"partial"`
		Text    *string `json:"text"`
	}
	switch err := json.Unmarshal(answer, &parsed); {
	case err != nil || opcode != frame.Text:
		return "", neither
	case parsed.Text != nil:
		return *parsed.Text, final
	case parsed.Partial != nil:
		return *parsed.Partial, partial
	}
	return "", neither
}
