package loop

import (
	"fmt"
	"slices"
	"strings"
)

// IOURing says whether loops send with io_uring, so that what they write to several connections takes one system call.
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
	return fmt.Errorf("%q does not say whether to use io_uring: allowed are %s", string(u), strings.Join(IOURings(), ", "))
}
