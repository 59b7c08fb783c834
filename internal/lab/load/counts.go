package load

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

// counts holds what the clients of a lane with the same target have counted since the run last collected it.
type counts struct {
	numbers
	distributions
	Errors map[string]int64          // what went wrong
	Closes map[frame.CloseCode]int64 // what the servers closed with
}

// numbers are the counts that are single numbers.
type numbers struct {
	Sent      int64 // messages of the steady part
	Received  int64 // correct echoes of these messages
	Unsent    int64
	Lost      int64
	Mixed     int64
	Abandoned int64
	Partials  int64
	Finals    int64

	// Clients, by how they began.
	Connected       int64
	ConnectFailures int64

	// Connections.
	Joined int64 // established
	Parted int64 // ended

	// Sessions, by outcome. The rest of Begun has only just begun, or is in ConnectFailures.
	Begun    int64
	Complete int64
	Failed   int64
	Refused  int64 // could not connect, and were not a client's first session
	Cut      int64 // ended by the end of the run

	// By the stage's clock.
	LastConnect int64 // when the last client was connected
	LastEcho    int64 // when the last first echo was complete
}

// distributions are counts of durations.
type distributions struct {
	Latency      Times
	Connect      Times // of clients' first sessions
	FirstEcho    Times
	ConnectAgain Times // of further sessions
	ReplyAgain   Times
	Final        Times // from the end of audio to the final answer
}

func newCounts() *counts {
	return &counts{Errors: make(map[string]int64), Closes: make(map[frame.CloseCode]int64)}
}

// error counts an error by its kind.
func (c *counts) error(kind string) { c.Errors[kind]++ }

// lose counts messages whose answers were skipped, or did not come in time.
func (c *counts) lose(messages int64) {
	if messages > 0 {
		c.Lost += messages
		c.Errors[missing] += messages
	}
}

// late takes back one lost message, since its answer has come after all.
func (c *counts) late() {
	c.Errors[outOfOrder]++
	c.Errors[missing]-- // negative if the run has already collected the loss
}

// add adds everything that other holds.
func (c *counts) add(other *counts) {
	c.numbers.add(&other.numbers)
	mine := c.distributions.all()
	for i, times := range other.distributions.all() {
		mine[i].add(*times)
	}
	for kind, n := range other.Errors {
		if c.Errors[kind] += n; c.Errors[kind] == 0 {
			delete(c.Errors, kind)
		}
	}
	for code, n := range other.Closes {
		c.Closes[code] += n
	}
}

// clear sets all counts to zero, and keeps the memory.
func (c *counts) clear() {
	c.numbers = numbers{}
	for _, times := range c.distributions.all() {
		times.clear()
	}
	clear(c.Errors)
	clear(c.Closes)
}

func (d *distributions) all() [6]*Times {
	return [...]*Times{&d.Latency, &d.Connect, &d.FirstEcho, &d.ConnectAgain, &d.ReplyAgain, &d.Final}
}

func (n *numbers) add(other *numbers) {
	n.Sent += other.Sent
	n.Received += other.Received
	n.Unsent += other.Unsent
	n.Lost += other.Lost
	n.Mixed += other.Mixed
	n.Abandoned += other.Abandoned
	n.Partials += other.Partials
	n.Finals += other.Finals
	n.Connected += other.Connected
	n.ConnectFailures += other.ConnectFailures
	n.Joined += other.Joined
	n.Parted += other.Parted
	n.Begun += other.Begun
	n.Complete += other.Complete
	n.Failed += other.Failed
	n.Refused += other.Refused
	n.Cut += other.Cut
	n.LastConnect = max(n.LastConnect, other.LastConnect)
	n.LastEcho = max(n.LastEcho, other.LastEcho)
}

// failures returns how many sessions failed or could not even connect.
func (n *numbers) failures() int64 { return n.ConnectFailures + n.Refused + n.Failed }
