package loop

import (
	"fmt"
	"strings"
)

// IOURing says whether loops send with io_uring, so that what they write to several connections takes one system call.
type IOURing string

// The values of IOURing; the zero value is as IOURingOff.
const (
	IOURingAuto IOURing = "auto" // where the kernel allows it
	IOURingOn   IOURing = "on"   // NewGroup fails where the kernel does not
	IOURingOff  IOURing = "off"
)

// IOURings returns the values of IOURing.
func IOURings() []string { return []string{string(IOURingAuto), string(IOURingOn), string(IOURingOff)} }

func (u IOURing) invalid() error {
	return fmt.Errorf("%q does not say whether to use io_uring: allowed are %s", string(u), strings.Join(IOURings(), ", "))
}
