//go:build unix

package processlog

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A reader that stands still stops nobody who writes. When it reads on, it gets the lines in their order, but those for which there was no room.
func TestReaderStandsStill(t *testing.T) {
	reader, file, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer file.Close()
	missing := make(chan int, 1)
	w := New(file, func(lines int) { missing <- lines })
	const lines = 4000
	rest := strings.Repeat("x", 700)
	for i := range lines {
		fmt.Fprintf(w, "%d %s\n", i, rest)
	}
	read := make(chan int, 1)
	go func() {
		got, last := 0, -1
		for all := bufio.NewScanner(reader); last < lines && all.Scan(); got++ {
			n := -1
			if _, err := fmt.Sscan(all.Text(), &n); err != nil || n <= last || !strings.HasSuffix(all.Text(), rest) {
				t.Errorf("%.40q behind line %d", all.Text(), last)
			}
			last = n
		}
		read <- got
	}()
	left := wstest.Receive(t, missing, "what was left out")
	fmt.Fprintf(w, "%d %s\n", lines, rest)
	if got := wstest.Receive(t, read, "the end"); got < 1000 || left < 1000 || got+left != lines+1 {
		t.Errorf("%d lines were read, %d left out, of %d", got, left, lines+1)
	}
	w.Close()
}

// The rest is written at the end, and a reader that is gone or stands still does not delay that for long.
func TestClose(t *testing.T) {
	for _, gone := range []bool{false, true} {
		reader, file, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w := New(file, nil)
		for range 200 {
			fmt.Fprintln(w, strings.Repeat("x", 1000))
		}
		if gone {
			_ = reader.Close()
		} else {
			go func() {
				for b := make([]byte, 1<<10); ; {
					if _, err := reader.Read(b); err != nil {
						return
					}
				}
			}()
		}
		w.Close()
		<-w.ended
		_ = file.Close()
		_ = reader.Close()
	}
}
