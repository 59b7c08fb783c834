package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
)

// needs are what check says about a configuration to programs.
type needs struct {
	Database string `json:"database,omitempty"`
	Version  string `json:"version,omitempty"`
	Needs    []need `json:"needs"`

	each     []string // names that stand for servers that are not known
	warnings []string
}

// need is how much of a resource the configuration needs at most.
type need struct {
	Resource string `json:"resource"`         // file descriptors, memory or replay memory (in bytes), or local ports
	Server   string `json:"server,omitempty"` // that local ports are needed for
	// EachServer: the host stands for servers that are not known, and each needs as much.
	EachServer bool   `json:"each_server,omitempty"`
	Needed     int64  `json:"needed"`
	Have       *int64 `json:"have"` // null if that is not known
	Enough     bool   `json:"enough"`
	Advice     string `json:"advice,omitempty"`
}

// newNeeds compares a need with what this machine has. replay is how many bytes of replay-memory may be needed; 0 if no service has
// failover.
func newNeeds(n machine.Need, s *settings.Settings, replay int64) *needs {
	all := &needs{each: n.Each}
	here := machine.Granted()
	demands := n.Demands(here)
	for i := range demands {
		d := &demands[i]
		next := need{Resource: d.Resource, Server: d.Server, EachServer: d.Each, Needed: d.Needed, Enough: d.Enough(), Advice: d.Advice}
		if d.Have >= 0 {
			next.Have = &d.Have
		}
		all.Needs = append(all.Needs, next)
	}
	if replay > 0 {
		all.addReplay(replay, app.ReplayMemory(s.ReplayMemory, here))
	}
	warnings := machine.Warnings(demands)
	for _, resource := range slices.Sorted(maps.Keys(warnings)) {
		all.warnings = append(all.warnings, warnings[resource])
	}
	if err := dialfrom.Check(s.Sources()); err != nil {
		all.warnings = append(all.warnings, "serve cannot start with dial-from: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return all
}

// replayMemory is the resource of failover: see the setting replay-memory.
const replayMemory = "replay memory"

// addReplay adds how many bytes of replay-memory may be needed.
func (n *needs) addReplay(needed, have int64) {
	next := need{Resource: replayMemory, Needed: needed, Have: &have, Enough: needed <= have}
	if !next.Enough {
		next.Advice = fmt.Sprintf("replay-memory is %s, but %s may be needed if all connections serve sessions that are not answered for the replay-window: "+
			"it is enough for %d %% of them, and those beyond are not recoverable; raise replay-memory, or lower replay-window",
			figures.Bytes(float64(have)), figures.Bytes(float64(needed)), have*100/needed)
		n.warnings = append(n.warnings, next.Advice)
	}
	n.Needs = append(n.Needs, next)
}

// warn warns of what is too little. That is no error, since the proxy may run elsewhere or with other limits.
func (n *needs) warn(messages io.Writer) {
	for _, text := range n.warnings {
		fmt.Fprintln(messages, "Warning: on this machine", text)
	}
}

// The verdicts.
const (
	enough    = "enough"
	tooLittle = "too little"
	notKnown  = "not known"
)

// mostLacking is how many servers are shown that there are too few local ports for.
const mostLacking = 10

// table prints the needs for people. Of the servers that there are enough local ports for, only the one is shown for which they are
// scarcest.
func (n *needs) table(out io.Writer) error {
	list := rows{heads: []string{"RESOURCE", "NEEDED", "HERE", "VERDICT"}}
	shown, servers := 0, 0
	for _, d := range n.Needs {
		if d.Resource == machine.ResourcePorts {
			servers++
		}
	}
	for _, d := range n.Needs {
		label, write := d.Resource, func(amount int64) string { return strconv.FormatInt(amount, 10) }
		switch d.Resource {
		case machine.ResourceMemory, replayMemory:
			write = func(amount int64) string { return figures.Bytes(float64(amount)) }
		case machine.ResourcePorts:
			if shown > 0 && d.Enough || shown == mostLacking {
				continue
			}
			shown++
			label += " to " + d.Server
			if d.EachServer {
				label = d.Resource + " to each server of " + d.Server
			}
			if d.Enough && servers > 1 {
				label += fmt.Sprintf(" (the most of %d addresses)", servers)
			}
		}
		needed, have, verdict := write(d.Needed), notKnown, notKnown
		if d.Resource == machine.ResourceMemory || d.Resource == replayMemory {
			needed = "about " + needed
		}
		if d.Have != nil {
			have, verdict = write(*d.Have), enough
		}
		if !d.Enough {
			verdict = tooLittle
		}
		list.cells = append(list.cells, []string{label, needed, have, verdict})
	}
	if len(n.each) > 0 {
		list.note = fmt.Sprintf("Descriptors and memory count one server for each name that is looked up: %s.", strings.Join(n.each, ", "))
	}
	return list.print(out, &output{})
}
