package failoverproof

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// How often the speaker pauses: after this many chunks.
const (
	shortestUtterance = 2
	longestUtterance  = 6
)

// speech is the audio of a session: chunks with its marks, cut into messages that begin and end anywhere in them.
type speech struct {
	session uint64
	p       *protocol
	dice    *rand.Rand
	chunks  int // in all
	length  int // chunks in each utterance; 0 for a random number
	pauses  int // so far

	made    int    // chunks
	ready   []byte // made and not sent
	paused  bool   // the speaker pauses behind ready, and the protocol wants to know
	until   int    // the chunk before the next pause
	sent    int    // bytes
	message []byte
	said    []byte // all that was sent
}

func newSpeech(session uint64, p *protocol, dice *rand.Rand, chunks, utterance int) *speech {
	s := &speech{session: session, p: p, dice: dice, chunks: chunks, length: utterance}
	s.plan()
	return s
}

// plan chooses the next pause. There is none behind the last chunk, so that the end of the session has something to end.
func (s *speech) plan() {
	if s.length > 0 {
		s.until = s.made + s.length
		return
	}
	s.until = s.made + shortestUtterance + s.dice.IntN(longestUtterance-shortestUtterance+1)
}

// bytes returns how many bytes last so long, a whole number of marks.
func (s *speech) bytes(d time.Duration) int {
	return int(int64(s.p.perSecond)*int64(d)/int64(time.Second)) / sim.MarkSize * sim.MarkSize
}

// next returns the audio of the next message, which is valid until the next call, and whether the speaker pauses right behind it. There is
// none when all was sent.
func (s *speech) next() (audio []byte, pause bool) {
	size := s.bytes(s.p.least)
	if more := s.bytes(s.p.most) - size; more > 0 {
		size += s.dice.IntN(more/8+1) * 8 // also in the middle of a mark
	}
	least := s.bytes(s.p.least)
	for len(s.ready) < size+least && s.made < s.chunks && !s.paused {
		s.make()
	}
	if len(s.ready)-size < least { // the rest would be too short for a message
		size = len(s.ready)
	}
	if size >= len(s.ready) {
		size, pause, s.paused = len(s.ready), s.paused, false
	}
	if pause {
		s.pauses++
	}
	s.message = append(s.message[:0], s.ready[:size]...)
	s.ready = append(s.ready[:0], s.ready[size:]...)
	s.sent += size
	s.said = append(s.said, s.message...)
	return s.message, pause
}

// make makes a chunk.
func (s *speech) make() {
	s.made++
	m := sim.Mark{Session: s.session, Seq: uint16(s.made)}
	blocks := s.bytes(s.p.chunk) / sim.MarkSize
	if s.made != s.until || s.made == s.chunks {
		s.ready = sim.AppendMark(s.ready, m, blocks)
		return
	}
	s.ready = sim.AppendMark(s.ready, m, blocks-1)
	m.Pause = true
	s.ready = sim.AppendMark(s.ready, m, 1)
	s.paused = s.p.commits
	s.plan()
}

// rewind has the audio from a time on, in seconds, be sent once more. It returns that time, which is the beginning of a mark.
func (s *speech) rewind(from float64) float64 {
	at := min(int(from*float64(s.p.perSecond)+sim.MarkSize/2)/sim.MarkSize*sim.MarkSize, len(s.said))
	s.ready = append(slices.Clone(s.said[at:]), s.ready...)
	s.said, s.sent = s.said[:at], 0
	return float64(at) / float64(s.p.perSecond)
}

// spoken returns how long it takes to say what was sent.
func (s *speech) spoken() time.Duration {
	return time.Duration(float64(s.sent) / float64(s.p.perSecond) * float64(time.Second))
}
