package follow

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
)

const twoServices = "services:\n  stt: {path: /v1}\n  mt: {path: /mt}\nbackends:\n  gpu-1: {service: stt, url: ws://10.0.0.1:27000/}\n"

// fileRig is a follower of a YAML file.
type fileRig struct {
	*Follower
	t              *testing.T
	path, copyFile string
	log            journal
	services       int // in force
}

func newFileRig(t *testing.T) *fileRig {
	t.Helper()
	directory := t.TempDir()
	r := &fileRig{t: t, path: filepath.Join(directory, "config.yaml"), copyFile: filepath.Join(directory, "last-good.yaml")}
	r.write(twoServices)
	return r
}

func (r *fileRig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// start follows the file until the bubble's test ends.
func (r *fileRig) start(t *testing.T) {
	t.Helper()
	store, err := file.Open(r.path, config.Options{Known: IsCopy(r.copyFile, r.path)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r.Follower, err = Start(context.Background(), Options{
		Store: store, Source: r.path, CopyFile: r.copyFile, Log: slog.New(&r.log),
		Apply: func(s *config.Snapshot) error {
			r.services = len(s.Content().Services)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
}

func (r *fileRig) settle() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// inForce checks that this number of services is in force, and how good that is.
func (r *fileRig) inForce(t *testing.T, what string, services int, state State) {
	t.Helper()
	if s := r.Status(); r.services != services || s.State != state {
		t.Errorf("%s: %d services are in force, %+v; want %d, %s", what, r.services, s, services, state)
	}
}

// Whatever becomes of the file, what was good stays in force and in the copy, until there is something good in the file again.
func TestFileLost(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed":       os.Remove,
		"truncated":     func(path string) error { return os.Truncate(path, 0) },
		"only comments": func(path string) error { return os.WriteFile(path, []byte("# nothing\n"), 0o600) },
		"only keys":     func(path string) error { return os.WriteFile(path, []byte("services:\nbackends:\n"), 0o600) },
		"a directory": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFileRig(t)
			kept := ""
			synctest.Test(t, func(t *testing.T) {
				r.start(t)
				r.settle()
				r.inForce(t, "at first", 2, Current)
				data, err := os.ReadFile(r.copyFile)
				if err != nil {
					t.Fatal(err)
				}
				kept = string(data)
				if err := spoil(r.path); err != nil {
					t.Fatal(err)
				}
				r.settle()
				r.inForce(t, "while it is lost", 2, Stale)
				if n := r.log.count(cannotFollow); n != 1 {
					t.Errorf("%d lines in the log; want 1", n)
				}
			})
			if name != "a directory" { // which is an error that a start may refuse
				synctest.Test(t, func(t *testing.T) {
					r.start(t)
					r.settle()
					r.inForce(t, "after a start without it", 2, Copied)
				})
			}
			if data, err := os.ReadFile(r.copyFile); err != nil || string(data) != kept {
				t.Errorf("the copy became %v\n%s\nfrom\n%s", err, data, kept)
			}
			if err := os.RemoveAll(r.path); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				r.write("services: {}\n")
				r.start(t)
				r.settle()
				r.inForce(t, "without services", 0, Current)
				r.write(twoServices)
				r.settle()
				r.inForce(t, "with services", 2, Current)
			})
		})
	}
}

// A start that meets a file which is just being written waits for the rest of it, and does not go by a part.
func TestStartWhileWritten(t *testing.T) {
	cut := strings.Index(twoServices, "  mt:")
	for _, n := range []int{0, cut, len(twoServices) - 4} {
		r := newFileRig(t)
		synctest.Test(t, func(t *testing.T) {
			r.write(twoServices[:n])
			go func() {
				time.Sleep(50 * time.Millisecond)
				r.write(twoServices)
			}()
			begun := time.Now()
			r.start(t)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("it took %v", took)
			}
			r.inForce(t, "at the start", 2, Current)
		})
	}
}
