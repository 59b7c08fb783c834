//go:build linux && !portableloop

package loop

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// probe tries out what sends rely on. A kernel may refuse io_uring, know it without what is needed, or know that to be different.
// It sends b again and again until a socket takes no more. Only that may be told of, at once, together with how much it took.
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
			return errors.New("submissions are not taken")
		}
		told, took, errno := 0, 0, unix.Errno(0)
		r.short(func(_ uint64, n int, e unix.Errno) { told, took, errno = told+1, n, e })
		if told == 0 {
			continue
		}
		if errno != 0 && errno != unix.EAGAIN {
			return errno
		}
		if arrived := drain(fds[1]); told != 1 || arrived != sent+took {
			return fmt.Errorf("%d bytes arrived of %d", arrived, sent+took)
		}
		return nil
	}
	return errors.New("there is no end to what a socket takes")
}

// drain reads all that has arrived, and returns how many bytes that is.
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
