package profile

import (
	"math"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// ServerMessage judges a whole message of the present server. One that is not valid JSON is judged by its kind, and passes as it is: nothing in
// it can be shifted, and the client may wait for it.
func (t *Tracker) ServerMessage(op frame.Opcode, payload []byte) Judgement {
	p := t.program
	t.trim()
	j := Judgement{Pass: true, Payload: payload}
	var f found
	if p.fromServer.can[op] != 0 {
		f = p.fromServer.match(op, payload, 0)
	}
	j.GoAway = f.class&isGoAway != 0
	t.goesAway = t.goesAway || j.GoAway
	t.failed = t.failed || f.class&isLastWord != 0 && !j.GoAway
	t.receipt(f)
	if p.tasks {
		t.tasks.answer(f, f.class&p.results != 0)
	}
	ends := t.ends(op, f, payload)
	j.Final, j.Answer = f.class&isFinal != 0 || ends.final, ends.final
	result := j.Final || f.class&(isPartial|p.results) != 0
	j.Sign = f.class&isHeartbeat == 0 && result && p.Stall != StallNone

	passes := !t.greets(f)
	if p.counts {
		passes = passes && t.reply(j.Final)
	} else if p.replies { // it says itself what it answers, and hidden ones are replies, too
		t.owed.pop()
	}
	if t.owed.replied {
		j.Sign = p.Stall == StallReplies || j.Sign
	}
	if !p.counts && t.legs > 1 && passes {
		passes = t.isNew(j.Final, f, ends)
	}
	if ends.known {
		t.answer(ends.at, ends.number)
	}
	if t.zero != t.base || t.legs > 1 || len(t.numbers) > 0 || p.list != nil {
		j.Payload = t.rewrite(op, f, payload, j.Final, passes)
	}
	if !passes {
		j.Pass, j.Payload = false, nil
	}
	if p.concludes && t.concluded(f) {
		t.conclude()
	}
	return j
}

// concluded reports whether the message answers the client's end message.
func (t *Tracker) concluded(f found) bool {
	if t.program.counts {
		return t.endSent && t.owed.replied && t.owed.last == t.endNumber
	}
	if f.class&isUntil != 0 && t.acknowledgements > 0 {
		t.acknowledgements--
		return t.endSent && t.acknowledgements == 0
	}
	return t.endSent && f.class&isDone != 0
}

// trim gives back memory that a large message took.
func (t *Tracker) trim() {
	if cap(t.out) > maxKeptOut {
		t.out = nil
	}
	if cap(t.second) > maxKeptOut {
		t.second = nil
	}
}

// keepHits keeps the memory of hits for the next message, unless there were very many.
func (t *Tracker) keepHits(hits []hit) {
	if t.hits = hits[:0]; cap(hits) > maxKeptHits {
		t.hits = nil
	}
}

// greets reports whether the message is one that the client has had from an earlier server, such as a greeting.
func (t *Tracker) greets(f found) bool {
	hides := false
	for i := range t.program.hide {
		if f.class&isHidden(i) == 0 {
			continue
		}
		most, before := t.program.hide[i].most, int(t.greeted[i])
		t.greeted[i] = min(t.greeted[i], math.MaxUint16-1) + 1
		if t.legs > 1 && t.had[i] && (most == 0 || before < most) { // what comes after a server's greetings answers something else
			hides = true
			continue
		}
		t.had[i], t.asked = true, false
	}
	return hides
}

// isNew reports whether a message on a later leg says anything that the client has not had from an earlier server.
func (t *Tracker) isNew(final bool, f found, ends ends) bool {
	switch {
	case t.again:
		t.again = !final
		return !final && f.class&isPartial == 0
	case t.endSent && final: // the client may wait for its last result
		return true
	case ends.timed && ends.upTo <= t.start && t.start > Position(t.base):
		return false
	}
	return final || t.caughtUp || f.class&isPartial == 0
}

// ends is what a message says about what it answers.
type ends struct {
	final bool
	known bool // it answers audio up to at
	at    Position
	// The last message of the client that it answers; 0 if that is the last one that was sent.
	number uint32
	timed  bool // it has a time, which is upTo
	upTo   Position
}

// ends finds out what a message answers.
func (t *Tracker) ends(op frame.Opcode, f found, payload []byte) (e ends) {
	p := t.program
	if t.nextOf > 0 && op == frame.Text {
		if nanos, ok := t.timeIn(t.nextOf-1, payload); ok {
			e.known, e.at = true, t.positionOf(nanos)
			t.nextOf = 0
		}
	}
	for i := range p.answered {
		if f.class&isAnswer(i) == 0 {
			continue
		}
		switch a := &p.answered[i]; a.by {
		case MeansCount:
			e.final = true
		case MeansTime:
			nanos, ok := t.timeIn(i, payload)
			if !ok { // such as a list without an item that is final
				continue
			}
			e.final, e.timed, e.upTo = true, true, t.positionOf(nanos)
			e.known, e.at = true, max(e.at, e.upTo-Position(t.format.bytesFor(int64(a.margin))))
		case MeansUtterance:
			e.final, e.known = true, true
			e.at = max(e.at, t.delivered-Position(t.format.bytesFor(int64(a.margin))))
		case MeansNext:
			e.final = true
			t.nextOf = i + 1
		case MeansMarker:
			if e.final = true; p.tasks {
				break
			}
			mark, ok, known := t.marked(f.tag)
			if !known {
				t.giveUp("the server's final result answers no message of the client")
			}
			if ok {
				e.known, e.at, e.number = true, mark.to, mark.number
				t.markedNumber = mark.number
			}
		case MeansUnknown:
			e.final = true
			t.giveUp("the server's final result does not say which audio it answers")
		}
		break // the first that matches counts
	}
	return e
}

// timeIn returns the time at the paths of answered[i], summed up. ok is false if one of them is missing or no time.
func (t *Tracker) timeIn(i int, payload []byte) (nanos int64, ok bool) {
	a, set := &t.program.answered[i], t.program.ends[i]
	if len(a.times) == 0 {
		return 0, false
	}
	read, packed := collect, t.program.packed[i]
	if packed {
		read = collectPacked
	}
	hits, ok := read(t.hits[:0], payload, set, set.all)
	t.keepHits(hits)
	if !ok {
		return 0, false
	}
	for path := range a.times {
		var value int64
		found := false
		for _, h := range hits {
			if int(h.path) != path || h.kind != hitText && h.kind != hitNumber {
				continue
			}
			v, ok := int64(0), false
			if text := payload[h.from:h.to]; packed {
				v, ok = packedTime(text, h.kind, a.unit)
			} else {
				v, ok = parseTime(text, a.unit)
			}
			if ok && !(a.most && found && v < value) {
				value, found = v, true
			}
		}
		if !found || value > math.MaxInt64-nanos {
			return 0, false
		}
		nanos += value
	}
	return nanos, true
}
