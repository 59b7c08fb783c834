//go:build linux && !portableloop

package loop

// This file is the part of io_uring's interface to the kernel (linux/io_uring.h, io_uring_setup(2), io_uring_enter(2)) that ring
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
