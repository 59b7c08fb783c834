//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	oneBackoff = 15 * time.Second // longest pause between two attempts to dial a server that does not answer (internal/servers/backend)
	fillTime   = 2 * time.Second  // for dialing the connections once the server was reached
)

// claim is a promise of the proxy.
type claim struct {
	text   string
	held   bool
	detail string
}

// judge prints for each claim whether it held. It returns an error if one did not.
func judge(out io.Writer, o observation) error {
	fmt.Fprintf(out, "\nfirst wave:  %s\nsecond wave: %s\n\n", summary(o.first), summary(o.second))
	broken := 0
	for _, c := range claims(o) {
		verdict := "held        "
		if !c.held {
			verdict = "DID NOT HOLD"
			broken++
		}
		fmt.Fprintf(out, "%s  %s\n              %s\n", verdict, c.text, c.detail)
	}
	if broken > 0 {
		return fmt.Errorf("%d claims did not hold", broken)
	}
	return nil
}

func claims(o observation) []claim {
	others := o.last.Backends[:victim]
	lost, unharmed, balanced := false, true, true
	for i, b := range others {
		lost = lost || o.fewest[i] < o.before[i]
		unharmed = unharmed && b.Broken+b.CircuitOpened+b.Totals.DialFailed == 0
	}
	ended := uint64(0)
	for _, n := range o.last.Sessions.Ended {
		ended += n
	}
	for _, b := range o.last.Backends {
		balanced = balanced && b.Totals.Leased == b.Totals.Returned+b.Totals.Discarded
	}
	dead := o.before[victim]
	return []claim{
		{
			"no server had more connections than its cap",
			slices.Max(o.most[:]) <= o.cap && slices.Max(o.peaks[:]) <= o.cap && slices.Min(o.peaks[:]) >= 0,
			fmt.Sprintf("cap %d; most connections in %d readings: %d; most that the servers counted (the third since its restart): %d",
				o.cap, o.readings, o.most, o.peaks),
		},
		{
			"the sessions on the other two servers continued",
			!lost && unharmed && o.first.Failed == int64(dead) && dead > 0 && o.first.Lost+o.first.Mixed == 0 && o.first.ConnectFailures == 0,
			fmt.Sprintf("sessions on each when the third was killed: %d, fewest later: %d; of %d sessions %d failed; the others lost %d messages, and %d were mixed up",
				o.before, o.fewest[:victim], o.first.Connected, o.first.Failed, o.first.Lost, o.first.Mixed),
		},
		{
			"the killed server's clients were told so",
			o.last.Sessions.Ended[uint16(frame.InternalError)] == uint64(dead) && o.last.Backends[victim].Broken == uint64(dead),
			fmt.Sprintf("%d sessions ended with 1011 of the %d that it had", o.last.Sessions.Ended[uint16(frame.InternalError)], dead),
		},
		{
			"the third pool was full again within one backoff of the server's return",
			o.returned <= oneBackoff+fillTime,
			fmt.Sprintf("%d idle connections after %.1f s; the maximum backoff is %v", o.idle, o.returned.Seconds(), oneBackoff),
		},
		{
			"the third server gets clients again",
			o.sent > 0 && o.second.Connected == o.second.Connections && o.second.Failed+o.second.Lost+o.second.Mixed == 0,
			fmt.Sprintf("%d of the %d clients of the second wave; %d of the wave failed", o.sent, o.second.Connected, o.second.Failed),
		},
		{
			"every session and every lease ended",
			balanced && ended == o.last.Sessions.Total,
			fmt.Sprintf("%d of %d sessions ended; every lease was returned or discarded: %v", ended, o.last.Sessions.Total, balanced),
		},
	}
}
