package load

// counts is what a lane counts.
type counts struct {
	Connected       int
	ConnectFailures int
	Sent            int64 // messages of the steady part
	Received        int64 // their echoes that were right
	Unsent          int64
	Lost            int64
	Mixed           int64
	Failed          int64
	Partials        int64
	Finals          int64
	Sessions        int64 // of speech that were complete
	Errors          map[string]int64

	Latency   Times
	Connect   Times
	FirstEcho Times
}

func newCounts() counts {
	return counts{Errors: make(map[string]int64), Latency: newTimes(), Connect: newTimes(), FirstEcho: newTimes()}
}

// error counts something that went wrong.
func (c *counts) error(kind string) { c.Errors[kind]++ }

// lose counts messages whose answers were passed over, or did not come in time.
func (c *counts) lose(messages int64) {
	if messages > 0 {
		c.Lost += messages
		c.Errors[missing] += messages
	}
}

// late notes that the answer to a message that counts as lost has come after all.
func (c *counts) late() {
	c.Errors[outOfOrder]++
	if c.Errors[missing]--; c.Errors[missing] == 0 {
		delete(c.Errors, missing)
	}
}

// add adds everything that other holds.
func (c *counts) add(other *counts) {
	c.Connected += other.Connected
	c.ConnectFailures += other.ConnectFailures
	c.Sent += other.Sent
	c.Received += other.Received
	c.Unsent += other.Unsent
	c.Lost += other.Lost
	c.Mixed += other.Mixed
	c.Failed += other.Failed
	c.Partials += other.Partials
	c.Finals += other.Finals
	c.Sessions += other.Sessions
	for kind, n := range other.Errors {
		c.Errors[kind] += n
	}
	c.Latency.add(other.Latency)
	c.Connect.add(other.Connect)
	c.FirstEcho.add(other.FirstEcho)
}
