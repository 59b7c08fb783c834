package fleet

import "time"

const (
	// Beat is how often each proxy makes an exchange.
	Beat = time.Second
	// SlowBeat is how often it does in a fleet of more than crowd proxies; see [Holder.Beat].
	SlowBeat = 2 * Beat
	// Unseen is after how long without an exchange a proxy is suspected of being dead: proof is looked for.
	Unseen = 3 * time.Second
	// margin is how much later than its beat a proxy may make an exchange without being late.
	margin = 300 * time.Millisecond
)

// crowd is from how many proxies on their beats cost the database more than all that they have to say.
const crowd = 50

// Beat returns how long after an exchange the next one is due if there is nothing to say before. tells is what [Store.Tells] returns: a proxy
// that is not told at once that others need places has to look for it once a second, so that places move within two.
func (h *Holder) Beat(tells bool) time.Duration {
	if tells && len(h.members) >= crowd && !h.frozen && !h.whole && h.settled {
		return SlowBeat
	}
	return Beat
}

// Late returns how long after its last exchange a proxy is late, in a fleet of so many. The difference to [Unseen] leaves time to look again
// before it is suspected.
func Late(members int) time.Duration {
	if members > crowd {
		return SlowBeat + margin
	}
	return Beat + margin
}
