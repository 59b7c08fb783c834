//go:build linux

package rivals

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// debian returns the path of a program: the installed one, or that of Debian's package, which it unpacks in the cache. It installs
// nothing on the machine.
func (o Options) debian(ctx context.Context, program string) (string, error) {
	if path := Find(program, "/usr/sbin/"+program); path != "" {
		return path, nil
	}
	dir := filepath.Join(o.Cache, "debian", program)
	inside := []string{filepath.Join(dir, "usr/bin", program), filepath.Join(dir, "usr/sbin", program)}
	if path := Find(inside...); path != "" {
		return path, nil
	}
	if o.Offline {
		return "", fmt.Errorf("%s is not installed, and nothing is to be installed", program)
	}
	if Find("apt-get") == "" || Find("dpkg") == "" {
		return "", fmt.Errorf("%s is not installed", program)
	}
	log.Printf("unpacking Debian's %s in the cache", program)
	download, err := os.MkdirTemp(o.Dir, program+"-")
	if err != nil {
		return "", err
	}
	if _, err := child.Output(ctx, download, "apt-get", "download", program); err != nil {
		return "", fmt.Errorf("%s is not installed, and Debian's package could not be had: %w", program, err)
	}
	packages, err := filepath.Glob(filepath.Join(download, "*.deb"))
	if err != nil || len(packages) != 1 {
		return "", errors.Join(fmt.Errorf("apt-get has brought %d packages for %s", len(packages), program), err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := child.Output(ctx, "", "dpkg", "-x", packages[0], dir); err != nil {
		return "", err
	}
	if path := Find(inside...); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("there is no program %s in Debian's package", program)
}

// environment returns the folder of a Python virtual environment in the cache with the packages of a requirements file. It makes the
// environment again when the file has changed.
func (o Options) environment(ctx context.Context, name, requirements string) (string, error) {
	dir := filepath.Join(o.Cache, name)
	text, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	mark, stamp := filepath.Join(dir, "ready"), fmt.Appendf(nil, "%x\n", sha256.Sum256(text))
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, stamp) {
		return dir, nil
	}
	if o.Offline {
		return "", errors.New("its Python packages are not installed, and nothing is to be installed")
	}
	interpreter := Find("python3")
	if interpreter == "" {
		return "", errors.New("python3 is not installed")
	}
	log.Printf("installing %s in the cache", name)
	if _, err := child.Output(ctx, "", interpreter, "-m", "venv", "--clear", dir); err != nil {
		return "", fmt.Errorf("no virtual environment (Debian: python3-venv): %w", err)
	}
	if _, err := child.Output(ctx, "", filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r", requirements); err != nil {
		return "", fmt.Errorf("its Python packages could not be installed: %w", err)
	}
	return dir, os.WriteFile(mark, stamp, 0o644)
}
