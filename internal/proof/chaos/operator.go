package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// configuration is the YAML file of a proxy. The goroutine that stages the run owns it, and then the operator's.
type configuration struct {
	file     string
	services []string           // entries, in their order
	backends map[string]backend // by name
	writes   int
}

// backend is one of its backends.
type backend struct {
	service, url, state string
	connections         int
}

// profiles are the profiles that are not built in.
const profiles = `  tagged: {from: funasr, unsafe: [doubt]}
  busy: {from: one-shot, busy: {json: {status: WAIT}}}
`

// add adds a service.
func (c *configuration) add(s *service) {
	c.services = append(c.services, fmt.Sprintf("  %s: {path: /%s, profile: %s, ping-interval: 5s, ping-timeout: 10s, close-timeout: 3s%s}\n",
		s.name, s.name, s.profile, s.more))
	for _, w := range s.healthy {
		c.backends[w.name] = backend{service: s.name, url: w.sim.URL(), connections: s.cap}
	}
	if h := s.hostile; h != nil {
		c.backends[h.name] = backend{service: s.name, url: h.url, connections: hostileCap}
	}
}

// text returns the correct content of the file.
func (c *configuration) text() []byte { return c.textOf(c.backends) }

// withoutBackends returns the content of the file with the services alone.
func (c *configuration) withoutBackends() []byte { return c.textOf(nil) }

func (c *configuration) textOf(backends map[string]backend) []byte {
	c.writes++
	var b strings.Builder
	fmt.Fprintf(&b, "# Written %d times.\nprofiles:\n%sservices:\n", c.writes, profiles)
	for _, s := range c.services {
		b.WriteString(s)
	}
	if len(backends) > 0 {
		b.WriteString("backends:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		o := backends[name]
		fmt.Fprintf(&b, "  %s:\n    service: %s\n    url: %s\n    connections: %d\n", name, o.service, o.url, o.connections)
		if o.state != "" {
			fmt.Fprintf(&b, "    state: %s\n", o.state)
		}
	}
	return []byte(b.String())
}

// write replaces the file in one step.
func (c *configuration) write(text []byte) error {
	if err := os.WriteFile(c.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(c.file+".new", c.file)
}

// operator changes the configuration of the proxy under test. One goroutine owns it and makes one change after the other.
type operator struct {
	ctx      context.Context
	dice     *rand.Rand
	config   *configuration
	journal  *kit.Journal
	operated *service // the service whose backends it changes
}

// work makes random changes until ctx ends. It finishes and repairs each of them.
func (o *operator) work(scenarios []*scenario) error {
	for {
		if kit.Wait(o.ctx, kit.Between(o.dice, 200*time.Millisecond, 1500*time.Millisecond)) != nil {
			return nil
		}
		s := scenarios[o.dice.IntN(len(scenarios))]
		o.journal.Event("operator: %s", s.about)
		if err := s.operate(o); err != nil {
			return err
		}
		o.journal.Event("operator: %s: done", s.name)
	}
}

// pause waits for a random time in this range, or until the run ends.
func (o *operator) pause(least, most time.Duration) {
	_ = kit.Wait(o.ctx, kit.Between(o.dice, least, most))
}

// rewriteInPieces rewrites the file in place as an editor does, or a copy over the network: it truncates the file and writes it in pieces.
func (o *operator) rewriteInPieces() error {
	file, err := os.Create(o.config.file)
	if err != nil {
		return err
	}
	text := o.config.text()
	for len(text) > 0 {
		n := min(len(text), 1+o.dice.IntN(1+len(text)/2))
		if _, err := file.Write(text[:n]); err != nil {
			_ = file.Close()
			return err
		}
		if text = text[n:]; len(text) > 0 {
			o.pause(time.Millisecond, 50*time.Millisecond)
		}
	}
	return file.Close()
}

// emptyFile truncates the file and restores its content.
func (o *operator) emptyFile() error {
	if err := os.Truncate(o.config.file, 0); err != nil {
		return err
	}
	o.pause(10*time.Millisecond, 400*time.Millisecond)
	return os.WriteFile(o.config.file, o.config.text(), 0o600)
}

// removeFile removes the file and restores it.
func (o *operator) removeFile() error {
	if err := os.Remove(o.config.file); err != nil {
		return err
	}
	o.pause(10*time.Millisecond, 800*time.Millisecond)
	return o.config.write(o.config.text())
}

// breakFile writes an invalid file and restores it.
func (o *operator) breakFile() error {
	broken := append(o.config.text(), "  nobody:\n    service: nothing\n    connections: many\n"...)
	if err := o.config.write(broken); err != nil {
		return err
	}
	o.pause(300*time.Millisecond, 800*time.Millisecond)
	return o.config.write(o.config.text())
}

// with changes one of the backends for a moment, or removes it if change is nil.
func (o *operator) with(change func(b *backend)) error {
	name := o.operated.healthy[o.dice.IntN(len(o.operated.healthy))].name
	was := o.config.backends[name]
	if b := was; change != nil {
		change(&b)
		o.config.backends[name] = b
	} else {
		delete(o.config.backends, name)
	}
	if err := o.config.write(o.config.text()); err != nil {
		return err
	}
	o.journal.Event("operator: changed %s to %+v", name, o.config.backends[name])
	o.pause(500*time.Millisecond, 1500*time.Millisecond)
	o.config.backends[name] = was
	return o.config.write(o.config.text())
}

func (o *operator) drain() error { return o.with(func(b *backend) { b.state = "draining" }) }

func (o *operator) resize() error {
	return o.with(func(b *backend) { b.connections = 1 + o.dice.IntN(b.connections) })
}

// misdirect gives a backend an address where nothing listens: port 1 of a loopback address that nothing else uses.
func (o *operator) misdirect() error {
	return o.with(func(b *backend) { b.url = "ws://127.9.9.9:1" })
}

func (o *operator) remove() error { return o.with(nil) }
