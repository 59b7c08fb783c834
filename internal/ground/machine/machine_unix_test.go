//go:build unix

package machine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// helper is an environment variable that makes a test the other process that it needs.
const helper = "WSBOUNCER_MACHINE_TEST"

// limited runs the test in a process with these file-descriptor limits, soft and hard.
func limited(t *testing.T, soft, hard int) string {
	t.Helper()
	script := fmt.Sprintf(`ulimit -S -n %d && ulimit -H -n %d && exec "$0" "$@"`, soft, hard)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// At the start, the runtime raises the soft limit to the hard one, and child processes get the former limit.
func TestSoftLimitIsRaised(t *testing.T) {
	if os.Getenv(helper) == "" {
		// The runtime marks a limit that it has raised by making it one less than the hard limit.
		if out := limited(t, 50, 90); !strings.Contains(out, "limit 90, a child's 50\n") && !strings.Contains(out, "limit 89, a child's 50\n") {
			t.Errorf("%s", out)
		}
		return
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "ulimit -S -n").Output()
	fmt.Printf("limit %d, a child's %s\n", Limit(), strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
}

// A listener with spare descriptors accepts connections when no other descriptor is left, again and again.
func TestKeepDescriptors(t *testing.T) {
	if os.Getenv(helper) == "" {
		if out := limited(t, 64, 64); !strings.Contains(out, "PASS") {
			t.Errorf("%s", out)
		}
		return
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := KeepDescriptors(inner)
	defer l.Close()
	exhaust := func() {
		for {
			if _, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); errors.Is(err, syscall.EMFILE) {
				return
			}
		}
	}
	clients := make([]int, 20) // opened now, because there will be no descriptor for them
	for i := range clients {
		if clients[i], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
			t.Fatal(err)
		}
	}
	exhaust()
	if n := countOnce(); n > 64 {
		t.Fatalf("%d descriptors", n)
	}
	to := &unix.SockaddrInet4{Port: inner.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	for i, fd := range clients {
		if err := unix.Connect(fd, to); err != nil {
			t.Fatal(err)
		}
		nc, err := l.Accept()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if err := nc.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(l.(*keeper).spare); n != spares {
			t.Errorf("after connection %d there are %d spare descriptors", i, n)
		}
	}
}

// Without spare descriptors, the error is the listener's.
func TestKeepDescriptorsGivesUp(t *testing.T) {
	l := &keeper{Listener: failing{}, spare: []*os.File{nil, nil}} // closing nil fails, which does not matter
	if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) || len(l.spare) != 0 {
		t.Errorf("%v, with %d left", err, len(l.spare))
	}
}

type failing struct{ net.Listener }

func (failing) Accept() (net.Conn, error) { return nil, syscall.EMFILE }

func TestCount(t *testing.T) {
	before, ok := countNow()
	if !ok {
		t.Skip("this system does not tell")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := countNow(); after != before+2 || countOnce() < after-1 {
		t.Errorf("%d, and with a pipe %d (one by one: %d)", before, after, countOnce())
	}
	_, _ = r.Close(), w.Close()
}
