package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
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

// obey attacks until the input ends, and then writes the number of visits. The order is a scenario's name, an address, the number of
// clients, and a seed.
func obey(ctx context.Context, order string, in io.Reader, out io.Writer) error {
	var name, address string
	var clients int
	var seed uint64
	if _, err := fmt.Sscan(order, &name, &address, &clients, &seed); err != nil {
		return fmt.Errorf("bad order %q: %w", order, err)
	}
	var found *siege
	for i := range sieges {
		if sieges[i].name == name {
			found = sieges[i].siege
		}
	}
	if found == nil {
		return fmt.Errorf("unknown siege %q", name)
	}
	attacking, stop := context.WithCancel(ctx)
	defer stop()
	var visits atomic.Int64
	var hostile sync.WaitGroup
	for i := range clients {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		hostile.Go(func() { found.attack(attacking, address, i, dice, &visits) })
	}
	_, err := io.Copy(io.Discard, in)
	stop()
	hostile.Wait()
	fmt.Fprintln(out, visits.Load())
	return err
}

// besieger is a process with hostile clients. Whoever starts it ends it, once.
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

// end ends the process and returns the number of its clients' visits.
func (b *besieger) end() (visits int64, err error) {
	_ = b.in.Close()
	_, err = fmt.Fscan(bufio.NewReader(b.out), &visits)
	if failed := b.command.Wait(); failed != nil {
		err = errors.Join(failed, errors.New(b.errors.String()))
	}
	if err != nil {
		return 0, fmt.Errorf("hostile clients: %w", err)
	}
	return visits, nil
}
