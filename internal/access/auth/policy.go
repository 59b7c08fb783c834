package auth

import "sync/atomic"

// Policy is how the clients of one service are authenticated. It is immutable once it is in use.
type Policy struct {
	// Methods are asked in this order.
	Methods Chain
	// Sources say where in a request credentials are.
	Sources Sources
	// Withheld are the sources that backends are not told.
	Withheld Sources
	// EndUnauthorized ends sessions whose client may not stay: see [Chain.Revoked] and [Asker].
	EndUnauthorized bool
}

// Result is what became of a client that was to be authenticated.
type Result uint8

// The results.
const (
	Accepted Result = iota
	Refused         // the client is turned away
	Failed          // a method does not work
	results  = iota
)

// String returns the result's name in metrics.
func (r Result) String() string { return [results]string{"accepted", "refused", "failed"}[r] }

// methodNames are the methods in the order in which they are counted. The last one stands for none that has answered.
var methodNames = [...]string{"keys", "jwt", "certificate", "external", "none"}

// Counters count the results of authentication. Any goroutine may use them.
type Counters struct {
	counts [len(methodNames)][results]atomic.Uint64
}

// Add counts a result of the method of that name; empty for none that has answered.
func (c *Counters) Add(method string, result Result) {
	last := len(methodNames) - 1
	for i, name := range methodNames[:last] {
		if name == method {
			c.counts[i][result].Add(1)
			return
		}
	}
	c.counts[last][result].Add(1)
}

// Count is how often one method had one result since the start.
type Count struct {
	Method string // "none" for clients about whom no method could say anything
	Result Result
	Count  uint64
}

// Counts returns all counts, also those that are 0. Where no method has answered, a client can only be refused.
func (c *Counters) Counts() []Count {
	all := make([]Count, 0, len(methodNames)*results)
	for i, name := range methodNames {
		for result := range Result(results) {
			if i < len(methodNames)-1 || result == Refused {
				all = append(all, Count{name, result, c.counts[i][result].Load()})
			}
		}
	}
	return all
}
