package profile

import "slices"

// The roles of messages that concern failover, beside isEnd and isUnanswered, which they share with the boundary. First those of messages
// from a client, then those from the server. A role with an index has one bit for each entry of its list in [Failover].
const (
	isAudio class = 1 << (iota + 16)
	isForgotten
)

const (
	isFinal class = 1 << (iota + 16)
	isPartial
	isHeartbeat
	isLastWord
	isGoAway
	isAccepted // a marker
	isRefused
)

// maxEntries is how many entries configure, answered, renumber and hide may have, and maxTimed how many of shift may have when.
const (
	maxEntries = 8
	maxTimed   = 16
)

// isConfiguration is the role of messages of configure[i], isExcepted that of messages that its except names, and isMarker that of the
// markers of answered[i].
func isConfiguration(i int) class { return 1 << (24 + i) }
func isExcepted(i int) class      { return 1 << (32 + i) }
func isMarker(i int) class        { return 1 << (40 + i) }

// isAnyMarker has the roles of all markers.
const isAnyMarker class = (1<<maxEntries - 1) << 40

// isAnswer is the role of messages of answered[i], isHidden that of hide[i], isTimed that of the i-th entry of shift that has
// when, and isUncounted that of final results that renumber[i] does not count.
func isAnswer(i int) class { return 1 << (24 + i) }
func isHidden(i int) class { return 1 << (32 + i) }
func isTimed(i int) class  { return 1 << (40 + i) }

func isUncounted(i int) class { return 1 << (56 + i) }

// maxAssembled is the longest message that a [Tracker] may be presented, in bytes.
const maxAssembled = 1 << 20

// asksTasks reports whether markers only ask for results, of tasks: where another server may continue a session, answers are to markers in order.
func (f *Failover) asksTasks(s *spec) bool {
	return s.reuse == Tagged && f.Stall == StallAsked && f.Verdict == Never
}

// captured returns the paths to the names of what a client's messages, and the server's, are about; nil for none.
func (f *Failover) captured(s *spec) (paths [2]jsonPath) {
	if f.asksTasks(s) {
		return [...]jsonPath{s.tag.path, s.tag.toServer()}
	}
	for i := range f.answered {
		paths[1] = slices.Concat(paths[1], f.answered[i].id) // one entry has it
	}
	return paths
}

// clientUses returns the matchers of a client's messages with their roles. s has the matchers of other keys.
func (f *Failover) clientUses(s *spec) []use {
	uses := []use{{f.audio.messages, isAudio}, {f.forget, isForgotten}, {s.end.client, isEnd}, {s.unanswered, isUnanswered}, {s.answers, isCounted}}
	if f.asksTasks(s) {
		uses = append(uses, use{s.tag.start, isStart}, use{s.tag.end, isDone})
	}
	for i := range f.answered {
		uses = append(uses, use{f.answered[i].marker, isMarker(i)})
	}
	for i := range f.configure {
		uses = append(uses, use{f.configure[i].messages, isConfiguration(i)}, use{f.configure[i].except, isExcepted(i)})
	}
	return uses
}

// serverUses returns the matchers of the server's messages with their roles. s has the matchers of other keys.
func (f *Failover) serverUses(s *spec) []use {
	uses := []use{{f.final, isFinal}, {f.partial, isPartial}, {f.heartbeat, isHeartbeat}, {f.lastWord.messages, isLastWord}, {s.goaway, isGoAway}}
	if f.asksTasks(s) {
		uses = append(uses, use{s.tag.done, isDone}, use{s.tag.failed, isFailed})
	}
	if s.concludes() {
		uses = append(uses, use{s.reset.until, isUntil}, use{s.tag.done, isDone})
		if s.concludesByLast() {
			uses = append(uses, use{s.script.last, isDone})
		}
	}
	for i := range f.answered {
		a := &f.answered[i]
		uses = append(uses, use{a.messages, isAnswer(i)}, use{a.accepted, isAccepted}, use{a.refused, isRefused})
	}
	for i := range f.hide {
		uses = append(uses, use{f.hide[i].messages, isHidden(i)})
	}
	for i := range f.renumber {
		uses = append(uses, use{f.renumber[i].unless, isUncounted(i)})
	}
	timed := 0
	for i := range f.shift {
		if len(f.shift[i].when) > 0 {
			uses = append(uses, use{f.shift[i].when, isTimed(timed)})
			timed++
		}
	}
	return uses
}

// countConditions returns how many different conditions on JSON the matchers have.
func countConditions(uses []use) int {
	var different []condition
	for _, u := range uses {
		for _, m := range u.matchers {
			for _, c := range m.json {
				if indexOfCondition(different, c) < 0 {
					different = append(different, c)
				}
			}
		}
	}
	return len(different)
}
