//go:build linux && !portableloop

package loop

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

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
