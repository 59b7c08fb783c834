package profile

// A server in lockstep replies to each message once, and its clients count on that. So whatever servers do, a client gets as many replies as it
// sent messages: of those that a later server repeats, it gets only finals, each in place of the next partial result.

// reply is one that the server owes.
type reply struct {
	number uint32 // of the client's message
	hide   bool   // the client has had it
	to     Position
}

// replies are what the present server owes, in order.
type replies struct {
	ring    []reply
	first   int
	count   int
	replied bool   // the last message paid one
	last    uint32 // the number of the message that it answered
}

// maxOwed is how many replies a server may owe.
const maxOwed = 8192

// push adds a reply. It returns false if there are too many.
func (r *replies) push(last reply) bool {
	if r.count == len(r.ring) {
		if r.count >= maxOwed {
			return false
		}
		ring := make([]reply, max(8, 2*len(r.ring)))
		for i := range r.count {
			ring[i] = r.ring[(r.first+i)%len(r.ring)]
		}
		r.ring, r.first = ring, 0
	}
	r.ring[(r.first+r.count)%len(r.ring)] = last
	r.count++
	return true
}

// pop takes the first reply. ok is false if none is owed.
func (r *replies) pop() (first reply, ok bool) {
	if r.replied = r.count > 0; !r.replied {
		return first, false
	}
	first = r.ring[r.first]
	r.first = (r.first + 1) % len(r.ring)
	r.count--
	r.last = first.number
	return first, true
}

func (r *replies) clear() { *r = replies{ring: r.ring} }

// reply counts a message of a server that replies to each message. It reports whether the client gets it.
func (t *Tracker) reply(final bool) bool {
	r, ok := t.owed.pop()
	if !ok { // it was not asked for
		return true
	}
	if r.hide {
		return false
	}
	again := r.number <= t.replied
	t.replied = max(t.replied, r.number)
	if final {
		if r.to >= t.answered {
			t.answered, t.answeredNumber = r.to, r.number
		}
		if again {
			t.debt++
		}
		return true
	}
	if again {
		return false
	}
	if t.debt > 0 {
		t.debt--
		return false
	}
	return true
}
