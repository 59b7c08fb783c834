package kit

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// Wait waits for a time. It returns the error of ctx if that ends first.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Between draws a time from least to most.
func Between(dice *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(dice.Int64N(int64(most-least)+1))
}

// Quantile returns the time that a share q, from 0 to 1, of sorted times does not exceed; 0 for no times.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// FreeAddress returns an address of the first host with a port that is free at all of the hosts, and that the system does not give to
// connections that are dialed.
func FreeAddress(hosts ...string) (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		free := true
		for _, host := range hosts {
			listener, failed := net.Listen("tcp", net.JoinHostPort(host, port))
			if failed != nil {
				free, err = false, failed
				break
			}
			defer listener.Close()
		}
		if free {
			return net.JoinHostPort(hosts[0], port), nil
		}
	}
	return "", err
}
