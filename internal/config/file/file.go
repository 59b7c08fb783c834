// Package file keeps a configuration in a YAML file, which an editor or a tool such as git may change as well: it is watched.
//
// A change through the store replaces the file in one step (rename), so that no reader sees half of it. Comments are not
// kept, but for those in profiles. What it said before is kept beside it, in the directory FILE.history, one file for each of
// the latest changes that were made through the store; of what others did to the file the store knows only what it finds
// at the next such change.
//
// What others write counts when it is there to stay (see settler). A file that is missing or empty is a store that fails: a
// configuration without services says so, by an empty mapping.
//
// The version of a file is a hash of its bytes.
package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/filelock"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// Store is a [config.Store] in a file.
type Store struct {
	path    string              // static
	check   config.ProfileCheck // static
	settler *settler            // static
	poller  *config.Poller      // static
	history history             // static
	closed  atomic.Bool
}

var _ config.Store = (*Store)(nil)

// defaultPoll is how often the file is looked at, and the time between two looks that must agree.
const defaultPoll = 250 * time.Millisecond

// Open returns the store in that file, which is looked at when the store is used. A file that does not exist yet is an empty
// configuration, and is made by the first change; its directory must exist. One that was there before, as this store has seen or
// options.Known says, is missing.
func Open(path string, options config.Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	s := &Store{path: path, check: options.Profiles, history: history{path + ".history"}}
	s.settler = &settler{path: path, gap: defaultPoll, seen: options.Known, complete: s.history.wrote}
	s.poller = config.NewPoller(defaultPoll, defaultPoll, s.settler.version)
	return s, nil
}

// settled returns the file's content when it is there to stay; nil if there never was a file.
func (s *Store) settled(ctx context.Context) ([]byte, error) {
	if s.closed.Load() {
		return nil, config.ErrClosed
	}
	l, err := s.settler.settled(ctx, true)
	if err != nil {
		return nil, err
	}
	return l.data, nil
}

// bytes returns the file's content as it is at this moment; nil if there is no file.
func (s *Store) bytes(ctx context.Context) ([]byte, error) {
	if s.closed.Load() {
		return nil, config.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := lookAt(s.path, nil)
	if errors.Is(l.err, config.ErrMissing) {
		return nil, nil
	}
	return l.data, l.err
}

// version returns the name of what a file says.
func version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Load implements [config.Store].
func (s *Store) Load(ctx context.Context) (*config.Snapshot, error) {
	data, err := s.settled(ctx)
	if err != nil {
		return nil, err
	}
	return s.snapshot(data)
}

// read reads the content of the file, nil for none, which must say something.
func (s *Store) read(data []byte) *decoder {
	d := read(s.path, data, false)
	if data != nil {
		d.mustDefine()
	}
	return d
}

func (s *Store) snapshot(data []byte) (*config.Snapshot, error) {
	d := s.read(data)
	snapshot, err := config.NewSnapshot(version(data), &d.content, s.check)
	if err := d.result(err); err != nil {
		return nil, err
	}
	return snapshot, nil
}

// Watch implements [config.Store].
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.poller.Watch(ctx) }

// Apply implements [config.Store]. While the file is not valid, only a change that replaces all of it can be made.
func (s *Store) Apply(ctx context.Context, change config.Change) (*config.Snapshot, error) {
	if err := change.Check(); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, config.ErrClosed
	}
	unlock, err := filelock.Lock(ctx, s.path)
	if err != nil {
		return nil, readOnly(err)
	}
	defer unlock()
	data, err := s.settled(ctx)
	if err != nil {
		return nil, err
	}
	if change.Expect != "" && change.Expect != version(data) {
		return nil, s.conflict(change.Expect, data)
	}
	d := s.read(data)
	current, invalid := d.content, d.result(d.content.Validate(nil))
	if invalid != nil {
		if change.Content == nil {
			return nil, fmt.Errorf("correct the file first: %w", invalid)
		}
		current = config.NewContent()
	}
	to, err := change.Apply(&current, s.check)
	if err != nil {
		return nil, err
	}
	if invalid == nil && to.Equal(&current) {
		return s.snapshot(data)
	}
	return s.write(data, &current, &to, change)
}

var errNotYAML = errors.New("cannot write the change as YAML (is the YAML of each profile valid?)")

