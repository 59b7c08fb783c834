// Package state has the paths of the files that a proxy must find again after a restart: its database, unless another is given, the
// copy of the last good configuration, and the socket of its admin API. Commands look there for a proxy on the same machine. The
// package neither creates nor opens anything.
package state

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// forAll is where a service of the system keeps its state (Filesystem Hierarchy Standard, section 5.8), and forAllOnMac the same on macOS.
const (
	forAll      = "/var/lib/wsbouncer"
	forAllOnMac = "/Library/Application Support/wsbouncer"
)

// variable is that of the setting state-directory.
const variable = "WSBOUNCER_STATE_DIRECTORY"

// Directory returns the default state directory: that of systemd's unit (StateDirectory=, see systemd.exec), otherwise the system's
// for root and the user's for everybody else. It may not exist yet.
func Directory() string {
	return directory(runtime.GOOS, os.Geteuid(), os.Getenv)
}

// directory is Directory on an operating system, for a user (-1 where users have no numbers) with an environment.
func directory(system string, user int, getenv func(string) string) string {
	if first, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":"); first != "" && system != "windows" {
		return first
	}
	switch system {
	case "windows":
		if local := getenv("LocalAppData"); local != "" {
			return filepath.Join(local, "wsbouncer")
		}
		if home := getenv("USERPROFILE"); home != "" {
			return filepath.Join(home, "AppData", "Local", "wsbouncer")
		}
		return "wsbouncer"
	case "darwin", "ios":
		if user != 0 && getenv("HOME") != "" {
			return filepath.Join(getenv("HOME"), "Library", "Application Support", "wsbouncer")
		}
		return forAllOnMac
	}
	if user == 0 {
		return forAll
	}
	if own := getenv("XDG_STATE_HOME"); filepath.IsAbs(own) { // others must be ignored (XDG Base Directory Specification)
		return filepath.Join(own, "wsbouncer")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "wsbouncer")
	}
	return forAll // a user without a home is most likely a service's
}

// Directories returns where commands look for a proxy on this machine, in this order: the state directory that the environment names, and no
// other; otherwise the user's, and then the system's.
func Directories() []string { return directories(runtime.GOOS, os.Geteuid(), os.Getenv) }

func directories(system string, user int, getenv func(string) string) []string {
	if named := getenv(variable); named != "" {
		return []string{named}
	}
	own := directory(system, user, getenv)
	shared := map[string]string{"windows": "", "darwin": forAllOnMac, "ios": forAllOnMac}
	other, ok := shared[system]
	if !ok {
		other = forAll
	}
	if other == "" || other == own || getenv("STATE_DIRECTORY") != "" {
		return []string{own}
	}
	return []string{own, other}
}

// Database returns the path of the SQLite database that a proxy with this state directory uses if no other is given.
func Database(directory string) string { return filepath.Join(directory, "wsbouncer.db") }

// MaxSocketPath is the longest path of a unix socket that all systems take, in bytes (sun_path in sys/un.h has 104 bytes or more, one of
// them for its end).
const MaxSocketPath = 103

// AdminSocket returns the path of the unix socket on which a proxy with this state directory serves its admin API.
func AdminSocket(directory string) string { return filepath.Join(directory, "admin.sock") }

// IsFound reports whether commands find an admin socket at this path by themselves, if the user of this process or root runs them.
func IsFound(socket string) bool {
	shell := func(name string) string {
		if name == "STATE_DIRECTORY" { // systemd sets it for the proxy only
			return ""
		}
		return os.Getenv(name)
	}
	return socket == AdminSocket(directory(runtime.GOOS, os.Geteuid(), shell)) || socket == AdminSocket(forAll)
}

// LastGood returns the path of the copy of the last good configuration.
func LastGood(directory string) string { return filepath.Join(directory, "last-good.yaml") }

// Problems returns the path of the history of what was wrong.
func Problems(directory string) string { return filepath.Join(directory, "problems.jsonl") }

// Fleet returns the path of the ledger of the proxies on this host, unless it is in the database or beside it.
func Fleet(directory string) string { return filepath.Join(directory, "fleet.db") }

// FleetMemory returns the path of the note whether the proxy has always been alone in its fleet.
func FleetMemory(directory string) string { return filepath.Join(directory, "fleet.json") }

// History returns the path whose lock the process has that keeps the history of problems and ended sessions.
func History(directory string) string { return filepath.Join(directory, "history") }

// Ends returns the path of the file with the sessions that ended last.
func Ends(directory string) string { return filepath.Join(directory, "ended-sessions.jsonl") }

// Usage returns the path of the folder with what clients have used.
func Usage(directory string) string { return filepath.Join(directory, "usage") }

// ACME returns the path of the folder with the certificates and keys that a proxy has got from an authority.
func ACME(directory string) string { return filepath.Join(directory, "acme") }
