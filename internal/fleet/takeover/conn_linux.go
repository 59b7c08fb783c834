package takeover

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage is the maximum size of a message in bytes.
const maxMessage = 64 << 10

// conn sends and receives messages. One goroutine uses it.
type conn struct{ nc *net.UnixConn }

// until ends what waits on the connection when ctx has ended and the grace has passed, until the returned function is called once, which
// reports whether ctx has not ended before.
func (c *conn) until(ctx context.Context, grace time.Duration) (stop func() bool) {
	expired := make(chan struct{})
	cancelled := context.AfterFunc(ctx, func() {
		defer close(expired)
		if grace > 0 {
			_ = c.nc.SetDeadline(time.Now().Add(grace))
			return
		}
		_ = c.nc.SetDeadline(time.Unix(1, 0))
	})
	return func() bool {
		if !cancelled() {
			<-expired // its deadline must not replace the next one
			return false
		}
		_ = c.nc.SetDeadline(time.Time{})
		return true
	}
}

// send sends a message, with the descriptor of a listening socket unless that is nil.
func (c *conn) send(m *message, with syscall.Conn) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxMessage {
		return fmt.Errorf("the message %s has %d bytes, at most %d can be sent", m.Type, len(body), maxMessage)
	}
	packet := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if with == nil {
		_, err := c.nc.Write(packet)
		return err
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return err
	}
	var sent int
	// The kernel duplicates the descriptor, which is not closed meanwhile.
	failed := raw.Control(func(fd uintptr) { sent, _, err = c.nc.WriteMsgUnix(packet, unix.UnixRights(int(fd)), nil) })
	if err == nil {
		err = failed
	}
	if err == nil && sent < len(packet) { // the descriptor went with the first byte
		_, err = c.nc.Write(packet[sent:])
	}
	return err
}

// receive returns the next message, and the file that came with it; nil for none. It returns [io.EOF] if the other side has closed the
// connection.
func (c *conn) receive() (m *message, file *os.File, err error) {
	var files []*os.File
	defer func() {
		if err == nil && len(files) > 1 {
			err = errors.New("a message came with more than one descriptor")
		}
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return
		}
		if len(files) == 1 {
			file = files[0]
		}
	}()
	var size [4]byte
	if err := c.read(size[:], &files); err != nil {
		return nil, nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxMessage {
		return nil, nil, fmt.Errorf("the length of a message is %d bytes, and at most %d are allowed: the other process does not speak the take-over protocol", n, maxMessage)
	}
	body := make([]byte, n)
	if err := c.read(body, &files); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, err
	}
	m = new(message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, nil, fmt.Errorf("a message is not understood: %w", err)
	}
	return m, nil, nil
}

// read fills b, and collects the descriptors that come with it.
func (c *conn) read(b []byte, files *[]*os.File) error {
	for len(b) > 0 {
		control := make([]byte, unix.CmsgSpace(4*4))
		n, controlled, flags, _, err := c.nc.ReadMsgUnix(b, control) // sets close-on-exec
		if err != nil {
			return err
		}
		got, err := descriptors(control[:controlled])
		*files = append(*files, got...)
		switch {
		case err != nil:
			return err
		case flags&unix.MSG_CTRUNC != 0:
			return errors.New("a socket was lost on its way, since this process has no file descriptor free: raise the limit of open files (LimitNOFILE= of systemd, ulimit -n)")
		case n == 0:
			return io.EOF
		}
		b = b[n:]
	}
	return nil
}

// descriptors returns the files in a control message.
func descriptors(control []byte) (files []*os.File, err error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if messages[i].Header.Level != unix.SOL_SOCKET || messages[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "socket"))
		}
	}
	return files, nil
}

// Supported returns nil where a take-over is available.
func Supported() error { return nil }

// Instance identifies a state directory, by whatever path a process reaches it. It is empty for none, and if there is none yet.
func Instance(directory string) string {
	if directory == "" {
		return ""
	}
	var info unix.Stat_t
	if err := unix.Stat(directory, &info); err != nil {
		return ""
	}
	return fmt.Sprintf("%x:%x", info.Dev, info.Ino)
}