// write replaces the file, and keeps what it said in the history.
func (s *Store) write(before []byte, current, to *config.Content, change config.Change) (*config.Snapshot, error) {
	after := Encode(to)
	written, err := Decode(s.path, after, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotYAML, err)
	}
	if !written.Equal(to) {
		return nil, errNotYAML
	}
	snapshot, err := config.NewSnapshot(version(after), to, nil)
	if err != nil {
		return nil, err
	}
	if err := s.history.keep(before, s.modified()); err != nil {
		return nil, readOnly(err)
	}
	if now, err := os.ReadFile(s.path); err == nil && !bytes.Equal(now, before) { // an editor does not know our lock
		return nil, s.conflict(version(before), now)
	}
	if err := Replace(s.path, after); err != nil {
		return nil, readOnly(err)
	}
	s.settler.count(&reading{version: version(after)})
	err = s.history.add(record{
		Version: version(after), At: time.Now(), Who: change.Who, Why: change.Why, Edits: config.Diff(current, to), File: string(after),
	})
	s.poller.Ring()
	if err != nil {
		return snapshot, fmt.Errorf("the change was made, but not recorded in the history: %w", err)
	}
	return snapshot, nil
}

// modified returns when the file was written; now if there is none.
func (s *Store) modified() time.Time {
	if info, err := os.Stat(s.path); err == nil {
		return info.ModTime()
	}
	return time.Now()
}

// conflict says who changed what since a version.
func (s *Store) conflict(expected string, data []byte) error {
	conflict := &config.ConflictError{Expected: expected, Current: version(data)}
	records, err := s.history.read()
	if err != nil {
		return errors.Join(conflict, err)
	}
	if len(records) == 0 || records[len(records)-1].Version != conflict.Current {
		records = append(records, outside(records, data, s.modified()))
	}
	known := func(r record) bool { return r.Version == expected }
	if expected != version(nil) && !slices.ContainsFunc(records, known) {
		records = records[len(records)-1:] // what else is new to the writer is not known
	}
	for i := len(records) - 1; i >= 0 && !known(records[i]); i-- {
		conflict.Since = append(conflict.Since, records[i].revision())
	}
	return conflict
}

// History implements [config.Store].
func (s *Store) History(ctx context.Context, limit int) (revisions []config.Revision, err error) {
	data, err := s.bytes(ctx)
	if err != nil {
		return nil, err
	}
	records, err := s.history.read()
	if err != nil {
		return nil, err
	}
	if data != nil && (len(records) == 0 || records[len(records)-1].Version != version(data)) {
		records = append(records, outside(records, data, s.modified()))
	}
	for i := len(records) - 1; i >= 0 && len(revisions) < limit; i-- {
		revisions = append(revisions, records[i].revision())
	}
	return revisions, nil
}

// At implements [config.Store].
func (s *Store) At(ctx context.Context, want string) (config.Content, error) {
	data, err := s.bytes(ctx)
	if err != nil {
		return config.Content{}, err
	}
	switch want {
	case version(data):
		return Decode(s.path, data, s.check)
	case version(nil): // before there was a file
		return config.NewContent(), nil
	}
	records, err := s.history.read()
	if err != nil {
		return config.Content{}, err
	}
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Version == want {
			return DecodeEarlier(s.path+" at version "+want, []byte(records[i].File), s.check)
		}
	}
	return config.Content{}, fmt.Errorf("%w: %q", config.ErrNoVersion, want)
}

// Close implements [config.Store].
func (s *Store) Close() error {
	s.closed.Store(true)
	s.poller.Close()
	return nil
}

// Replace writes a file in one step: a reader sees what it was or what it is to be. One that there is keeps its
// permissions and, if root replaces it, its owner; a symbolic link stays one. A new one is for the owner of its directory.
func Replace(path string, data []byte) error {
	if _, err := os.Stat(path); err == nil { // a link stays one
		if path, err = fileowner.Follow(path); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o640)
	before, err := os.Stat(path)
	if err == nil {
		if mode = before.Mode().Perm(); mode&0o200 == 0 {
			return &fs.PathError{Op: "write", Path: path, Err: fs.ErrPermission}
		}
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if before != nil {
		fileowner.Give(temporary, before)
	} else {
		fileowner.GiveToDirectory(temporary)
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
		fileowner.SyncDirectory(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// readOnly marks the errors of files and directories that cannot be written.
func readOnly(err error) error {
	if errors.Is(err, fs.ErrPermission) || isReadOnlySystem(err) {
		return fmt.Errorf("%w: %w", config.ErrReadOnly, err)
	}
	return fmt.Errorf("writing the configuration: %w", err)
}
