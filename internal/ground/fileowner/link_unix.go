//go:build unix

package fileowner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// NoFollow lets opening a file fail where its name is a symbolic link.
const NoFollow = syscall.O_NOFOLLOW

// maxLinks is how many links are followed, as many as Linux follows.
const maxLinks = 40

// Follow returns where a path leads over symbolic links; the file may be missing. For root it is an error if another user's link
// would have it write where they may not: a link that root has not made must lead to a file of its maker.
func Follow(path string) (string, error) {
	name, maker := path, -1 // -1: only links that may lead anywhere
	for range maxLinks {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && maker >= 0:
			return "", fmt.Errorf("%s is a symbolic link of another user (%d) to a missing file: remove it", name, maker)
		case errors.Is(err, fs.ErrNotExist):
			return path, nil
		case err != nil:
			return "", err
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		switch isLink := info.Mode()&fs.ModeSymlink != 0; {
		case maker >= 0 && owner != maker:
			return "", fmt.Errorf("%s is a symbolic link of another user (%d) to a file that is not theirs: remove it", name, maker)
		case !isLink:
			return path, nil
		case owner != 0 && os.Geteuid() == 0:
			maker = owner
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
}
