package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// The hostile clients of a siege are in a process of their own, at a lower priority where the system has the program nice. So what slows
// well-behaved clients down is the proxy, and not the hostile clients' need for processors.

// besiegerVariable is the environment variable that makes a program the hostile clients of a siege: see [Besieger].
const besiegerVariable = "WSBOUNCER_CHAOS_BESIEGER"

// Besieger makes this process the hostile clients of a siege if its parent wants that, and reports whether it did. Each program that calls
// [Run] calls it first, and ends if it returns true.
func Besieger() bool {
	order := os.Getenv(besiegerVariable)
	if order == "" {
		return false
	}
	if err := obey(context.Background(), order, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: besieger:", err)
		os.Exit(1)
	}
	return true
}

// obey attacks until the input ends, and then writes what became of the visits. The order is a scenario's name, an address, the number of
// clients, and a seed.
func obey(ctx context.Context, order string, in io.Reader, out io.Writer) error {
	var name, address string
	var clients int
	var seed uint64
	if _, err := fmt.Sscan(order, &name, &address, &clients, &seed); err != nil {
		return fmt.Errorf("bad order %q: %w", order, err)
	}
	i := slices.IndexFunc(sieges, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("unknown siege %q", name)
	}
	found := sieges[i].siege
	attacking, stop := context.WithCancel(ctx)
	defer stop()
	var counts visitCounter
	var hostile sync.WaitGroup
	for i := range clients {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		hostile.Go(func() { found.attack(attacking, address, i, dice, &counts) })
	}
	_, err := io.Copy(io.Discard, in)
	// On a busy machine it takes a while until the attack has its effect. If it has none, the judge says so.
	late, cancel := context.WithTimeout(ctx, effectTimeout)
	defer cancel()
	for counts.read().judge(found.effect) != nil && kit.Wait(late, pollEffect) == nil {
	}
	stop()
	hostile.Wait()
	_ = json.NewEncoder(out).Encode(counts.read())
	return err
}

// besieger is a process with hostile clients. The goroutine that starts it ends it, once.
type besieger struct {
	command *exec.Cmd
	in      io.Closer
	out     io.Reader
	errors  strings.Builder
}

// startBesieger starts the hostile clients of a siege.
func startBesieger(name, address string, clients int, seed uint64) (*besieger, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	arguments := []string{program}
	if nice, err := exec.LookPath("nice"); err == nil {
		arguments = []string{nice, "-n", "10", program}
	}
	b := &besieger{command: exec.Command(arguments[0], arguments[1:]...)}
	b.command.Env = append(os.Environ(), besiegerVariable+"="+fmt.Sprintln(name, address, clients, seed))
	b.command.Stderr = &b.errors
	if b.in, err = b.command.StdinPipe(); err != nil {
		return nil, err
	}
	if b.out, err = b.command.StdoutPipe(); err != nil {
		return nil, err
	}
	return b, b.command.Start()
}

// end ends the process and returns what became of its clients' visits.
func (b *besieger) end() (of visits, err error) {
	_ = b.in.Close()
	err = json.NewDecoder(b.out).Decode(&of)
	if failed := b.command.Wait(); failed != nil {
		err = errors.Join(failed, errors.New(b.errors.String()))
	}
	if err != nil {
		return visits{}, fmt.Errorf("hostile clients: %w", err)
	}
	return of, nil
}

// dialer returns what a hostile client dials the proxy with.
func (s *siege) dialer(number int) *net.Dialer {
	if s.from == 0 {
		return new(net.Dialer)
	}
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(1+number%s.from), 1)}}
}

// attack is one hostile client, the one with this number, which visits the proxy again and again until ctx ends.
func (s *siege) attack(ctx context.Context, address string, number int, dice *rand.Rand, counts *visitCounter) {
	dialer, path := s.dialer(number), "/besieged"
	if s.poison {
		path = "/crowd"
	}
	for ctx.Err() == nil {
		status, err := visitOnce(ctx, dialer, address, path, dice, func(a *attack) error {
			counts.came()
			a.answered = counts.answered
			return s.visit(a)
		})
		if ctx.Err() == nil && status != noConnection {
			counts.ended(err)
		}
		if kit.Wait(ctx, s.pause+time.Millisecond) != nil {
			return
		}
	}
}
