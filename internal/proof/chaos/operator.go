package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"time"
)

// operator changes the configuration of the proxy under test. One goroutine owns it and makes one change after the other.
type operator struct {
	ctx      context.Context
	dice     *rand.Rand
	config   *configuration
	ledger   *ledger
	operated *service // the service whose backends it changes
}

// work makes random changes until ctx ends. It finishes and repairs each of them.
func (o *operator) work(scenarios []*scenario) error {
	for {
		if wait(o.ctx, o.between(200*time.Millisecond, 1500*time.Millisecond)) != nil {
			return nil
		}
		s := scenarios[o.dice.IntN(len(scenarios))]
		o.ledger.event("operator: %s", s.about)
		if err := s.operate(o); err != nil {
			return err
		}
		o.ledger.event("operator: %s: done", s.name)
	}
}

func (o *operator) between(least, most time.Duration) time.Duration {
	return least + time.Duration(o.dice.Int64N(int64(most-least)))
}

// pause waits for a random time in this range, or until the run ends.
func (o *operator) pause(least, most time.Duration) { _ = wait(o.ctx, o.between(least, most)) }

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

// with changes one of the backends for a moment.
func (o *operator) with(change func(b *backend)) error {
	name := o.operated.healthy[o.dice.IntN(len(o.operated.healthy))].name
	was := o.config.backends[name]
	b := was
	change(&b)
	o.config.backends[name] = b
	if err := o.config.write(o.config.text()); err != nil {
		return err
	}
	o.ledger.event("operator: changed %s to %+v", name, b)
	o.pause(500*time.Millisecond, 1500*time.Millisecond)
	o.config.backends[name] = was
	return o.config.write(o.config.text())
}

func (o *operator) drain() error { return o.with(func(b *backend) { b.state = "draining" }) }

func (o *operator) resize() error {
	return o.with(func(b *backend) { b.connections = 1 + o.dice.IntN(b.connections) })
}

// misdirect gives a backend an address where nothing listens: port 1 of a loopback address that nobody else uses.
func (o *operator) misdirect() error {
	return o.with(func(b *backend) { b.url = "ws://127.9.9.9:1" })
}

func (o *operator) remove() error {
	name := o.operated.healthy[o.dice.IntN(len(o.operated.healthy))].name
	was := o.config.backends[name]
	delete(o.config.backends, name)
	if err := o.config.write(o.config.text()); err != nil {
		return err
	}
	o.ledger.event("operator: removed %s", name)
	o.pause(500*time.Millisecond, 1500*time.Millisecond)
	o.config.backends[name] = was
	return o.config.write(o.config.text())
}
