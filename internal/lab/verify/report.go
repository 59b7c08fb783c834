package verify

import "time"

// Verdict is whether a claim of the profile is true.
type Verdict string

// The verdicts.
const (
	Holds    Verdict = "holds"
	Fails    Verdict = "does not hold"
	NotTried Verdict = "not tried"
)

// Claim is something that a profile says about its servers, and what was found.
type Claim struct {
	Name    string  `json:"name"`
	Says    string  `json:"says"` // what the profile says
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Evidence is what was sent and received, if the claim does not hold.
	Evidence []string `json:"evidence,omitempty"`
}

// Report is what was found about a profile on a server.
type Report struct {
	Profile     string    `json:"profile"`
	Server      string    `json:"server"`            // its URL, without what may be secret
	Version     string    `json:"version,omitempty"` // as the server says itself in its handshake
	At          time.Time `json:"at"`
	Connections int       `json:"connections"` // how many were used
	Seconds     float64   `json:"seconds"`
	Claims      []Claim   `json:"claims"`
}

// Holds reports whether no claim was found not to hold, and at least one to hold.
func (r *Report) Holds() bool {
	some := false
	for _, c := range r.Claims {
		if c.Verdict == Fails {
			return false
		}
		some = some || c.Verdict == Holds
	}
	return some
}
