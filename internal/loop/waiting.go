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
	WaitAuto  Wait = "auto"  // raw where that works
	WaitRaw   Wait = "raw"   // without telling the Go scheduler, which is cheaper; NewGroup fails where that does not work
	WaitBlock Wait = "block" // in an ordinary system call
)

// Waits returns the values of Wait.
func Waits() []string { return []string{string(WaitAuto), string(WaitRaw), string(WaitBlock)} }

// signaled tells whether the scheduler interrupts with signals what keeps a P. That can be switched off, for debugging; a loop
// that kept its P would then hold up a collection of garbage, and with it the whole process, for as long as its sockets are silent.
var signaled = !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")

// raw tells whether loops keep their P while they wait.
func (w Wait) raw() (bool, error) {
	switch {
	case !slices.Contains(Waits(), string(w)):
		return false, fmt.Errorf("%q does not say how loops wait: allowed are %s", string(w), strings.Join(Waits(), ", "))
	case w == WaitBlock:
		return false, nil
	case w == WaitAuto:
		return canWaitRaw && signaled, nil
	case !canWaitRaw:
		return false, errors.New("waiting without the scheduler (raw) is for Linux only")
	case !signaled:
		return false, errors.New("waiting without the scheduler (raw) needs its signals, which GODEBUG=asyncpreemptoff=1 turns off")
	}
	return true, nil
}
