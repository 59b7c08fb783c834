//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// cpuProfiles are those whose relay is measured. The others are compared with the first.
var cpuProfiles = []string{"echo", "vosk", "funasr-reused"}

// cpuRun is one run of the proxy under the load.
type cpuRun struct {
	Profile string  `json:"profile"`
	Round   int     `json:"round"`
	Micros  float64 `json:"cpu_us_per_round_trip"`
	Trips   uint64  `json:"round_trips"`
	Others  float64 `json:"others_processors"` // that everything else on the machine kept busy
}

// measureCPU measures the proxy's processor time for each round trip. All profiles have the same server, which answers every
// message of audio with one text, so that nothing differs but the profile.
func measureCPU(ctx context.Context, p *programs, o options) (*table, error) {
	server, address, err := p.startServer(ctx, "vosk", "--subprotocol", "binary")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var runs []cpuRun
	for round := range o.rounds {
		for i := range cpuProfiles {
			profile := cpuProfiles[(i+round)%len(cpuProfiles)] // each round begins with another
			r, err := p.relay(ctx, profile, address, o.duration)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", profile, err)
			}
			r.Round = round
			log.Printf("cpu %d/%d %s: %.1f µs for each of %d round trips", round+1, o.rounds, profile, r.Micros, r.Trips)
			runs = append(runs, r)
		}
	}
	return cpuTable(runs, o), nil
}

// relay measures one run of a fresh proxy.
func (p *programs) relay(ctx context.Context, profile, address string, d time.Duration) (cpuRun, error) {
	x, err := p.startProxy(ctx, profile, address, streams+streams/10)
	if err != nil {
		return cpuRun{}, err
	}
	defer x.Stop()
	const margin = time.Second / 2 // before and behind what is measured
	var measured cpuRun
	failed := errors.New("the load never became steady")
	err = p.offer(ctx, x.listen, d+2*margin, func() {
		measured, failed = x.watch(ctx, margin, d)
	})
	measured.Profile = profile
	return measured, errors.Join(err, failed)
}

// watch measures for a time, after a while.
func (x *proxy) watch(ctx context.Context, after, d time.Duration) (cpuRun, error) {
	if err := pause(ctx, after); err != nil {
		return cpuRun{}, err
	}
	first, err := x.read(ctx)
	if err != nil {
		return cpuRun{}, err
	}
	if err := pause(ctx, d); err != nil {
		return cpuRun{}, err
	}
	last, err := x.read(ctx)
	if err != nil {
		return cpuRun{}, err
	}
	return perTrip(first, last)
}

// reading is what the clocks and counters say at one instant.
type reading struct {
	answers uint64 // frames that came from the backend
	cpu     child.CPU
	machine child.Machine
}

func (x *proxy) read(ctx context.Context) (r reading, err error) {
	s, err := x.stats(ctx)
	if err != nil {
		return r, err
	}
	r.answers = s.Relayed.FramesFromBackends
	if r.cpu, err = child.ReadCPU(x.PID()); err != nil {
		return r, err
	}
	r.machine, err = child.ReadMachine()
	return r, err
}

// perTrip returns what a round trip cost between two readings.
func perTrip(first, last reading) (cpuRun, error) {
	trips := last.answers - first.answers
	if last.answers <= first.answers {
		return cpuRun{}, errors.New("nothing was answered")
	}
	used := last.cpu.Since(first.cpu).Total
	return cpuRun{
		Micros: float64(used) / float64(time.Microsecond) / float64(trips),
		Trips:  trips, Others: last.machine.Others(first.machine),
	}, nil
}

func cpuTable(runs []cpuRun, o options) *table {
	t := &table{
		Title: "Processor time of the relay",
		Text: fmt.Sprintf("%d clients x %d messages/s of audio, %d bytes in a frame, each answered with a text; %v, %d rounds, %d processors."+
			" Median (least - most) of the rounds; the ratios are those within a round.",
			streams, frameRate, frameSize, o.duration, o.rounds, runtime.NumCPU()),
		Header:  []string{"profile", "CPU per round trip, µs", "/ " + cpuProfiles[0], "round trips in all", "others' processors"},
		Numbers: runs,
	}
	base, _, _ := cpuValues(runs, cpuProfiles[0], o.rounds)
	for _, profile := range cpuProfiles {
		micros, trips, others := cpuValues(runs, profile, o.rounds)
		t.Rows = append(t.Rows, []string{
			profile, spread(measured(micros), 1), spread(ratios(micros, base), 3), strconv.FormatUint(trips, 10), spread(others, 2),
		})
	}
	return t
}

// cpuValues returns a profile's values by round, 0 for a round that it was not measured in.
func cpuValues(runs []cpuRun, profile string, rounds int) (micros []float64, trips uint64, others []float64) {
	micros = make([]float64, rounds)
	for _, r := range runs {
		if r.Profile == profile {
			micros[r.Round] = r.Micros
			trips += r.Trips
			others = append(others, r.Others)
		}
	}
	return micros, trips, others
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
