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
	"github.com/wsbouncer/wsbouncer/bench/results"
)

// cpuProfiles are the profiles whose relay is measured. The first is what the others are compared with.
var cpuProfiles = []string{"echo", "vosk", "funasr-reused"}

// cpuRun is one run of the proxy under the load.
type cpuRun struct {
	Profile string  `json:"profile"`
	Round   int     `json:"round"`
	Micros  float64 `json:"cpu_us_per_round_trip"`
	Trips   uint64  `json:"round_trips"`
	Others  float64 `json:"others_processors"` // that everything else on the machine used
}

// measureCPU measures the proxy's processor time per round trip. All profiles have the same server, which answers every message of
// audio with one text, so that only the profile differs.
func measureCPU(ctx context.Context, p *programs, o options) (*table, error) {
	server, address, err := p.startServer(ctx, "vosk", "--subprotocol", "binary")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var runs []cpuRun
	for round := range o.rounds {
		for i := range cpuProfiles {
			profile := cpuProfiles[(i+round)%len(cpuProfiles)] // each round starts with another
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
	x, err := p.startProxy(ctx, profile, address, clients+clients/10)
	if err != nil {
		return cpuRun{}, err
	}
	defer x.Stop()
	const margin = time.Second / 2 // before and after what is measured
	var measured cpuRun
	err = offer(ctx, x.Listen, d+2*margin, func() error {
		measured, err = watch(ctx, x, margin, d)
		return err
	})
	measured.Profile = profile
	return measured, err
}

// watch measures for the time d, after another time.
func watch(ctx context.Context, x *child.Proxy, after, d time.Duration) (cpuRun, error) {
	if err := child.Pause(ctx, after); err != nil {
		return cpuRun{}, err
	}
	first, err := read(ctx, x)
	if err != nil {
		return cpuRun{}, err
	}
	if err := child.Pause(ctx, d); err != nil {
		return cpuRun{}, err
	}
	last, err := read(ctx, x)
	if err != nil {
		return cpuRun{}, err
	}
	return perTrip(first, last)
}

// reading is the state of the clocks and counters at one instant.
type reading struct {
	answers uint64 // frames that came from the backend
	cpu     child.CPU
	machine child.Machine
}

func read(ctx context.Context, x *child.Proxy) (r reading, err error) {
	s, err := x.Stats(ctx)
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
			clients, frameRate, frameSize, o.duration, o.rounds, runtime.NumCPU()),
		Header:  []string{"profile", "CPU per round trip, µs", "/ " + cpuProfiles[0], "round trips in all", "others' processors"},
		Numbers: runs,
	}
	trips := map[string]uint64{}
	cell := results.Cell{Rounds: make([]results.Round, o.rounds)}
	for _, r := range runs {
		if cell.Rounds[r.Round] == nil {
			cell.Rounds[r.Round] = results.Round{}
		}
		cell.Rounds[r.Round][r.Profile] = results.Run{Values: map[string]float64{"cpu": r.Micros, "others": r.Others}}
		trips[r.Profile] += r.Trips
	}
	for _, profile := range cpuProfiles {
		t.Rows = append(t.Rows, []string{
			profile, cell.Values(profile, "cpu").Text(1), cell.Ratios(profile, cpuProfiles[0], "cpu").Text(3),
			strconv.FormatUint(trips[profile], 10), cell.Values(profile, "others").Text(2),
		})
	}
	return t
}
