package app

import (
	"encoding/json"
	"log/slog"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/config/file"
)

// fleetMemory is a file that says whether the proxy has always been alone in its fleet. It is owned by the agent's goroutine.
type fleetMemory struct {
	path string // static
	own  note   // static, but for Alone
	log  *slog.Logger

	written bool // own is what the file has
	failed  bool // that it cannot be written was logged
}

// note is the file's content. A note of another ledger says nothing, and neither does one in a copy of the state directory, whose instance is
// another.
type note struct {
	Ledger   string `json:"ledger"`
	Instance string `json:"instance"`
	Alone    bool   `json:"alone"`
}

// newFleetMemory returns the memory of a process with that instance of its state directory.
func newFleetMemory(path, ledger, instance string, log *slog.Logger) *fleetMemory {
	return &fleetMemory{path: path, own: note{Ledger: ledger, Instance: instance}, log: log}
}

// Alone implements [agent.Memory].
func (m *fleetMemory) Alone() bool {
	n, ok := m.read()
	return ok && n.Alone
}

// read returns the file's note, if it is about this state directory and ledger.
func (m *fleetMemory) read() (n note, ok bool) {
	data, err := os.ReadFile(m.path)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return note{}, false
	}
	return n, m.own.Instance != "" && n.Instance == m.own.Instance && n.Ledger == m.own.Ledger
}

// Note implements [agent.Memory]. A proxy that has seen others may have them again at any time, so that is never forgotten.
func (m *fleetMemory) Note(alone bool) {
	if m.written && (m.own.Alone == alone || !m.own.Alone) || m.own.Instance == "" {
		return
	}
	n, ok := m.read()
	m.own.Alone, m.written = alone && (!ok || n.Alone), true
	if ok && n == m.own {
		return
	}
	data, err := json.Marshal(m.own)
	if err == nil {
		err = file.Replace(m.path, append(data, '\n'))
	}
	if err == nil {
		m.failed = false
		return
	}
	m.written = false
	if !m.own.Alone { // a note that says otherwise would be wrong from now on
		_ = os.Remove(m.path)
	}
	if !m.failed {
		m.failed = true
		m.log.Warn("cannot note whether other proxies share the caps: a start without the database waits for it", "reason", err)
	}
}
