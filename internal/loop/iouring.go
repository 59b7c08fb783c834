package loop

import "fmt"

// IOURing says whether loops send with io_uring, so that what they write to several connections takes one system call.
type IOURing string

// The values of IOURing; the zero value is as IOURingOff.
const (
	IOURingAuto IOURing = "auto" // where the kernel allows it
	IOURingOn   IOURing = "on"   // NewGroup fails where the kernel does not
	IOURingOff  IOURing = "off"
)

func (u IOURing) invalid() error {
	return fmt.Errorf("%q does not say whether to use io_uring: allowed are %s, %s and %s", string(u), IOURingAuto, IOURingOn, IOURingOff)
}
