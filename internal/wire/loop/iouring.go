package loop

import (
	"fmt"
	"slices"
	"strings"
)

// IOURing says whether loops send with io_uring, which takes one system call for writes to several connections.
type IOURing string

// The values of IOURing.
const (
	IOURingAuto IOURing = "auto" // where the kernel allows it
	IOURingOn   IOURing = "on"   // NewGroup fails where the kernel does not
	IOURingOff  IOURing = "off"
)

// IOURings returns the values of IOURing.
func IOURings() []string { return []string{string(IOURingAuto), string(IOURingOn), string(IOURingOff)} }

// check returns an error if u is none of the values.
func (u IOURing) check() error {
	if slices.Contains(IOURings(), string(u)) {
		return nil
	}
	return fmt.Errorf("unknown way to send %q: use one of %s", string(u), strings.Join(IOURings(), ", "))
}
