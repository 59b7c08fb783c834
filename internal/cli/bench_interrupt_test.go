//go:build unix

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// interrupter interrupts the process when the word is written to it.
type interrupter struct {
	bytes.Buffer
	word string
	done bool
}

func (i *interrupter) Write(b []byte) (int, error) {
	n, err := i.Buffer.Write(b)
	if !i.done && strings.Contains(i.String(), i.word) {
		i.done = true
		err = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}
	return n, err
}

func TestBenchThatIsInterruptedPrintsWhatItHas(t *testing.T) {
	url := simulated(t, sim.Options{})
	page := filepath.Join(t.TempDir(), "report.html")
	var stdout bytes.Buffer
	stderr := interrupter{word: "steady\n"}
	status := Main([]string{"bench", url, "-c", "3", "-r", "1000", "-d", "1h", "--report", page}, &stdout, &stderr)
	if status != 0 || !strings.Contains(stderr.String(), "done\n") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	for _, part := range []string{"interrupted", "3 of 3", "0 lost"} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("no %q in\n%s", part, stdout.String())
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "interrupted") {
		t.Errorf("%v: %s", err, html)
	}
}
