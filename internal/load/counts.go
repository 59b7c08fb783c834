package load

import "github.com/wsbouncer/wsbouncer/internal/frame"

// counts is what the clients of a lane with the same target count, from one time that it is collected to the next.
type counts struct {
	numbers
	distributions
	Errors map[string]int64          // what went wrong
	Closes map[frame.CloseCode]int64 // what the servers closed with
}

// numbers are counts that are mere numbers.
type numbers struct {
	Sent      int64 // messages of the steady part
	Received  int64 // their echoes that were right
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

	// Sessions, by what became of them; what is missing to Begun has only just begun, or is in ConnectFailures.
	Begun    int64
	Complete int64
	Failed   int64
	Refused  int64 // could not connect, and were not a client's first
	Cut      int64 // ended with the run

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
	c.Errors[missing]-- // below zero when the loss has been collected before
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

// clear makes everything nothing, and keeps the memory for what comes next.
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
