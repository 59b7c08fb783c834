package profile

import (
	"math"
	"slices"
)

// tags are the hashes of the tags of all tasks that sessions have begun on a tagged connection. No two sessions may use the same one: the
// server may still have a former session's task, of which the boundary may know nothing, and would take the next one for it.
type tags []uint64

// has reports whether the tag with hash h is among them.
func (t tags) has(h uint64) bool { return slices.Contains(t, h) }

// tasks are the tasks that a session has begun on a tagged connection, in order, as far as they are remembered.
type tasks struct{ list []task }

type task struct {
	tag  uint64
	open bool
	over bool   // the client has said all of it
	asks uint16 // results that the client has asked for, and has not had; only in a Tracker
	name string // the tag as the client wrote it, if it is open and the profile's leave needs it
}

// maxTags is how many tags are remembered of a connection, with eight bytes for each. A connection on which more tasks were begun serves no other
// session.
const maxTags = 512

// maxTag is the length in bytes of the longest tag that is read.
const maxTag = 256

// begins says what the beginning of a task means for the connection.
type begins uint8

const (
	known      begins = iota // the boundary knows which of the server's messages are about it
	unclean                  // so it does, but the connection must not serve another session
	unreadable               // the messages about it cannot be told from those about another session's, or are not known at all
)

// startTask records that the client began a task. former are the tags of the connection's former sessions, and name is the tag as the client wrote it.
func (s *session) startTask(tag, name []byte, former tags, p *program) begins {
	if tag == nil {
		return unreadable
	}
	if s.tasks == nil {
		s.tasks = new(tasks) // most profiles need none
	}
	if !p.leave.namesTask {
		name = nil
	}
	return s.tasks.start(hashOf(tag), string(name), former, p.tasksContinue)
}

// start records that the client began the task with the tag of hash h. If tasks continue, a message with the tag of one that is not done belongs to
// that one. Behind the client's last message of it, it begins another: the boundary takes the first of two last messages for that of both.
func (t *tasks) start(h uint64, name string, former tags, continues bool) begins {
	if task := t.find(h); task != nil {
		again := continues && !task.over || !task.open
		task.open, task.over, task.name = true, false, name
		if !again {
			return unclean
		}
		return known
	}
	if former.has(h) {
		return unreadable
	}
	answer := known
	if len(t.list) == maxTags {
		first := slices.IndexFunc(t.list, func(task task) bool { return !task.open })
		if first < 0 {
			return unreadable
		}
		t.list = slices.Delete(t.list, first, first+1)
		answer = unclean
	}
	t.list = append(t.list, task{tag: h, open: true, name: name})
	return answer
}

// find returns the task with the tag of hash h, or nil. It is most often one of the latest.
func (t *tasks) find(h uint64) *task {
	if t == nil {
		return nil
	}
	for i := len(t.list) - 1; i >= 0; i-- {
		if t.list[i].tag == h {
			return &t.list[i]
		}
	}
	return nil
}

// tagged returns the task with this tag, or nil.
func (t *tasks) tagged(tag []byte) *task {
	if t == nil || tag == nil {
		return nil
	}
	return t.find(hashOf(tag))
}

// done records that the task is done.
func (t *task) done() { t.open, t.asks, t.name = false, 0, "" }

// follow records what a client's message asks for: nothing of a task that the client has ended before, or that is not open, since the server may
// refuse it or say nothing.
func (t *tasks) follow(f found) {
	if f.class&isStart != 0 && f.tag != nil {
		t.start(hashOf(f.tag), "", nil, true)
	}
	switch task := t.tagged(f.tag); {
	case task == nil || !task.open:
	case f.class&isForgotten != 0:
		task.asks, task.over = 0, true
	case !task.over:
		if f.class&isAnyMarker != 0 && task.asks < math.MaxUint16 {
			task.asks++
		}
		task.over = f.class&isDone != 0
	}
}

// answer records a server's message to a task. What ends it answers all that was asked of it. A failure without a tag ends all tasks.
func (t *tasks) answer(f found, answers bool) {
	switch task := t.tagged(f.tag); {
	case f.tag == nil && f.class&isFailed != 0:
		for i := range t.list {
			t.list[i].done()
		}
	case task == nil:
	case f.class&(isDone|isFailed) != 0:
		task.done()
	case answers:
		task.asks -= min(task.asks, 1)
	}
}

// unanswered returns how many results clients have asked for, and have not had.
func (t *tasks) unanswered() (n int) {
	for i := range t.list {
		n += int(t.list[i].asks)
	}
	return n
}

// names returns the tags of the tasks that are not done, as the client wrote them.
func (t *tasks) names() (names []string) {
	if t == nil {
		return nil
	}
	for _, task := range t.list {
		if task.open {
			names = append(names, task.name)
		}
	}
	return names
}

// open returns the number of tasks that are not done.
func (t *tasks) open() (n uint64) {
	if t == nil {
		return 0
	}
	for _, task := range t.list {
		if task.open {
			n++
		}
	}
	return n
}

// former returns the tags of earlier sessions' tasks.
func (b *Boundary) former() tags {
	if b.memory == nil {
		return nil
	}
	return b.memory.tags
}

// keepTags adds the tags of the session's tasks to those of earlier ones. It returns false if they are too many to be remembered.
func (b *Boundary) keepTags() bool {
	t := b.session.tasks
	if t == nil {
		return true
	}
	if len(b.former())+len(t.list) > maxTags {
		return false
	}
	k := b.ensureMemory()
	for _, task := range t.list {
		k.tags = append(k.tags, task.tag)
	}
	return true
}
