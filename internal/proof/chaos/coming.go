package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	// comers is how many well-behaved clients come during a siege at a time, each with a pause of comePause between two visits.
	comers    = 4
	comePause = 25 * time.Millisecond
	// comeTimeout is how long one of them may take to get in.
	comeTimeout = 10 * time.Second
)

// comesFrom returns the address from which the ith of them comes for the nth time: none that hostile clients have.
func comesFrom(i, n int) net.IP { return net.IPv4(127, 0, byte(1+i), byte(1+n%250)) }

// comingClients are well-behaved clients that come during a siege, ask for one echo, and leave in order.
type comingClients struct {
	// Static.
	address, path string
	tls           bool
	token         string // their credential; empty for none

	mu sync.Mutex
	arrivals
}

// arrivals is what has become of them.
type arrivals struct {
	took   []time.Duration // of those who got in, until their echo had come; sorted in a summary
	failed int
	err    error // of one that failed
}

// summary returns what has become of those who came.
func (c *comingClients) summary() *arrivals {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.took)
	all := c.arrivals
	return &all
}

// quantile returns the time within which that part of the clients got in.
func (a *arrivals) quantile(part float64) time.Duration {
	if len(a.took) == 0 {
		return 0
	}
	return a.took[int(part*float64(len(a.took)-1))]
}

// keepComing has the ith client visit the proxy again and again until ctx ends.
func (c *comingClients) keepComing(ctx context.Context, i int) {
	for n := 0; ctx.Err() == nil; n++ {
		took, err := c.visit(comesFrom(i, n))
		c.mu.Lock()
		if err != nil {
			c.failed++
			c.err = err
		} else {
			c.took = append(c.took, took)
		}
		c.mu.Unlock()
		_ = wait(ctx, comePause)
	}
}

// visit begins a session, asks for an echo, and ends it. It returns how long that took until the echo had come.
func (c *comingClients) visit(from net.IP) (took time.Duration, err error) {
	begun := time.Now()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Deadline: begun.Add(comeTimeout)}
	conn, err := dialer.Dial("tcp", c.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(begun.Add(comeTimeout))
	if c.tls {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // it is the proxy's own certificate
	}
	request := (&attack{path: c.path}).request("")
	if c.token != "" {
		request = strings.Replace(request, "\r\n\r\n", "\r\nAuthorization: Bearer "+c.token+"\r\n\r\n", 1)
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return 0, err
	}
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return 0, fmt.Errorf("refused with %s", response.Status)
	}
	if err := echo(conn, in, "is anybody there?"); err != nil {
		return 0, err
	}
	took = time.Since(begun)
	if _, err = conn.Write(fromClient(frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	return took, err
}

// fromClient returns a frame of a client.
func fromClient(op frame.Opcode, payload []byte) []byte {
	return frame.Append(nil, frame.Header{Fin: true, Opcode: op, Masked: true, Mask: 0x5eed}, payload)
}

// echo sends a text and reads its echo.
func echo(out io.Writer, in io.Reader, text string) error {
	if _, err := out.Write(fromClient(frame.Text, []byte(text))); err != nil {
		return err
	}
	want := frame.Append(nil, frame.Header{Fin: true, Opcode: frame.Text}, []byte(text))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("got %q instead of an echo", got)
	}
	return nil
}
