package machine

import (
	"os"
	"strings"
)

// Boot identifies the system's last start; empty if it is not known. Containers of one machine have the same.
func Boot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
