package load

import "time"

// Phase is a part of a run.
type Phase int

// The phases of a run, in their order. A run has only the first if no client connected, or if it was ended while connecting.
const (
	// Connecting: clients connect, and wait for their first echo.
	Connecting Phase = iota
	// Steady: clients send messages at the rate in the options.
	Steady
	// Draining: no more messages become due; clients wait for the last echoes.
	Draining
	// Done: clients wait for nothing more. The run is about to close the connections.
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
	Begins  bool          // this report is the first one of the phase
	Elapsed time.Duration // since clients began to connect

	Connections     int
	Connected       int
	ConnectFailures int
	Sent            int64 // in the steady part
	Received        int64
	Lost            int64
	Mixed           int64
	Failed          int64   // sessions that failed, or could not connect again
	Sessions        int64   // complete ones
	Rate            float64 // echoes per second since the last report
	P50, P99        time.Duration
}

// report reports the run's progress.
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
