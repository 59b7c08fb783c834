package profile

import "slices"

// item is what the server has made of a marker.
type item struct {
	id   uint64 // hash of its name
	mark reply
	done bool // its answer has come
}

// receipt takes the server's receipt for the first marker that has none, or its refusal, after which no answer comes.
func (t *Tracker) receipt(f found) {
	if f.class&(isAccepted|isRefused) == 0 || f.class&t.program.results != 0 {
		return
	}
	mark, ok := t.marks.pop()
	switch {
	case f.class&isAccepted == 0:
	case !ok || f.tag == nil:
		t.giveUp("the server has accepted something that no message of the client asked for")
	case len(t.items) == maxOwed:
		t.giveUp("the server owes too many answers")
	default:
		t.items = append(t.items, item{id: hashOf(f.tag), mark: mark})
	}
}

// marked takes an answer to the item with the name or, without receipts, to the first marker. It returns the last marker that is now answered
// with all before it. ok is false if there is none, and known if the answer is to nothing.
func (t *Tracker) marked(name []byte) (last reply, ok, known bool) {
	i := -1
	if name != nil && len(t.items) > 0 {
		id := hashOf(name)
		i = slices.IndexFunc(t.items, func(item item) bool { return item.id == id })
	}
	if i < 0 {
		last, ok = t.marks.pop()
		return last, ok, ok
	}
	t.items[i].done = true
	n := 0
	for n < len(t.items) && t.items[n].done {
		last = t.items[n].mark
		n++
	}
	t.items = slices.Delete(t.items, 0, n)
	return last, n > 0, true
}

// forgetMarks forgets what the server was asked for.
func (t *Tracker) forgetMarks() {
	t.marks.clear()
	t.items = nil
}
