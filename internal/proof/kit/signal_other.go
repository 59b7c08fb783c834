//go:build !unix

package proxyprocess

import (
	"os/exec"
)

// Separate does nothing on this system.
func Separate(*exec.Cmd) {}
