package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"time"
)

// operator changes the configuration of the proxy under test. It is owned by one goroutine, so that one change comes after the
// other.
type operator struct {
	ctx     context.Context
	dice    *rand.Rand
	config  *configuration
	ledger  *ledger
	operand *service // whose backends are changed
}

// work carries out changes drawn from the scenarios until ctx ends, each to its end: the file is in order behind each.
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

// pause waits for a random time between the two, or until the run ends.
func (o *operator) pause(least, most time.Duration) { _ = wait(o.ctx, o.between(least, most)) }

// rewriteInPieces writes the file in place as an editor or a copy over the network does: truncated first, then in some pieces.
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

// emptyFile truncates the file and puts its content back.
func (o *operator) emptyFile() error {
	if err := os.Truncate(o.config.file, 0); err != nil {
		return err
	}
	o.pause(10*time.Millisecond, 400*time.Millisecond)
	return os.WriteFile(o.config.file, o.config.text(), 0o600)
}

// removeFile removes the file and puts it back.
func (o *operator) removeFile() error {
	if err := os.Remove(o.config.file); err != nil {
		return err
	}
	o.pause(10*time.Millisecond, 800*time.Millisecond)
	return o.config.write(o.config.text())
}

// breakFile has the file say what is not valid.
func (o *operator) breakFile() error {
	broken := append(o.config.text(), "  nobody:\n    service: nothing\n    connections: many\n"...)
	if err := o.config.write(broken); err != nil {
		return err
	}
	o.pause(300*time.Millisecond, 800*time.Millisecond)
	return o.config.write(o.config.text())
}

// with changes one of the operand's backends for a moment.
func (o *operator) with(change func(b *backend)) error {
	name := o.operand.healthy[o.dice.IntN(len(o.operand.healthy))].name
	was := o.config.backends[name]
	b := was
	change(&b)
	o.config.backends[name] = b
	if err := o.config.write(o.config.text()); err != nil {
		return err
	}
	o.ledger.event("operator: %s is %+v", name, b)
	o.pause(500*time.Millisecond, 1500*time.Millisecond)
	o.config.backends[name] = was
	return o.config.write(o.config.text())
}

func (o *operator) drain() error { return o.with(func(b *backend) { b.state = "draining" }) }

func (o *operator) resize() error {
	return o.with(func(b *backend) { b.connections = 1 + o.dice.IntN(b.connections) })
}

// misdirect has a backend's address be one where nobody listens: port 1 is nobody's on a loopback address of its own.
func (o *operator) misdirect() error {
	return o.with(func(b *backend) { b.url = "ws://127.9.9.9:1" })
}

func (o *operator) remove() error {
	name := o.operand.healthy[o.dice.IntN(len(o.operand.healthy))].name
	was := o.config.backends[name]
	delete(o.config.backends, name)
	if err := o.config.write(o.config.text()); err != nil {
		return err
	}
	o.ledger.event("operator: %s is removed", name)
	o.pause(500*time.Millisecond, 1500*time.Millisecond)
	o.config.backends[name] = was
	return o.config.write(o.config.text())
}
