package presence

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// directory is the folder with the locks of all processes of a state directory. The zero value is none.
type directory struct {
	path     string
	id       fleet.ID               // of this process
	instance atomic.Pointer[string] // nil as long as it is not known
	// own is the lock of the process's own file; of the folder itself if whole. It is owned by openDirectory, then by tidy, and at last by close.
	own *flock.Flock
	// whole: the disk takes no file, so the process holds the lock of the folder, which only one can have.
	whole atomic.Bool
	// unsigned: the disk took no signature, so that others cannot prove the end of this process yet. It is owned by openDirectory, and then by tidy.
	unsigned     bool
	otherLedgers bool // static after Open: not all processes with locks here are in one ledger
	// The processes that were in the ledger, and since when locks of others were seen to be free. Owned by tidy.
	known     map[fleet.ID]bool
	freeSince map[fleet.ID]time.Time
}

// strangersAfter is for how long a lock must have been free before it is removed if its process may be in another ledger, that of another SQLite
// database in this directory: there, only the lock proves its end.
const strangersAfter = 24 * time.Hour

// record is what the file instance of the folder has. A copy of the folder, on another machine or on this one, must not pass for the
// original, whose processes hold no locks in the copy: so it says where the original is.
type record struct {
	Instance string `json:"instance"`
	Folder   string `json:"folder"`            // which folder it is: its inode, where there is one
	Boot     string `json:"boot,omitempty"`    // the system's last start
	Machine  string `json:"machine,omitempty"` // the machine, over restarts of the system; empty if it cannot be told from its clones
}

const (
	folder       = "fleet"
	instanceFile = "instance.json"
	lockSuffix   = ".lock"
	holdSuffix   = ".held"
)

// openDirectory makes the folder if it is missing, and takes the lock of this process. If the disk is full or read-only, there may be both a
// directory and an error: the process knows whether it is alone, and others cannot prove its end before tidy has caught up.
func openDirectory(state string, id fleet.ID) (*directory, error) {
	path := filepath.Join(state, folder)
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if kind := machine.NetworkFile(path); kind != "" {
		return nil, fmt.Errorf("%s is on %s, whose locks do not prove that a process has ended: use a state-directory on a local disk", state, kind)
	}
	d := &directory{path: path, id: id}
	unidentified := d.identify()
	if unidentified != nil && !machine.Disk(unidentified) {
		return nil, unidentified
	}
	own, err := take(d.lockFile(id))
	if err == nil {
		d.own = own
		unsigned := sign(own.Path())
		d.unsigned = unsigned != nil
		return d, errors.Join(unidentified, unsigned)
	}
	if !machine.Disk(err) || !d.takeFolder() {
		return nil, err
	}
	return d, err
}

// sleep waits for another process that looks at a lock.
func sleep() { time.Sleep(10 * time.Millisecond) }

// takeFolder takes the lock of the folder itself, and reports whether it could: another process may have it, and not every system has such locks.
func (d *directory) takeFolder() bool {
	for range 10 {
		lock := flock.New(d.path, flock.SetFlag(os.O_RDONLY))
		locked, err := lock.TryLock()
		if err != nil {
			return false
		}
		if locked {
			d.own = lock
			d.whole.Store(true)
			return true
		}
		sleep() // another process may look at it just now
	}
	return false
}

// isFolderFree reports whether no other process holds the lock of the folder itself.
func (d *directory) isFolderFree() bool {
	if d.whole.Load() {
		return true
	}
	lock := flock.New(d.path, flock.SetFlag(os.O_RDONLY))
	locked, err := lock.TryLock()
	if err != nil {
		return true // no process can have it here
	}
	_ = lock.Unlock()
	return locked
}

