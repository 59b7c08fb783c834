package load

import "time"

// Phase is a part of a run.
type Phase int

// The phases of a run, in their order. A run that connected nobody, or was ended while connecting, has only the first.
const (
	// Connecting: clients connect, and wait for their first echo.
	Connecting Phase = iota
	// Steady: messages are sent at the rate that was asked for.
	Steady
	// Draining: nothing more becomes due; the last echoes are waited for.
	Draining
	// Done: nothing more is waited for. The connections are about to be closed.
	Done
)

// String returns the phase's name.
func (p Phase) String() string {
	switch p {
	case Connecting:
		return "connecting"
	case Steady:
		return "steady"
	case Draining:
		return "draining"
	}
	return "done"
}

// Progress is how far a run has come.
type Progress struct {
	Phase   Phase
	Begins  bool          // the phase begins with this report
	Elapsed time.Duration // since clients began to connect

	Connections     int
	Connected       int
	ConnectFailures int
	Sent            int64 // in the steady part
	Received        int64
	Lost            int64
	Mixed           int64
	Failed          int64   // sessions that failed, or could not connect again
	Sessions        int64   // that were complete
	Rate            float64 // echoes per second since the last report
	P50, P99        time.Duration
}

// report tells of the run's progress.
func (r *run) report(phase Phase) {
	last := r.reported
	begins := phase != last.Phase || last.Connections == 0
	if begins && phase != Connecting {
		r.sample(phase)
	} else {
		r.collect()
	}
	c := r.seen.total
	p := Progress{
		Phase: phase, Begins: begins, Elapsed: time.Duration(r.now()),
		Connections: r.Connections, Connected: int(c.Connected), ConnectFailures: int(c.ConnectFailures),
		Sent: c.Sent, Received: c.Received, Lost: c.Lost, Mixed: c.Mixed, Failed: c.Failed + c.Refused, Sessions: c.Complete,
		P50: c.Latency.Quantile(0.5), P99: c.Latency.Quantile(0.99),
	}
	if seconds := (p.Elapsed - last.Elapsed).Seconds(); seconds > 0 {
		p.Rate = float64(p.Received-last.Received) / seconds
	}
	r.reported = p
	r.progress(p)
}
