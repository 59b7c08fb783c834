package takeover

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// CheckOwners returns an error unless only root and the user of this process can say what the program at a path is: the file, and each directory
// above it, belong to one of them, and no other user can write to them. In a directory with the sticky bit, such as /tmp, no other can
// replace what belongs to these users. The path is absolute, and without symbolic links: others could redirect those.
func CheckOwners(path string) error {
	for at, is := path, "file"; ; at, is = filepath.Dir(at), "directory" {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		switch mode := info.Mode(); {
		case is == "file" && !mode.IsRegular():
			return fmt.Errorf("%s is not a regular file", at)
		case owner != 0 && owner != os.Geteuid():
			return fmt.Errorf("the %s %s belongs to uid %d: it must belong to root or to the user of the proxy (uid %d)", is, at, owner, os.Geteuid())
		case mode.Perm()&0o022 != 0 && (is == "file" || mode&os.ModeSticky == 0):
			return fmt.Errorf("the %s %s has mode %04o: only its owner may write to it (chmod go-w %[2]s)", is, at, mode.Perm())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
