//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// The loads of the relay scenario. All sessions together send a fixed number of messages a second, which depends on the size of a
// message, so that the cost of a message can be compared between few sessions and many. Audio of 16 kHz in 16 bits makes 10
// messages of 3,200 bytes a second: 500 sessions send 5,000 a second.
var (
	relaySessions = []int{usualSessions, 3000, 9000}
	relaySizes    = []int{64, 1024, audioSize, 64 << 10}
	totals        = map[int]float64{64: 10_000, 1024: 10_000, audioSize: 5_000, 64 << 10: 1_000}
)

const (
	audioSize     = 3200 // bytes of 100 ms of audio
	usualSessions = 500
	usualSize     = 1024
	lightTotal    = 1_000 // messages per second that every rival carries with ease
)

// loadsOf returns the loads of a scenario, as changed by the flags.
func loadsOf(scenario string, o options, sessions, sizes []int, duration time.Duration) []load {
	var loads []load
	switch scenario {
	case "relay":
		loads = relayLoads(o.quick, sessions, sizes)
	case "light":
		loads = []load{{sessions: usualSessions, rate: float64(lightTotal) / usualSessions}}
		duration = duration * 3 / 2
	case "tails":
		loads = tailLoads(sessions, o.capacity)
		duration = duration * 5 / 2
	case "latency":
		loads = []load{{sessions: 50, rate: 20}}
	case "tls":
		loads = secureLoads(o.quick, sessions, sizes)
	case "burst", "burst-tls":
		loads = []load{{sessions: 3000, rate: 1}}
	case "rate":
		loads = []load{{sessions: usualSessions, parallel: 200, trials: 6}}
		if o.quick {
			loads[0].trials = 3
		}
		duration /= 2 // of each of many trials
	case "start", "start-tls":
		loads = []load{{sessions: 20, size: audioSize, binary: true, ramp: 1500 * time.Millisecond}}
		if o.quick {
			loads[0].sessions, loads[0].ramp = 10, time.Second
		}
	case "everything":
		if sessions == nil {
			sessions = []int{usualSessions}
		}
		for _, n := range sessions {
			loads = append(loads, load{
				sessions: n, rate: math.Ceil(totals[audioSize] / float64(n)), size: audioSize, audio: true, ramp: time.Duration(n) * 2 * time.Millisecond,
			})
		}
		duration = duration * 5 / 2 // a scrape and some samples
	case "silent":
		loads = silentLoads(sessions)
	case "profiles":
		loads = []load{{sessions: usualSessions, rate: 20, size: audioSize, audio: true}}
	case "churn":
		loads = []load{{sessions: usualSessions, rate: 10}}
	default:
		loads = []load{{sessions: usualSessions, rate: 20}}
	}
	combined := slices.Contains([]string{"relay", "tls", "tails", "everything", "silent"}, scenario) // their loads have the numbers that the flags name
	for i := range loads {
		l := &loads[i]
		l.size = cmp.Or(l.size, usualSize)
		l.duration = duration
		if !combined && len(sessions) > 0 {
			l.sessions = sessions[0]
		}
		if !combined && len(sizes) > 0 {
			l.size = sizes[0]
		}
		if scenario == "churn" {
			l.length, l.spare = time.Second, l.sessions
		}
		if o.rate > 0 && (l.rate > 0 || l.share > 0) {
			l.rate = o.rate
		}
		if l.ramp > 0 && !l.audio { // sessions that start one by one and send one message
			l.duration, l.rate = 100*time.Millisecond, 0
		}
		l.label = l.title()
	}
	return loads
}

// secureLoads returns the loads of clients over TLS: two counts of sessions, or all combinations that the flags name.
func secureLoads(quick bool, sessions, sizes []int) []load {
	switch {
	case sessions != nil:
	case quick || sizes != nil:
		sessions = []int{usualSessions}
	default:
		sessions = []int{usualSessions, 3000}
	}
	return relayLoads(quick, sessions, sizes)
}

// relayLoads returns a row of session counts, and audio. If the flags name counts or sizes, it returns all combinations of these instead.
func relayLoads(quick bool, sessions, sizes []int) []load {
	var loads []load
	add := func(n, size int, total float64) {
		loads = append(loads, load{
			sessions: n, size: size, rate: round(total / float64(n)), binary: size == audioSize, parallel: 200,
		})
	}
	if len(sessions)+len(sizes) > 0 {
		if sessions == nil {
			sessions = []int{usualSessions}
		}
		if sizes == nil {
			sizes = []int{usualSize}
		}
		for _, size := range sizes {
			for _, n := range sessions {
				add(n, size, totalOf(size))
			}
		}
		return loads
	}
	sessions = relaySessions
	if quick {
		sessions = []int{usualSessions, 3000}
	}
	for _, n := range sessions {
		add(n, usualSize, totals[usualSize])
	}
	add(usualSessions, audioSize, totals[audioSize])
	return loads
}

// totalOf returns how many messages of a size all sessions send a second. A size that is not in the list gets the number of the
// next smaller one.
func totalOf(size int) float64 {
	total := totals[relaySizes[0]]
	for _, known := range relaySizes {
		if known <= size {
			total = totals[known]
		}
	}
	return total
}

// title describes a load in a table.
func (l load) title() string {
	text := fmt.Sprintf("%d x %s", l.sessions, showSize(l.size))
	if l.share > 0 {
		text += fmt.Sprintf(", %.0f %%", 100*l.share)
	}
	return text
}
