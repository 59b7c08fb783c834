package replay

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// chunkSize is the size in bytes of what a window takes from the arena at a time. A window's first and last chunk are half empty on
	// average. With chunks of 2 KiB, that is 2 % of a window of 100 KB; with 4 KiB, the sum with the headers of its messages would be
	// above 5 %.
	chunkSize = 2 << 10
	// slabChunks is how many chunks the arena allocates at once. A slab has no pointers, so the garbage collector does not look into it.
	slabChunks = 128
	slabSize   = slabChunks * chunkSize
	// batchSize is how many chunks change hands under one lock. It bounds how long the lock is held.
	batchSize = 64
)

// Arena is memory for windows. Any goroutine may use it.
type Arena struct {
	limit atomic.Int64 // bytes
	used  atomic.Int64 // bytes of the chunks that windows have

	// slabs has nil where a slab was given back. It is replaced under mu when it must grow; a slab's place in it changes under mu, but
	// only while no window has a chunk of that slab, so that a window may look its own chunks up without the lock.
	slabs atomic.Pointer[[]*slab]

	mu   sync.Mutex
	room []uint64 // guarded by mu: a bit for each slab that has a free chunk
	low  int      // guarded by mu: all words of room before this one are 0

	all       share // guarded by mu: the tree of who has how much
	returning int64 // guarded by mu: bytes of windows whose owners were asked to free them
	lastAsked int   // guarded by mu: chunks that the last of these had then
}

// slab is the memory of several chunks. All but bytes is guarded by the arena's mutex.
type slab struct {
	bytes *[slabSize]byte // each chunk's bytes belong to the window that has the chunk
	free  [slabChunks / 64]uint64
	count int  // of free chunks
	idle  bool // the last Trim found all chunks free, and none was taken since
}

// NewArena returns an arena that hands out at most limit bytes.
func NewArena(limit int64) *Arena {
	a := &Arena{}
	a.limit.Store(limit)
	a.slabs.Store(new([]*slab))
	return a
}

// SetLimit changes the limit. Windows keep what they have.
func (a *Arena) SetLimit(limit int64) { a.limit.Store(limit) }

// Limit returns how many bytes windows may hold.
func (a *Arena) Limit() int64 { return a.limit.Load() }

// Used returns how many bytes windows hold now, in whole chunks.
func (a *Arena) Used() int64 { return a.used.Load() }

// Held returns how many bytes the arena has from the garbage collector: those in use, and those that are free until [Arena.Trim].
func (a *Arena) Held() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var held int64
	for _, s := range *a.slabs.Load() {
		if s != nil {
			held += slabSize
		}
	}
	return held
}

// Trim gives the garbage collector those slabs of which no chunk was in use at the last call, nor is now. It is to be called now and then,
// such as once a minute.
func (a *Arena) Trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	slabs := *a.slabs.Load()
	for i, s := range slabs {
		switch {
		case s == nil || s.count < slabChunks:
		case !s.idle:
			s.idle = true
		default:
			slabs[i] = nil
			a.room[i/64] &^= 1 << (i % 64)
		}
	}
}

// reserve counts n more chunks as used, so that take cannot fail for them. It returns false if the window cannot have them. Where they are
// above the limit, owners of others are asked for theirs.
func (a *Arena) reserve(window *share, n int) bool {
	size := int64(n) * chunkSize
	if a.used.Add(size) <= a.limit.Load() {
		return true
	}
	may, ask := a.makeRoom(window)
	if !may {
		a.used.Add(-size)
	}
	for _, other := range ask {
		if other.owner.GiveUp != nil {
			other.owner.GiveUp()
		}
	}
	return may
}

// take fills ids with chunks that were reserved. There are at most batchSize.
func (a *Arena) take(window *share, ids []uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range ids {
		ids[i] = a.takeLocked()
	}
	a.countLocked(window, len(ids))
}

// takeLocked takes a free chunk from the first slab that has one, so that the last ones become empty after a rush. It gives up the lock
// while it allocates a slab.
func (a *Arena) takeLocked() uint32 {
	for {
		for a.low < len(a.room) && a.room[a.low] == 0 {
			a.low++
		}
		if a.low < len(a.room) {
			break
		}
		a.mu.Unlock()
		bytes := new([slabSize]byte)
		a.mu.Lock()
		a.addLocked(bytes)
	}
	number := a.low*64 + bits.TrailingZeros64(a.room[a.low])
	s := (*a.slabs.Load())[number]
	s.idle = false
	word := 0
	for s.free[word] == 0 {
		word++
	}
	bit := bits.TrailingZeros64(s.free[word])
	s.free[word] &^= 1 << bit
	if s.count--; s.count == 0 {
		a.room[a.low] &^= 1 << (number % 64)
	}
	return uint32(number*slabChunks + word*64 + bit)
}

// addLocked adds a slab whose chunks are all free.
func (a *Arena) addLocked(bytes *[slabSize]byte) {
	s := &slab{bytes: bytes, count: slabChunks}
	for i := range s.free {
		s.free[i] = ^uint64(0)
	}
	slabs := *a.slabs.Load()
	number := 0
	for number < len(slabs) && slabs[number] != nil {
		number++
	}
	if number == len(slabs) {
		larger := make([]*slab, max(16, 2*len(slabs)))
		copy(larger, slabs)
		a.slabs.Store(&larger)
		slabs = larger
	}
	slabs[number] = s
	for len(a.room) <= number/64 {
		a.room = append(a.room, 0)
	}
	a.room[number/64] |= 1 << (number % 64)
	a.low = min(a.low, number/64)
}

// give takes chunks back, at most batchSize.
func (a *Arena) give(window *share, ids []uint32) {
	a.mu.Lock()
	slabs := *a.slabs.Load()
	for _, id := range ids {
		number, bit := int(id/slabChunks), id%slabChunks
		s := slabs[number]
		if s.free[bit/64]&(1<<(bit%64)) != 0 {
			a.mu.Unlock()
			panic("replay: a chunk was given back twice")
		}
		s.free[bit/64] |= 1 << (bit % 64)
		s.count++
		a.room[number/64] |= 1 << (number % 64)
		a.low = min(a.low, number/64)
	}
	a.countLocked(window, -len(ids))
	a.mu.Unlock()
	a.used.Add(-int64(len(ids)) * chunkSize)
}

// chunk returns the bytes of a chunk, for the window that has it.
func (a *Arena) chunk(id uint32) *[chunkSize]byte {
	s := (*a.slabs.Load())[id/slabChunks]
	return (*[chunkSize]byte)(s.bytes[id%slabChunks*chunkSize:])
}