// take makes a lock's file and takes its lock. Another process may remove the file meanwhile, if the lock is not taken yet.
func take(path string) (*flock.Flock, error) {
	for range 10 {
		if file, err := fileowner.Create(path, 0o640); err == nil {
			_ = file.Close()
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		lock := flock.New(path, flock.SetFlag(os.O_RDWR|fileowner.NoFollow))
		locked, err := lock.TryLock()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !locked { // another process may look at it just now
			sleep()
			continue
		}
		if isFile(lock, path) {
			return lock, nil
		}
		_ = lock.Unlock()
	}
	return nil, fmt.Errorf("%s is another process's lock, or is removed again and again", path)
}

// isFile reports whether a lock's file is the one at the path.
func isFile(lock *flock.Flock, path string) bool {
	held, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}

func (d *directory) lockFile(id fleet.ID) string {
	return filepath.Join(d.path, string(id)+lockSuffix)
}

// identify finds out which folder this is, and gives a copy its own identity.
func (d *directory) identify() error {
	path := filepath.Join(d.path, instanceFile)
	guard, err := take(path + lockSuffix)
	for tries := 0; err != nil && !machine.Disk(err) && tries < 100; tries++ { // another process is at it
		sleep()
		guard, err = take(path + lockSuffix)
	}
	if err == nil {
		defer func() { _ = guard.Unlock() }()
	} else if !machine.Disk(err) {
		return err
	}
	now := record{Folder: inode(d.path), Boot: machine.Boot(), Machine: machineID()}
	var was record
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		err = json.Unmarshal(data, &was)
	case !errors.Is(err, fs.ErrNotExist): // the next look may find it
		return err
	}
	if err == nil && was.isSame(&now) && was.Instance != "" {
		now.Instance = was.Instance
	} else {
		now.Instance = rand.Text()
	}
	if now != was {
		err = now.write(path)
	}
	if err == nil || now.Instance == was.Instance {
		d.instance.Store(&now.Instance)
	}
	return err
}

// write writes the record into a file. One that is there stays as it is until the disk has taken all of the new one: without its identity, the processes that
// it was for could not be proven dead.
func (r *record) write(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := path + ".new"
	_ = os.Remove(next)
	file, err := fileowner.Create(next, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(next, path)
		fileowner.SyncDirectory(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

// isSame reports whether the folder is the one that it was: while the system runs, or on the same machine after a restart of it.
func (r *record) isSame(now *record) bool {
	if r.Folder != now.Folder {
		return false
	}
	return r.Boot != "" && r.Boot == now.Boot || r.Machine != "" && r.Machine == now.Machine
}

// unlocked reports whether the process no longer holds its lock. A file that is missing proves nothing.
func (d *directory) unlocked(id fleet.ID) bool {
	if d.path == "" || !isID.MatchString(string(id)) {
		return false
	}
	return isFree(d.lockFile(id))
}

// isFree reports whether no process holds the lock of a file that is there.
func isFree(path string) bool {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR|fileowner.NoFollow))
	locked, err := lock.TryLock()
	if machine.Disk(err) { // it is read-only
		lock = flock.New(path, flock.SetFlag(os.O_RDONLY|fileowner.NoFollow))
		locked, err = lock.TryLock()
	}
	if err != nil || !locked {
		return false
	}
	defer func() { _ = lock.Unlock() }()
	return isFile(lock, path)
}

// hold takes a lock that keeps others from proving that another process has ended.
func (d *directory) hold(own, id fleet.ID) (release func(), err error) {
	if d.path == "" || !isID.MatchString(string(id)) {
		return nil, errors.New("there is no state directory in which both have locks")
	}
	lock, err := take(filepath.Join(d.path, string(id)+"."+string(own)+holdSuffix))
	if err != nil {
		return nil, err
	}
	return func() {
		path := lock.Path()
		_ = lock.Unlock()
		_ = os.Remove(path)
	}, nil
}

// names returns the names of the folder's files that end in suffix, without it.
func (d *directory) names(suffix string) ([]string, error) {
	entries, err := os.ReadDir(d.path) // no pattern, which the path of the folder would be a part of
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), suffix); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// holds returns the files of locks that keep a process from being proven dead; of all processes if the ID is empty.
func (d *directory) holds(id fleet.ID) (files []string, err error) {
	names, err := d.names(holdSuffix)
	for _, name := range names {
		if held, _, _ := strings.Cut(name, "."); id == "" || held == string(id) {
			files = append(files, filepath.Join(d.path, name+holdSuffix))
		}
	}
	return files, err
}

