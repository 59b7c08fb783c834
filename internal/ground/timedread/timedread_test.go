package timedread

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A file that hangs is waited for once, for a limited time, and is read again when it has ended; others are read meanwhile.
func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := reads{underWay: make(map[string]*underWay)}
		mount := make(chan struct{})
		expect := func(path string, read func(), want error, took time.Duration) {
			t.Helper()
			begun := time.Now()
			if err := reads.do(path, read); !errors.Is(err, want) || time.Since(begun) != took {
				t.Errorf("%s: %v after %v; want %v after %v", path, err, time.Since(begun), want, took)
			}
		}
		expect("hangs", func() { <-mount }, os.ErrDeadlineExceeded, Timeout)
		expect("hangs", func() { t.Error("it is read again") }, os.ErrDeadlineExceeded, 0)
		expect("other", func() { time.Sleep(time.Second) }, nil, time.Second)
		close(mount)
		synctest.Wait()
		go func() { _ = reads.do("slow", func() { time.Sleep(time.Second) }) }()
		synctest.Wait()
		expect("slow", func() { time.Sleep(2 * time.Second) }, nil, 3*time.Second) // after the one that is under way
		again := false
		expect("hangs", func() { again = true }, nil, 0)
		if !again {
			t.Error("it is not read again")
		}
	})
}
