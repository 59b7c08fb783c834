//go:build linux && !portableloop

package loop

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is an io_uring (io_uring(7)) that carries out several sends with one system call. When submit returns, each send has been
// carried out as far as it could be at once, and nothing is under way. So the ring is bound to no thread, and the memory that was
// sent from may be used again. Only the goroutine of its loop uses it.
type ring struct {
	// Static.
	fd             int
	rings, entries []byte       // memory shared with the kernel, in which the following lie
	submissions    []submission // written by the loop
	sqHead         *uint32      // written by the kernel
	sqTail         *uint32      // written by the loop
	sqMask         uint32
	completions    []completion // written by the kernel
	cqHead         *uint32      // written by the loop
	cqTail         *uint32      // written by the kernel
	cqMask         uint32

	// Owned by the loop's goroutine.
	tail uint32 // of submissions; submit tells the kernel
}

// openRing returns a ring for size submissions at a time, which must be a power of two. It tests the ring by sending scratch, which
// must be on the heap and have 24 KiB or more.
func openRing(size uint32, scratch []byte) (r *ring, err error) {
	p := ringParams{flags: setupSubmitAll}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(size), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r = &ring{fd: int(fd)}
	if err := r.mapMemory(&p); err != nil {
		r.close()
		return nil, fmt.Errorf("mapping the memory of an io_uring: %w", err)
	}
	if err := r.probe(scratch); err != nil {
		r.close()
		return nil, fmt.Errorf("sending with io_uring: %w", err)
	}
	return r, nil
}

// mapMemory maps the memory that is shared with the kernel.
func (r *ring) mapMemory(p *ringParams) (err error) {
	const access = unix.PROT_READ | unix.PROT_WRITE
	// Both rings are in one mapping since Linux 5.4.
	size := max(int(p.cq.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(completion{})), int(p.sq.array)+int(p.sqEntries)*4)
	if r.rings, err = unix.Mmap(r.fd, offsetRings, size, access, unix.MAP_SHARED); err != nil {
		return err
	}
	size = int(p.sqEntries) * int(unsafe.Sizeof(submission{}))
	if r.entries, err = unix.Mmap(r.fd, offsetEntries, size, access, unix.MAP_SHARED); err != nil {
		return err
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[offset])) }
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.sqHead, r.sqTail, r.sqMask = word(p.sq.head), word(p.sq.tail), *word(p.sq.mask)
	order := unsafe.Slice(word(p.sq.array), p.sqEntries)
	for i := range order {
		order[i] = uint32(i)
	}
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&r.rings[p.cq.cqes])), p.cqEntries)
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	return nil
}

// addSend adds a send of b, which must not be empty, and must be on the heap, where nothing moves. There must be room in the ring.
// With these flags the send never waits, and has a completion only if not everything was sent.
func (r *ring) addSend(fd int32, b []byte, tag uint64) {
	r.submissions[r.tail&r.sqMask] = submission{
		opcode: opSend, flags: submitSkipSuccess, fd: fd,
		address: uint64(uintptr(unsafe.Pointer(&b[0]))), length: uint32(len(b)),
		options: unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT | unix.MSG_WAITALL,
		tag:     tag,
	}
	r.tail++
}

// submit carries out the sends that were added. It returns how many of them, counted from the last, the kernel has not taken:
// none, unless it is out of memory.
func (r *ring) submit() (left int) {
	atomic.StoreUint32(r.sqTail, r.tail)
	for {
		left = int(r.tail - atomic.LoadUint32(r.sqHead))
		if left == 0 {
			return 0
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(left), 0, 0, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			r.tail -= uint32(left)
			atomic.StoreUint32(r.sqTail, r.tail)
			return left
		}
	}
}

// incomplete calls f for each send since its last call that has not sent everything, with the number of bytes sent, or the error. If f panics,
// the others are dropped: their tags would mean nothing to the next call. f must not call submit.
func (r *ring) incomplete(f func(tag uint64, sent int, errno unix.Errno)) {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	atomic.StoreUint32(r.cqHead, tail) // the kernel writes over completions only when submit is called
	for ; head != tail; head++ {
		c := r.completions[head&r.cqMask]
		if c.result < 0 {
			f(c.tag, 0, unix.Errno(-c.result))
		} else {
			f(c.tag, int(c.result), 0)
		}
	}
}

// close frees the ring.
func (r *ring) close() {
	if r.entries != nil {
		_ = unix.Munmap(r.entries)
	}
	if r.rings != nil {
		_ = unix.Munmap(r.rings)
	}
	_ = unix.Close(r.fd)
}

// probe tests what addSend and incomplete rely on, because a kernel may lack a part of io_uring or treat it differently. It sends b
// again and again until a socket takes no more. Only this last send may have a completion, at once, which says how much was sent.
func (r *ring) probe(b []byte) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10); err != nil {
		return err
	}
	const most = 1 << 20
	for sent := 0; sent < most; sent += len(b) {
		r.addSend(int32(fds[0]), b, 0)
		if r.submit() > 0 {
			return errors.New("the kernel does not take submissions")
		}
		completions, took, errno := 0, 0, unix.Errno(0)
		r.incomplete(func(_ uint64, n int, e unix.Errno) { completions, took, errno = completions+1, n, e })
		if completions == 0 {
			continue
		}
		if errno != 0 && errno != unix.EAGAIN {
			return errno
		}
		if arrived := drain(fds[1]); completions != 1 || arrived != sent+took {
			return fmt.Errorf("%d of %d bytes arrived", arrived, sent+took)
		}
		return nil
	}
	return fmt.Errorf("a socket takes more than %d bytes", most)
}

// drain reads everything that has arrived, and returns how many bytes that is.
func drain(fd int) (arrived int) {
	b := make([]byte, 8<<10)
	for {
		n, err := unix.Read(fd, b)
		if err != nil || n == 0 {
			return arrived
		}
		arrived += n
	}
}

// The rest of this file is the part of io_uring's interface to the kernel (linux/io_uring.h, io_uring_setup(2), io_uring_enter(2)) that ring
// uses. Package unix has only the numbers of the system calls.

// setupSubmitAll is a flag of io_uring_setup: a failing submission does not stop those after it (Linux 5.18).
const setupSubmitAll = 1 << 7

// Where mmap finds the parts of a ring.
const (
	offsetRings   = 0
	offsetEntries = 0x10000000
)

// opSend is the operation send(2).
const opSend = 26

// submitSkipSuccess is a flag of a submission: there is no completion if it succeeds (Linux 5.17).
const submitSkipSuccess = 1 << 6

// submission is struct io_uring_sqe.
type submission struct {
	opcode  uint8
	flags   uint8
	_       uint16
	fd      int32
	_       uint64
	address uint64
	length  uint32
	options uint32 // the operation's flags
	tag     uint64 // user_data
	_       [24]byte
}

// completion is struct io_uring_cqe.
type completion struct {
	tag    uint64
	result int32
	_      uint32
}

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, _, _, _, _ uint32
	_                                       [3]uint32
	sq                                      struct {
		head, tail, mask, _, _, _, array, _ uint32
		_                                   uint64
	}
	cq struct {
		head, tail, mask, _, _, cqes, _, _ uint32
		_                                  uint64
	}
}
