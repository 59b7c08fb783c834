package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file shows how sessions could continue on another backend, and when they did.

// assured says whether a session is recoverable: whether another backend could continue it; empty if its service has no failover.
func assured(s *api.Session) string {
	if s.Assured {
		return "yes"
	}
	if s.Unassured != "" {
		return "no: " + s.Unassured
	}
	return ""
}

// keptOf returns what is kept of a session for the next backend; empty for nothing.
func keptOf(s *api.Session) string {
	if s.KeptBytes == 0 {
		return ""
	}
	return figures.Bytes(float64(s.KeptBytes))
}

// countOf returns a number; empty for 0.
func countOf(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// timesTo says how often a session continued on another backend or connection; empty for never.
func timesTo(what string, n int) string {
	if n == 0 {
		return ""
	}
	return figures.Plural(n, "time") + " to another " + what
}

// failoverFields has the fields of a session's failover; none if it has none.
func failoverFields(f *api.Failover) [][]string {
	if f == nil {
		return nil
	}
	rows := [][]string{{"assured", "yes: another backend could go on with it"}}
	if !f.Assured {
		rows = [][]string{{"assured", "no: " + f.Why}}
	}
	if f.AudioSeconds > 0 {
		rows = append(
			rows,
			[]string{"audio", fmt.Sprintf("%.1f s, answered up to %.1f s", f.AudioSeconds, f.AnsweredSeconds)},
		)
	}
	if f.KeptBytes > 0 {
		rows = append(rows, []string{"kept", figures.Bytes(float64(f.KeptBytes)) + " for the next backend"})
	}
	return rows
}

// showMoves prints the moves of a session.
func showMoves(out io.Writer, moves []api.Move) error {
	fmt.Fprintln(out, "\nMoves to other backends")
	var cells [][]string
	for i := range moves {
		m := &moves[i]
		cells = append(cells, []string{
			clock(m.Time), m.From, m.To, m.Cause, fmt.Sprintf("%.1f s", m.ReplayedSeconds), measuredSeconds(m.TookSeconds),
		})
	}
	return table(out, []string{"TIME", "FROM", "TO", "CAUSE", "REPLAYED", "TOOK"}, cells)
}

// canaryOf returns the verdict of a backend's canary and how long its first result took; empty without a canary.
func canaryOf(b *api.Backend) string {
	switch {
	case b.Canary == "" || b.Canary == "off":
		return ""
	case b.CanarySeconds > 0:
		return b.Canary + ", " + figures.Seconds(b.CanarySeconds)
	}
	return b.Canary
}

// failoverLine says how many sessions moved to other backends, and how much of the memory for that is used; empty if no service has failover or reconnect.
func failoverLine(st *api.Stats) string {
	if st.Replay == nil {
		return ""
	}
	var moved, stayed uint64
	for i := range st.Services {
		if f := st.Services[i].Failover; f != nil {
			moved, stayed = moved+f.Moved, stayed+f.NotMoved
		}
	}
	return fmt.Sprintf("Failover: %s moved to other backends since the start, %d could not; replay memory %s of %s",
		figures.Plural(int(moved), "session"), stayed, figures.Bytes(float64(st.Replay.MemoryBytes)), figures.Bytes(float64(st.Replay.LimitBytes)))
}