// isHeld reports whether a process must not be proven dead. It is true if that cannot be known.
func (d *directory) isHeld(id fleet.ID) bool {
	files, err := d.holds(id)
	return err != nil || slices.ContainsFunc(files, func(path string) bool {
		_, err := os.Stat(path)
		return !isFree(path) && !errors.Is(err, fs.ErrNotExist)
	})
}

var isID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// alone reports whether no other process holds a lock here. It is false if that cannot be known.
func (d *directory) alone(own fleet.ID) bool {
	if d.path == "" || !d.isFolderFree() {
		return false
	}
	names, err := d.names(lockSuffix)
	if err != nil {
		return false
	}
	for _, name := range names {
		if id := fleet.ID(name); id != own && isID.MatchString(name) && !d.unlocked(id) {
			if _, err := os.Stat(d.lockFile(id)); !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
	}
	return true
}

// ended reports whether the process has ended: it no longer holds its lock, the file is no copy of the one that it locked, and no
// other process uses its places.
func (d *directory) ended(id fleet.ID) bool {
	return d.unlocked(id) && isSigned(d.lockFile(id)) && !d.isHeld(id)
}

// catchUp does what others need to prove the end of this process, and the disk did not take before: it may have room again.
func (d *directory) catchUp() {
	if d.own == nil {
		return
	}
	if d.whole.Load() {
		own, err := take(d.lockFile(d.id))
		if err != nil {
			return
		}
		folder := d.own
		d.own, d.unsigned = own, true
		d.whole.Store(false) // before another process can have the folder's lock
		_ = folder.Unlock()
	}
	if d.unsigned {
		d.unsigned = sign(d.own.Path()) != nil
	}
	if d.instance.Load() == nil {
		_ = d.identify()
	}
}

// tidy removes the files of locks that no process holds if their processes have left the ledger, and catches up with what the disk did not take before.
// there are the processes that are in the ledger.
func (d *directory) tidy(there map[fleet.ID]bool) {
	if d.path == "" {
		return
	}
	d.catchUp()
	names, err := d.names(lockSuffix)
	if err != nil {
		return
	}
	known, freeSince := maps.Clone(there), make(map[fleet.ID]time.Time)
	for _, name := range names {
		id := fleet.ID(name)
		if !isID.MatchString(name) || there[id] {
			continue
		}
		since, isSeen := d.freeSince[id]
		if !isSeen {
			since = time.Now()
		}
		switch isUnlocked := d.unlocked(id); {
		case isUnlocked && (!d.otherLedgers || d.known[id] || time.Since(since) >= strangersAfter):
			_ = os.Remove(d.lockFile(id))
		case isUnlocked:
			freeSince[id] = since
		case d.known[id]:
			known[id] = true
		}
	}
	d.known, d.freeSince = known, freeSince
	held, _ := d.holds("")
	for _, path := range held { // of processes that were killed
		if isFree(path) {
			_ = os.Remove(path)
		}
	}
}

// close gives up the lock of this process, and removes its file if remove is set.
func (d *directory) close(remove bool) {
	if d.own != nil {
		path := d.own.Path()
		_ = d.own.Unlock() // before, since Windows removes no open files
		if remove && !d.whole.Load() {
			_ = os.Remove(path)
		}
		d.own = nil
	}
}

// digest shortens a text that identifies something.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// anyCertificate is for questions whose answer is no secret, and that send none.
func anyCertificate() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the question is only which process answers
}
