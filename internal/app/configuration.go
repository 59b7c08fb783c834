package app

import (
	"os"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/follow"
	"github.com/wsbouncer/wsbouncer/internal/config/memory"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// SourceFlags is the name of the configuration's source in flags-only operation.
const SourceFlags = "flags"

// openStore opens the configuration store. In flags-only operation that is a store in memory, which starts with what the flags
// say. It also returns the name of the source for people, and the file of the copy of the last good snapshot.
func (s *Settings) openStore(fixed *fixed) (store config.Store, source, copyFile string, err error) {
	options := config.Options{Profiles: config.CheckProfiles}
	if fixed != nil {
		store, err := memory.New(fixed.content, options)
		if err != nil {
			return nil, "", "", err
		}
		return store, SourceFlags, "", nil
	}
	if s.StateDirectory != "" {
		if err := os.MkdirAll(s.StateDirectory, 0o750); err != nil {
			return nil, "", "", err
		}
		if s.Database != stores.Memory {
			copyFile = state.LastGood(s.StateDirectory)
		}
	}
	source = stores.Redact(s.Database)
	options.Known = copyFile != "" && follow.IsCopy(copyFile, stores.Absolute(s.Database), source)
	store, err = stores.Open(s.Database, options)
	return store, source, copyFile, err
}

// inForce returns the configuration in force.
func (p *Proxy) inForce() remote.InForce {
	status := p.follower.Status()
	force := remote.InForce{Snapshot: p.services.Snapshot(), Version: status.Version}
	if status.State != follow.Current {
		force.Stale = &remote.Stale{Since: status.Since, Reason: status.Reason}
	}
	return force
}

// forgets returns an error if the configuration ends with the process and has changed since the start: a successor would begin without that.
func (p *Proxy) forgets() error {
	if p.inMemory == nil {
		return nil
	}
	before, now := p.inMemory.Content(), p.services.Snapshot().Content()
	if changes := config.Diff(&before, &now); len(changes) > 0 {
		return admin.WrongState("the configuration is kept in memory, and the new process would begin without what has changed since the start, such as "+
			"%s: undo that, or restart, which forgets it, too", changes[0])
	}
	return nil
}

// configuration returns which configuration is in force.
func configuration(s follow.Status) api.Configuration {
	return api.Configuration{
		Source: s.Source, Version: s.Version, State: string(s.State), Since: s.Since, Reason: s.Reason, Applied: s.Applied,
		Changes: s.Changes, Failed: s.Failed, Unsaved: s.Unsaved, UnsavedSince: s.UnsavedSince,
	}
}
