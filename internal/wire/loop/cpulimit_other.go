//go:build !linux

package loop

import "runtime"

// cpuLimit returns how many processors the process may use.
func cpuLimit() float64 { return float64(runtime.NumCPU()) }
