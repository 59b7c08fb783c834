package accesslog

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// output is the file that a log writes to. It belongs to the writer's goroutine.
type output struct {
	path string   // static
	file *os.File // nil while none is open
	info os.FileInfo
	cut  bool // what was written last ends within a line
}

// writeTimeout bounds a write to what can have a deadline: a named pipe or a terminal.
const writeTimeout = time.Second

// opened is a file that was just opened.
type opened struct {
	*os.File
	info os.FileInfo
}

// openPath opens the file that has the path. It does not wait for the reader of a named pipe: without one, it fails.
func (o *output) openPath() (opened, error) {
	if _, err := fileowner.Follow(o.path); err != nil {
		return opened{}, err
	}
	file, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|doNotWait, 0o640)
	if err != nil {
		return opened{}, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !o.is(info) && endsWithinLine(o.path) {
		_, err = file.Write([]byte{'\n'}) // a proxy before this one could not write all of its last line
	}
	if err != nil {
		_ = file.Close()
		return opened{}, err
	}
	return opened{file, info}, nil
}

// endsWithinLine reports whether the file's last byte is known not to be a line break.
func endsWithinLine(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false // it may be written, and not be read
	}
	defer file.Close()
	var last [1]byte
	if _, err := file.Seek(-1, io.SeekEnd); err != nil {
		return false
	}
	_, err = file.Read(last[:])
	return err == nil && last[0] != '\n'
}

// set replaces the present file by another opened one. It returns whether it is another file.
func (o *output) set(file opened) (another bool) {
	another = !o.is(file.info)
	_ = o.close()
	o.file, o.info = file.File, file.info
	return another
}

// is reports whether the file is the one that is or was open.
func (o *output) is(info os.FileInfo) bool {
	return o.info != nil && info.Mode().IsRegular() && os.SameFile(o.info, info)
}

// write writes bytes, and returns how many.
func (o *output) write(b []byte) (int, error) {
	_ = o.file.SetWriteDeadline(time.Now().Add(writeTimeout)) // regular files have none
	n, err := o.file.Write(b)
	if n > 0 {
		o.cut = b[n-1] != '\n'
	}
	// A file on a full disk, and a slow reader of a pipe, may take the rest later. With anything else, open the file anew.
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = o.close()
	}
	return n, err
}

// moved reports whether the path leads to another file than the one that is open, or to none.
func (o *output) moved() bool {
	if o.file == nil || !o.info.Mode().IsRegular() {
		return false
	}
	now, err := os.Stat(o.path)
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(o.info, now)
}

// close closes the file if one is open.
func (o *output) close() error {
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	o.file = nil
	return err
}

// trouble says in the process's log when the file cannot be written, and when it can be written again: once each, and not more often
// than every ten seconds if the file keeps changing its mind. It belongs to the writer's goroutine.
type trouble struct {
	log     *slog.Logger
	said    bool      // the log has a line about the present failure
	last    time.Time // when the log got the last line
	leftOut uint64    // lines left out that the log knows of
}

// failed notes a failure, unless the error is nil. It returns whether there was one.
func (t *trouble) failed(err error) bool {
	if err == nil {
		return false
	}
	if !t.said && time.Since(t.last) >= quiet {
		t.said, t.last = true, time.Now()
		t.log.Warn("the access log cannot be written: trying again every second", "error", err)
	}
	return true
}

// over notes that everything could be written, and how many lines were left out so far.
func (t *trouble) over(leftOut uint64) {
	lines := leftOut - t.leftOut
	switch {
	case t.said:
		t.log.Info("the access log is written again", "lines_left_out", lines)
		t.leftOut = leftOut
	case lines > 0 && time.Since(t.last) >= quiet:
		t.log.Warn("the access log is written too slowly: lines were left out", "lines_left_out", lines)
		t.leftOut, t.last = leftOut, time.Now()
	}
	t.said = false
}

// forget has the next failure logged whatever was logged before.
func (t *trouble) forget() { t.said, t.last = false, time.Time{} }
