package failoverproof

import (
	"bytes"
	"fmt"
	"math"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Fault is something that a client must not see.
type Fault int

// The faults.
const (
	// Foreign are messages with another session's audio.
	Foreign Fault = iota
	// Lost and Twice are chunks that no final result has, and that several have. Disordered are final results that come too late.
	Lost
	Twice
	Disordered
	// WrongTimes are times that are not those of their audio, or go back. WrongNumbers are numbers of results that do not continue.
	WrongTimes
	WrongNumbers
	// Returned are results that are no longer revised, and that a later partial result has again.
	Returned
	// Replies are missing or surplus replies where each message gets one. Greetings are missing or surplus greetings.
	Replies
	Greetings
)

// faultNames are their names, in their order.
var faultNames = [...]string{"foreign", "lost", "twice", "disordered", "wrong times", "wrong numbers", "returned", "replies", "greetings"}

// Faults counts each fault.
type Faults [len(faultNames)]int

// Sum returns how many faults there are.
func (f *Faults) Sum() (n int) {
	for _, m := range f {
		n += m
	}
	return n
}

// tolerance is how far a time may be from that of its audio beside a chunk, in seconds: servers round.
const tolerance = 0.002

// rounding is how far a result must end inside a chunk at least, in seconds, so that the next one may have the rest of it: marks are longer.
const rounding = 0.0002

// judge checks what a session's client sees. It belongs to the session.
type judge struct {
	session uint64
	p       *protocol
	chunk   float64 // seconds
	faults  Faults
	fault   func(format string, args ...any) // notes one in the session's trace

	base      float64 // when the session of the proxy began, in seconds of audio
	last      int     // the last chunk of the last final result
	end       float64 // where that result ended
	number    int     // of the utterance under way
	finals    int
	greetings int
	received  int
}

func newJudge(session uint64, p *protocol, fault func(format string, args ...any)) *judge {
	return &judge{session: session, p: p, chunk: p.chunk.Seconds(), fault: fault}
}

// message checks a message. ended tells that the client has sent the end of the session.
func (j *judge) message(m hunt.Message, ended bool) {
	j.received++
	foreign := false
	judge := func(session uint64, _, _ uint16) { foreign = foreign || session != j.session }
	sim.Chunks(m.Payload, judge)
	if m.Opcode == frame.Binary {
		sim.Marks(m.Payload, func(m sim.Mark) { judge(m.Session, 0, 0) })
	}
	if foreign {
		j.faults[Foreign]++
		j.fault("foreign: %.200s", m.Payload)
	}
	if !ended && j.p.IsReady(m) {
		j.greetings++
		if j.greetings > 1 {
			j.faults[Greetings]++
			j.fault("greeting %d: %.200s", j.greetings, m.Payload)
		}
	}
	for _, r := range j.p.read(m) {
		j.result(r)
	}
}

// result checks a result.
func (j *judge) result(r result) {
	r.start, r.end = r.start+j.base, r.end+j.base
	first, last, gaps := 0, 0, false
	sim.Chunks([]byte(r.text), func(session uint64, from, to uint16) {
		if session != j.session || from == 0 {
			return
		}
		if first == 0 {
			first = int(from)
		} else if int(from) != last+1 && int(from) != last {
			gaps = true
		}
		last = int(to)
	})
	switch {
	case first == 0: // of silence, or no result
		return
	case gaps && !j.p.merges:
		j.faults[Lost]++
		j.fault("gaps in %s", r.text)
	}
	if j.p.merges && r.final && j.finals > 0 {
		first = max(first, j.last+1)
	}
	if j.p.repeats && r.final && r.number < j.number {
		return // it is listed again
	}
	j.times(r, first, last)
	if !r.final {
		if last < j.last-j.p.again || first <= j.last-j.p.overlap-j.p.again && !(first == j.last && j.within(j.last)) {
			j.faults[Returned]++
			j.fault("returned: partial result of %d-%d behind the final one of %d", first, last, j.last)
		}
		return
	}
	j.final(r, first, last)
}

// within reports whether the last final result ended inside a chunk, so that the next one has its rest.
func (j *judge) within(chunk int) bool {
	begin := float64(chunk-1) * j.chunk
	return j.end > begin+rounding && j.end < begin+j.chunk-rounding
}

// times checks that the result is where its audio is.
func (j *judge) times(r result, first, last int) {
	begin, end := float64(first-1)*j.chunk, float64(last)*j.chunk
	wrong := r.start < begin-tolerance || r.start > begin+j.chunk+tolerance || r.end > end+tolerance || r.end < end-j.chunk-tolerance ||
		r.end < r.start
	if wrong {
		j.faults[WrongTimes]++
		j.fault("wrong times: %d-%d at %.3f to %.3f s, not %.3f to %.3f", first, last, r.start, r.end, begin, end)
	}
}

// final takes a final result. It begins where the last one ended: recognisers leave nothing out, but what they did not decode.
func (j *judge) final(r result, first, last int) {
	again := r.start < j.end && j.end-r.start < float64(j.p.again)*j.chunk+tolerance // at its right place
	if j.finals++; math.Abs(r.start-j.end) > j.p.undecoded+tolerance && !math.IsNaN(j.end) && !again {
		j.faults[WrongTimes]++
		j.fault("a gap: from %.3f to %.3f s", j.end, r.start)
	}
	switch {
	case first > j.last+1:
		j.faults[Lost] += first - j.last - 1
		j.fault("lost: %d to %d", j.last+1, first-1)
	case last <= j.last && last < first:
		j.faults[Disordered]++
		j.fault("disordered: %d-%d behind %d", first, last, j.last)
	case first <= j.last-j.p.overlap-j.p.again && !(first == j.last && j.within(first) && math.Abs(r.start-j.end) < j.p.undecoded+tolerance):
		j.faults[Twice] += j.last - first + 1
		j.fault("twice: %d to %d", first, j.last)
	}
	if r.number >= 0 {
		if r.number != j.number {
			j.faults[WrongNumbers]++
			j.fault("wrong number: %d instead of %d", r.number, j.number)
		}
		j.number = r.number + 1
	}
	j.last = max(j.last, last)
	if !(r.end < j.end) {
		j.end = r.end
	}
}

// over checks a session that has come to its end.
func (j *judge) over(chunks, audio int) {
	if j.last < chunks {
		j.faults[Lost] += chunks - j.last
		j.fault("lost at the end: %d to %d", j.last+1, chunks)
	}
	if j.p.AwaitsReady() && j.greetings == 0 {
		j.faults[Greetings]++
		j.fault("no greeting")
	}
	if j.p.replies != nil {
		if n := j.received - j.p.replies(audio); n != 0 {
			j.faults[Replies] += max(n, -n)
			j.fault("%d replies to %d messages of audio", j.received, audio)
		}
	}
}

// describe returns a message for a trace.
func describe(m hunt.Message) string {
	if m.Opcode == frame.Binary {
		if said, _, err := sim.ReadKyutai(m.Payload); err == nil {
			return fmt.Sprintf("%s %s %.2f %.2f", said.Type, said.Text, said.Start, said.Stop)
		}
	}
	return string(bytes.Join(bytes.Fields(m.Payload[:min(len(m.Payload), 400)]), []byte(" ")))
}
