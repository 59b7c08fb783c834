package metrics

import (
	"strconv"
)

func ofLoops() []family {
	// The type of a loop's statistics belongs to another package, which this one need not import to read its fields.
	each := func(value func(s *Snapshot, i int) float64) func(*Snapshot, put) {
		return func(s *Snapshot, put put) {
			for i := range s.Loops.Loops {
				put(value(s, i), strconv.Itoa(s.Loops.Loops[i].ID))
			}
		}
	}
	return []family{
		gauge("loops_awake", "Event loops that are awake. Their number follows the load.",
			func(s *Snapshot, put put) { put(float64(s.Loops.Awake)) }),
		counter("loops_moved_total", "Sessions and idle connections moved from one event loop to another.",
			func(s *Snapshot, put put) { put(float64(s.Loops.Moved)) }),
		gauge("loop_awake", "1 if the event loop is awake. Otherwise 0.",
			each(func(s *Snapshot, i int) float64 { return toFloat(s.Loops.Loops[i].Awake) }), "loop"),
		gauge("loop_busy_ratio", "Share of one processor that the event loop used recently, from 0 to 1.",
			each(func(s *Snapshot, i int) float64 { return s.Loops.Loops[i].Busy }), "loop"),
		gauge("loop_connections", "Connections on the event loop, of clients and to backends.",
			each(func(s *Snapshot, i int) float64 { return float64(s.Loops.Loops[i].Connections) }), "loop"),
	}
}
