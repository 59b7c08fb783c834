//go:build linux

package child

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// FreeAddresses finds loopback addresses with free ports. It listens on all of them at once, so that they
// differ, and closes the listeners. The ports are below those that Linux gives to outgoing connections, of which a benchmark
// makes thousands: none of them can take the port of a server that is about to start.
func FreeAddresses(count int) ([]string, error) {
	const lowest, above = 15000, 32000
	var addresses []string
	for range 100 * count {
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(lowest+rand.IntN(above-lowest)))
		if err != nil {
			continue // it is in use
		}
		defer listener.Close()
		if addresses = append(addresses, listener.Addr().String()); len(addresses) == count {
			return addresses, nil
		}
	}
	return nil, errors.New("no free ports found")
}

// pollInterval is the time between two calls of WaitFor's condition.
const pollInterval = 10 * time.Millisecond

// WaitFor calls the condition again and again until it returns nil. It gives up when the process has ended or the time-out has
// passed, and then returns why the condition did not hold last.
func WaitFor(ctx context.Context, p *Process, what string, timeout time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if failure := p.Failure(); failure != nil {
			return fmt.Errorf("%s: %w", what, failure)
		}
		if Pause(ctx, pollInterval) != nil {
			return fmt.Errorf("%s: not within %v: %w", what, timeout, err)
		}
	}
}

// Pause waits. It returns the context's error if that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Accepts returns a condition for WaitFor: the address accepts connections.
func Accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
