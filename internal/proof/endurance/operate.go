//go:build linux

package endurance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// endTimeout is how long a process may take to end: longer than any session lasts.
const endTimeout = 2 * time.Minute

// duty is something that an operator does again and again.
type duty struct {
	what  string
	every time.Duration
	next  time.Time
	do    func(*run, context.Context) error
}

// operate does one thing after the other, each when it is due, until the time is over. The error says why it cannot continue.
func (r *run) operate(ctx context.Context) error {
	duties := []duty{
		{what: "reloads", every: r.o.Reload, do: (*run).reload},
		{what: "replacements of keys and certificates", every: r.o.Rotate, do: (*run).rotate},
		{what: "restarts of PostgreSQL", every: r.o.Restart, do: (*run).restart},
		{what: "upgrades", every: r.o.Upgrade, do: (*run).upgrade},
	}
	for i := range duties { // not all at the end of an hour
		duties[i].next = r.begin.Add(duties[i].every * time.Duration(len(duties)+i) / time.Duration(2*len(duties)))
	}
	end := r.begin.Add(r.o.Duration - r.before)
	for {
		d := slices.MinFunc(duties, func(a, b duty) int { return a.next.Compare(b.next) })
		if d.next.After(end) {
			return kit.Wait(ctx, time.Until(end))
		}
		if err := kit.Wait(ctx, time.Until(d.next)); err != nil {
			return err
		}
		err := d.do(r, ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.proxy.Failure() != nil:
			return fmt.Errorf("%w; its log is %s", r.proxy.Failure(), r.proxy.LogFile())
		case err != nil:
			r.find("one of the "+d.what+" failed", "%v", err)
		default:
			r.happened(d.what, 1)
		}
		i := slices.IndexFunc(duties, func(other duty) bool { return other.what == d.what })
		duties[i].next = time.Now().Add(d.every)
	}
}

// command runs a command of the program at the proxy.
func (r *run) command(ctx context.Context, arguments ...string) (string, error) {
	return kit.Operate(ctx, r.o.Binary, append(arguments, "--admin", "unix:"+r.proxy.Socket())...)
}

// change changes the configuration.
func (r *run) change(ctx context.Context) error {
	r.changes++
	_, err := r.command(ctx, "backend", "set", "echo-1", "--connections", fmt.Sprint(r.places()))
	return err
}

// reload changes the configuration, and has the settings read and the access log begun anew.
func (r *run) reload(ctx context.Context) error {
	if err := r.change(ctx); err != nil {
		return err
	}
	if err := os.Rename(r.o.file("access.log"), r.o.file("access.log.1")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return r.proxy.Signal(syscall.SIGHUP)
}

// rotate replaces the certificate and the key. Those who came last trust the new certificate already. New clients use the new key, and trust the
// certificate after that one, too. When the others have left, their key is revoked.
func (r *run) rotate(ctx context.Context) error {
	r.turn++
	name := fmt.Sprintf("clients-%d-%d", os.Getpid(), r.turn)
	key, version, err := kit.AddKey(ctx, r.o.Binary, name, "--admin", "unix:"+r.proxy.Socket())
	if err != nil {
		return err
	}
	if err := r.proxy.Until(ctx, "the key is in force", func() (bool, error) { // the command does not wait for that
		stats, err := r.proxy.Stats(ctx)
		return err == nil && stats.Configuration.Version == version, nil
	}); err != nil {
		return err
	}
	if r.next != nil {
		if err := r.renew(ctx); err != nil {
			return err
		}
	}
	if r.next, err = r.certify("tls-next"); err != nil {
		return err
	}
	authorities := r.o.file(fmt.Sprintf("authorities-%d.pem", r.turn%2))
	now, err := os.ReadFile(r.live.File())
	then, failed := os.ReadFile(r.next.File())
	if err := errors.Join(err, failed, os.WriteFile(authorities, append(now, then...), 0o600)); err != nil {
		return err
	}
	leave, err := r.come(ctx, key, authorities)
	if err != nil {
		return err
	}
	r.leave()
	r.leave, r.key, name = leave, name, r.key
	if name == "" { // the others are the first
		return nil
	}
	_, err = r.command(ctx, "key", "revoke", name)
	return err
}

// renew replaces the files of the certificate, and waits until the proxy serves it.
func (r *run) renew(ctx context.Context) error {
	pair, err := tls.LoadX509KeyPair(r.next.File(), r.next.KeyFile())
	if err != nil {
		return err
	}
	if err := errors.Join(os.Rename(r.next.KeyFile(), r.live.KeyFile()), os.Rename(r.next.File(), r.live.File()), r.proxy.Signal(syscall.SIGHUP)); err != nil {
		return err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it is compared instead
	return r.proxy.Until(ctx, "it serves the renewed certificate", func() (bool, error) {
		conn, err := dialer.DialContext(ctx, "tcp", r.secured)
		if err != nil {
			return false, err
		}
		defer conn.Close()
		return bytes.Equal(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw, pair.Certificate[0]), nil
	})
}

// restart stops PostgreSQL, in order or as a crash does, and starts it again.
func (r *run) restart(ctx context.Context) error {
	end := r.database.Stop
	if r.restarts++; r.restarts%2 == 0 {
		end = r.database.Kill
	}
	_ = end() // how it ended does not matter
	if err := kit.Wait(ctx, min(r.o.Restart/4, rand.N(8*time.Second))); err != nil {
		return err
	}
	if err := r.database.Start(ctx); err != nil {
		return err
	}
	return r.proxy.Until(ctx, "the configuration can be changed again", func() (bool, error) { return r.change(ctx) == nil, nil })
}

// upgrade replaces the running process, and waits until it has ended.
func (r *run) upgrade(ctx context.Context) error {
	last, err := r.proxy.Upgrade(ctx, r.o.Binary, nil)
	if err != nil {
		return err
	}
	r.journal.Event("%s", last)
	if err := r.save(); err != nil {
		return err
	}
	old := r.proxy.Replaced
	r.proxy.Replaced = nil
	for _, p := range old {
		if err := p.WaitForSuccess(endTimeout); err != nil {
			return err
		}
	}
	return nil
}

// kill kills one of the servers whose sessions move, again and again, until ctx ends.
func (r *run) kill(ctx context.Context) {
	for kit.Wait(ctx, r.o.Kill) == nil {
		victim := r.talkers[rand.IntN(len(r.talkers))]
		victim.Kill()
		_ = kit.Wait(ctx, min(r.o.Kill/4, rand.N(4*time.Second)))
		if err := victim.Revive(); err != nil && ctx.Err() == nil {
			r.find("a server could not be started again", "%v", err)
		}
		r.happened("servers killed", 1)
	}
}
