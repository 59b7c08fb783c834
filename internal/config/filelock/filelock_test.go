package filelock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// lockHere makes the test binary take the lock of the file that it names, say so, and end when its input does.
const lockHere = "FILELOCK_TEST_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockHere); path != "" {
		if _, err := Lock(context.Background(), path); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("locked\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// waitInVain tries to lock a locked file for 5 s of the bubble's time.
func waitInVain(t *testing.T, path string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := Lock(ctx, path)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for the lock "+path+".lock") {
			t.Errorf("locking a locked file: %v; want the file's name and that the time was up", err)
		}
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited %v; want 5s", waited)
		}
	})
}

func TestLockKeepsOthersOfTheProcessOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	waitInVain(t, path)
	unlock()
	again, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := os.Stat(path + ".lock"); err != nil {
		t.Errorf("the lock's file did not stay: %v", err)
	}
}

func TestLockEndsWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), lockHere+"="+path)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Errorf("the other process has not locked the file: %v", err)
	} else {
		waitInVain(t, path)
	}
	_ = stdin.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLockWithoutDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "a")
	if _, err := Lock(t.Context(), path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path+".lock") {
		t.Errorf("got %v; want that %s.lock cannot be opened", err, path)
	}
}
