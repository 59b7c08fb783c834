package profile

// tasks are the tasks that a session has begun on a tagged connection: the latest few, by the hash of their tag. nil stands for none.
type tasks struct {
	list [4]task
	tags tagSet // the tags of all tasks, not only of those in list
}

type task struct {
	tag  uint64 // 0 for none
	open bool
	name string // the tag as the client wrote it, if the profile's leave needs it
}

// tagSet is a set of tags: a Bloom filter with 64 bits, three for each tag. It may by chance report a tag that was not added.
type tagSet uint64

// add adds the tag with hash h.
func (s *tagSet) add(h uint64) { *s |= tagBits(h) }

// has reports whether the tag with hash h may be in the set.
func (s tagSet) has(h uint64) bool { return s != 0 && tagBits(h)&^s == 0 }

func tagBits(h uint64) tagSet { return 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) }

// startTask records that the client began a task, as tasks.start does.
func (s *session) startTask(tag []byte, former tagSet, p *program) bool {
	if s.tasks == nil {
		s.tasks = new(tasks) // most profiles need none
	}
	return s.tasks.start(tag, former, p.tasksContinue, p.leave.namesTask)
}

// start records that the client began a task. It returns false if the tag is missing, or if the server's messages about the task could be
// taken for those about another, which is not done or belongs to the connection's former session, or if too many tasks are open. If tasks
// continue, a message with the tag of one that is not done belongs to that one.
func (t *tasks) start(tag []byte, former tagSet, continues, keepName bool) bool {
	if tag == nil {
		return false
	}
	h := hashOf(tag)
	t.tags.add(h)
	free := -1
	for i := range t.list {
		if t.list[i].tag == h {
			again := continues || !t.list[i].open
			t.list[i].open = true
			return again
		}
		if !t.list[i].open && (free < 0 || t.list[i].tag == 0 && t.list[free].tag != 0) {
			free = i
		}
	}
	if free < 0 || former.has(h) {
		return false
	}
	t.list[free] = task{tag: h, open: true}
	if keepName {
		t.list[free].name = string(tag)
	}
	return true
}

// find returns the task with this tag, or nil.
func (t *tasks) find(tag []byte) *task {
	if t == nil || tag == nil {
		return nil
	}
	h := hashOf(tag)
	for i := range t.list {
		if t.list[i].tag == h {
			return &t.list[i]
		}
	}
	return nil
}

// begun returns the tags of all tasks.
func (t *tasks) begun() tagSet {
	if t == nil {
		return 0
	}
	return t.tags
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
