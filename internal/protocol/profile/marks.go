package profile

import "slices"

// item is what the server has made of a marker.
type item struct {
	id   uint64 // hash of its name
	mark reply
	done bool // its answer has come
}

// receipt takes the server's receipt for the first marker that has none, or its refusal.
func (t *Tracker) receipt(f found) {
	if f.class&(isAccepted|isRefused) == 0 || f.class&t.program.results != 0 {
		return
	}
	if f.class&isAccepted == 0 {
		t.refused()
		return
	}
	mark, ok := t.marks.pop()
	switch {
	case !ok || t.program.named && f.tag == nil:
		t.giveUp("the server has accepted something that no message of the client asked for")
	case len(t.items) == maxOwed:
		t.giveUp("the server owes too many answers")
	default:
		t.items, t.receipts = append(t.items, item{id: hashOf(f.tag), mark: mark}), true
	}
}

// refused takes the server's refusal of the first marker that has no receipt. Where answers have no names, servers refuse other messages with the same
// errors: a marker behind audio of its own is taken to be in order.
func (t *Tracker) refused() {
	before := t.answered
	if n := len(t.items); n > 0 {
		before = t.items[n-1].mark.to
	}
	if m := &t.marks; m.count == 0 || !t.program.named && m.ring[m.first].to != before {
		return
	}
	mark, _ := t.marks.pop()
	if len(t.items) == 0 && mark.to == t.answered { // nothing else answers it
		t.answer(mark.to, mark.number)
		t.markedNumber = mark.number
	}
}

// marked takes an answer to the item with the name, to all items if they have no names or, from a server without receipts, to the first marker. It
// returns the last marker that is now answered with all before it. ok is false if there is none, and known if the answer is to nothing.
func (t *Tracker) marked(name []byte) (last reply, ok, known bool) {
	id := hashOf(name)
	for i := range t.items {
		if item := &t.items[i]; item.id == id || !t.program.named {
			item.done, known = true, true
		}
	}
	if !known && !t.receipts { // with receipts, it may be a second answer to an item
		last, ok = t.marks.pop()
		return last, ok, ok
	}
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
	t.items, t.receipts = nil, false
}
