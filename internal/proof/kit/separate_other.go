//go:build !unix

package kit

import "os/exec"

// Separate does nothing on this system.
func Separate(*exec.Cmd) {}
