package services

import (
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
)

// maxCanaryFile is the size in bytes of the largest file that is read for a canary.
const maxCanaryFile = 64 << 20

// canary is what a service's backends are played, as it was read.
type canary struct {
	play *backend.Canary // nil for none, and if it cannot be used
	err  error           // why it cannot be used; names the file

	size int64 // of the file
	at   time.Time
}

// same reports whether two services' canaries are the same.
func (c *canary) same(other *canary) bool {
	return c.size == other.size && c.at.Equal(other.at) && (c.play == nil) == (other.play == nil) && fmt.Sprint(c.err) == fmt.Sprint(other.err)
}

// readCanary reads the service's canary, unless the plan before has the same. A canary that cannot be used is no reason to stop traffic: the
// backends are not played one.
func (v *servicePlan) readCanary(before *servicePlan) {
	path := v.Canary
	if path == "" {
		return
	}
	c := &v.canary
	fail := func(err error) { c.err = fmt.Errorf("%s: %w", path, err) }
	info, err := timedread.Do(path, func() (os.FileInfo, error) { return os.Stat(path) })
	switch {
	case err != nil:
		c.err = err
		return
	case !info.Mode().IsRegular():
		fail(errors.New("not a file"))
		return
	case info.Size() > maxCanaryFile:
		fail(fmt.Errorf("%d bytes are too many: use a WAV file of at most %d bytes; %v are played of it", info.Size(), maxCanaryFile, backend.MaxCanary))
		return
	}
	c.size, c.at = info.Size(), info.ModTime()
	if before != nil && before.canary.play != nil && before.Canary == path && before.CanaryModel == v.CanaryModel && before.profile == v.profile &&
		before.canary.same(&canary{play: before.canary.play, size: c.size, at: c.at}) {
		v.canaryOf(before.canary.play.Recording, before.canary.play.Name)
		if before.CanaryText == v.CanaryText && before.CanaryTimeout <= v.CanaryTimeout { // what it has to pass is no harder
			v.canary.play.Proven = before.canary.play.Proven
		}
		return
	}
	data, err := timedread.Do(path, func() ([]byte, error) { return os.ReadFile(path) })
	if err != nil {
		c.err = err
		return
	}
	audio, err := wav.Parse(data)
	if err != nil {
		fail(err)
		return
	}
	recording, err := speaker.NewRecording(v.profile, audio, backend.MaxCanary, v.CanaryModel)
	switch {
	case errors.Is(err, speaker.ErrNoModel):
		err = fmt.Errorf("the servers of the profile %s want the name of a model: set canary-model", v.profile.Name)
	case errors.Is(err, speaker.ErrTakesText):
		err = fmt.Errorf("a canary is a recording, but the servers of the profile %s get text: remove canary", v.profile.Name)
	case errors.Is(err, speaker.ErrModel):
		err = fmt.Errorf("clients of the profile %s name no model: remove canary-model", v.profile.Name)
	}
	if err != nil {
		fail(err)
		return
	}
	v.canaryOf(recording, fmt.Sprintf("%s %s %08x %s", v.profile.Name, path, crc32.ChecksumIEEE(data), v.CanaryModel))
}

// canaryOf sets what is played.
func (v *servicePlan) canaryOf(recording *speaker.Recording, name string) {
	v.canary.play = &backend.Canary{
		Recording: recording, Name: name, Interval: v.CanaryInterval, Timeout: v.CanaryTimeout, Text: v.CanaryText, Fall: v.ProbeFall, Rise: v.ProbeRise,
		Proven: new(atomic.Bool),
	}
}

// canaryProblems returns what is wrong with the canaries, as [config.Problems]; nil if nothing is.
func (p *plan) canaryProblems() error {
	var problems config.Problems
	for name, v := range p.services {
		if v.canary.err != nil {
			problems = append(problems, config.Problem{Kind: config.KindService, Name: name, Field: "canary", Text: v.canary.err.Error()})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

// CanaryWarnings returns which canaries cannot be used on this machine, and which backends are never played one.
func (d Draft) CanaryWarnings() (warnings []string) {
	for name, v := range d.snapshot.Services() {
		if v.Canary == "" {
			continue
		}
		if err := d.services[name].canary.err; err != nil {
			warnings = append(warnings, fmt.Sprintf("the canary of the service %s cannot be used: %v", name, err))
			continue
		}
		for member, b := range d.snapshot.Members(name) {
			if b.Cap() < 2 {
				warnings = append(warnings, fmt.Sprintf("the backend %s is never played the canary of the service %s, which needs a place beside one for clients: set connections to at least 2", member, name))
			}
		}
	}
	return warnings
}

// logCanaries logs which canaries can no longer be used.
func (p *plan) logCanaries(log *slog.Logger, before *plan) {
	for name, v := range p.services {
		if v.canary.err == nil {
			continue
		}
		if before != nil {
			if old := before.services[name]; old != nil && fmt.Sprint(old.canary.err) == v.canary.err.Error() {
				continue
			}
		}
		log.Warn("backends are not played the canary, which cannot be used", "service", name, "reason", v.canary.err)
	}
}

// ReadCanaries reads the services' canaries again, if their files have changed.
func (s *Services) ReadCanaries() error {
	s.applying.Lock()
	defer s.applying.Unlock()
	if snapshot := s.Snapshot(); snapshot != nil {
		for _, v := range snapshot.Services() {
			if v.Canary != "" {
				return s.putInForce(snapshot)
			}
		}
	}
	return nil
}
