package realservers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// errSkipped marks a server that cannot be run on this machine.
var errSkipped = errors.New("skipped")

// environment is where a server is installed.
type environment struct {
	python string // the program
	source string // path of the checkout; empty for none
}

// installTimeout bounds the time of each step of an installation.
const installTimeout = 20 * time.Minute

// install makes a server's environment below a directory unless it is there. sources is a directory with checkouts, each in a folder with the name of
// its repository; empty for none.
func (s *Server) install(ctx context.Context, directory, sources string) (*environment, error) {
	e := new(environment)
	if s.command != nil {
		return e, nil
	}
	if s.Source.Repository != "" {
		var err error
		if e.source, err = s.checkout(ctx, directory, sources); err != nil {
			return nil, fmt.Errorf("%w: %w", errSkipped, err)
		}
	}
	home := filepath.Join(directory, s.name)
	e.python = filepath.Join(home, "bin", "python")
	marker, pins := filepath.Join(home, "installed"), sha256.New()
	steps := [][]string{{"python" + cmp.Or(s.Python, "3"), "-m", "venv", "--clear", home}}
	for _, list := range []struct{ file, option string }{{"requirements.txt", "--prefer-binary"}, {"nodeps.txt", "--no-deps"}} {
		text, err := os.ReadFile(filepath.Join(s.folder, list.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(pins, "%s\n%s\n", list.file, text)
		steps = append(steps, []string{e.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", list.option, "-r", filepath.Join(s.folder, list.file)})
	}
	want := hex.EncodeToString(pins.Sum(nil))
	if has, _ := os.ReadFile(marker); string(has) == want {
		return e, nil
	}
	for _, step := range steps {
		if err := command(ctx, step...); err != nil {
			return nil, fmt.Errorf("%w: it cannot be installed: %w", errSkipped, err)
		}
	}
	return e, os.WriteFile(marker, []byte(want), 0o600)
}

// checkout returns the path of the server's program at its commit.
func (s *Server) checkout(ctx context.Context, directory, sources string) (string, error) {
	name := strings.TrimSuffix(path.Base(s.Source.Repository), ".git")
	given := filepath.Join(sources, name)
	if sources != "" {
		if head, err := exec.CommandContext(ctx, "git", "-C", given, "rev-parse", "HEAD").Output(); err == nil {
			if has := strings.TrimSpace(string(head)); has != s.Source.Commit {
				return "", fmt.Errorf("%s is at the commit %s: check out %s", given, has, s.Source.Commit)
			}
			return given, nil
		}
	}
	home := filepath.Join(directory, "sources", name+"-"+s.Source.Commit[:7])
	if _, err := os.Stat(filepath.Join(home, ".git", "FETCH_HEAD")); err == nil {
		return home, command(ctx, "git", "-C", home, "checkout", "--quiet", s.Source.Commit)
	}
	for _, step := range [][]string{
		{"git", "init", "--quiet", home},
		{"git", "-C", home, "fetch", "--quiet", "--depth", "1", s.Source.Repository, s.Source.Commit},
		{"git", "-C", home, "checkout", "--quiet", s.Source.Commit},
	} {
		if err := command(ctx, step...); err != nil {
			return "", fmt.Errorf("no checkout of %s is below SERVERS_SRC, and it cannot be cloned: %w", name, err)
		}
	}
	return home, nil
}

// command runs a command.
func command(ctx context.Context, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	c.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	out, err := c.CombinedOutput()
	if err != nil {
		last := bytes.TrimSpace(out)
		last = last[bytes.LastIndexByte(last, '\n')+1:]
		return fmt.Errorf("%s: %w: %.300s", strings.Join(arguments[:min(4, len(arguments))], " "), err, last)
	}
	return nil
}
