package top

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file shows which sessions another backend could continue, and when one did.

// failoverOf says what becomes of a service's sessions whose backend fails.
func failoverOf(f *api.ServiceFailover) string {
	if f == nil || f.Mode != "replay" {
		return "off"
	}
	return fmt.Sprintf("replay, %s: %s moved, %d could not", f.Verdict, figures.Plural(int(f.Moved), "session"), f.NotMoved)
}

// outliveFields says how a backend keeps up, and how many sessions left it for another one; nothing that does not concern it.
func outliveFields(b *api.Backend, now time.Time) (fields []field) {
	if b.Canary != "" && b.Canary != "off" {
		text, t := withReason(b.Canary, b.CanarySince, b.CanaryReason, now), normal
		if b.CanarySeconds > 0 {
			text += "; last first result in " + figures.Seconds(b.CanarySeconds)
		}
		if b.Canary == "down" {
			t = bad
		}
		fields = append(fields, field{"canary", text, t})
	}
	if b.LagSeconds > 0 {
		fields = append(fields, field{"lag", fmt.Sprintf("%s (median %s)", figures.Seconds(b.LagSeconds), dash(b.MedianLagSeconds)), lagTone(b.LagSeconds)})
	}
	if b.Stalls > 0 {
		fields = append(fields, field{"stalls", fmt.Sprint(b.Stalls), warning})
	}
	if b.Moved+b.NotMoved > 0 {
		fields = append(fields, field{"moved", fmt.Sprintf("%s to other backends, %d could not", figures.Plural(int(b.Moved), "session"), b.NotMoved), normal})
	}
	return fields
}

// failoverFields shows how another backend could continue a session, and each time that one did.
func failoverFields(s *api.SessionDetail) (fields []field) {
	f := s.Failover
	if f == nil {
		if s.Failovers > 0 {
			fields = append(fields, field{"moved", figures.Plural(s.Failovers, "time") + " to another backend", normal})
		}
		return fields
	}
	if f.Assured {
		fields = append(fields, field{"assured", "yes, " + figures.Bytes(float64(f.KeptBytes)) + " kept", normal})
	} else {
		fields = append(fields, field{"assured", "no: " + f.Why, warning})
	}
	if f.AudioSeconds > 0 {
		fields = append(fields, field{"audio", fmt.Sprintf("%.1f s, answered up to %.1f s", f.AudioSeconds, f.AnsweredSeconds), normal})
	}
	for i := range f.Moves {
		v := &f.Moves[i]
		fields = append(fields, field{"moved", fmt.Sprintf("%s, %s to %s: %s, %.1f s replayed, took %s",
			v.Time.UTC().Format(time.TimeOnly), v.From, v.To, v.Cause, v.ReplayedSeconds, dash(v.TookSeconds)), normal})
	}
	return fields
}
