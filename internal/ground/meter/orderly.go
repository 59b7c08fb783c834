package meter

// OrderlyEnd is how it went to end a session on the server in its client's place.
type OrderlyEnd uint8

// The results.
const (
	// EndCompleted: the server said its last word, or closed.
	EndCompleted OrderlyEnd = iota
	// EndTimedOut: it did neither in time.
	EndTimedOut
	// EndLost: the connection was lost, or the server broke RFC 6455.
	EndLost
	// EndSkipped: the server was not told, since it had too many such connections already.
	EndSkipped

	orderlyEnds = iota
)

// String returns the result's name in metrics.
func (e OrderlyEnd) String() string {
	return [orderlyEnds]string{"completed", "timed_out", "lost", "skipped"}[e]
}

// OrderlyEnds counts them by result.
type OrderlyEnds [orderlyEnds]uint64

// EndedInOrder counts a session that was ended on the server in its client's place, or that was not. Any goroutine may call it.
func (b *Backend) EndedInOrder(e OrderlyEnd) { b.orderly[e].Add(1) }
