package app

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram gives back the pages of the program itself that were mapped for its start: the kernel maps those around each one
// that is touched, and the start touches a little of everything that is linked in, databases of all kinds included. What is needed
// again comes back from the page cache. It returns how many bytes are mapped less.
//
// Only mappings of the executable that cannot be written and have no page of their own (what a dynamic linker has changed, say) are
// given back: for these the file is the only source (madvise(2), MADV_DONTNEED).
func releaseProgram() (released int64) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0
	}
	defer maps.Close()
	var start, end uintptr
	var candidate bool
	var resident, own int64
	release := func() {
		if candidate && own == 0 && resident > 0 {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno == 0 {
				released += resident << 10
			}
		}
	}
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		line := lines.Text()
		var from, to uintptr
		var permissions string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &permissions); n == 3 {
			release()
			start, end, resident, own = from, to, 0, 1 // until it is said otherwise
			candidate = strings.HasSuffix(line, " "+path) && permissions[0] == 'r' && permissions[1] == '-' && permissions[3] == 'p'
			continue
		}
		if value, ok := strings.CutPrefix(line, "Rss:"); ok {
			_, _ = fmt.Sscan(value, &resident)
		} else if value, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			_, _ = fmt.Sscan(value, &own)
		}
	}
	release()
	return released
}
