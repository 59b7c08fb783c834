package loop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Wait says how loops wait for their sockets while these are busy.
type Wait string

// The values of Wait.
const (
	WaitAuto  Wait = "auto"  // like WaitRaw where that works, and like WaitBlock elsewhere
	WaitRaw   Wait = "raw"   // without telling the Go scheduler, which costs less; NewGroup fails where that does not work
	WaitBlock Wait = "block" // in an ordinary system call
)

// Waits returns the values of Wait.
func Waits() []string { return []string{string(WaitAuto), string(WaitRaw), string(WaitBlock)} }

// preemptible reports whether the scheduler sends signals to threads that keep a P. This can be turned off, for debugging. A loop that
// kept its P would then block a garbage collection, and with it the whole process, for as long as its sockets are silent.
var preemptible = !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")

// raw reports whether loops keep their P while they wait.
func (w Wait) raw() (bool, error) {
	switch {
	case !slices.Contains(Waits(), string(w)):
		return false, fmt.Errorf("unknown way to wait %q: use one of %s", string(w), strings.Join(Waits(), ", "))
	case w == WaitBlock:
		return false, nil
	case w == WaitAuto:
		return canWaitRaw && preemptible, nil
	case !canWaitRaw:
		return false, errors.New("waiting outside the Go scheduler needs Linux")
	case !preemptible:
		return false, errors.New("waiting outside the Go scheduler needs its signals, which GODEBUG=asyncpreemptoff=1 turns off")
	}
	return true, nil
}
