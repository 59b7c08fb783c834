package capacity

import "fmt"

// Kept is what is believed of a server's readings. The zero value has read nothing. It is not safe for concurrent use.
type Kept struct {
	Last Reading // the last good one; its zero value before the first
	// Strangers is how many sessions others than the proxies hold.
	Strangers int

	before int // strangers at the last reading
	jumps  int // readings in a row that were beyond the cap all of a sudden
}

// mostJumps is how many readings in a row must say that a server takes more than the cap, when it took no more until then. A single one is
// more likely a mistake.
const mostJumps = 3

// Take takes a reading in. own is how many of the used sessions are connections of the proxies. An error says why the last good reading is kept.
//
// Strangers count only when two readings in a row show them: for a moment, a connection that has just been opened or closed is there for one
// side and not for the other.
func (k *Kept) Take(r Reading, own, limit int) error {
	if k.Last.Total > 0 && k.Last.Total <= limit && r.Total > limit {
		if k.jumps++; k.jumps < mostJumps {
			return fmt.Errorf("the total jumped from %d to %d, above the cap of %d", k.Last.Total, r.Total, limit)
		}
	}
	strangers := 0
	if r.Used != Unknown {
		strangers = max(0, r.Used-own)
	}
	k.Strangers, k.before = min(strangers, k.before), strangers
	k.Last, k.jumps = r, 0
	return nil
}

// Ceiling returns how many connections of a cap there may be: what the server takes without those of strangers. It is at least 1, so that the
// proxy sees when there is room. Before the first good reading it is the cap.
func (k *Kept) Ceiling(limit int) int {
	most := limit
	if k.Last.Total > 0 {
		most = k.Last.Total
	}
	return max(1, min(limit, most-k.Strangers))
}
