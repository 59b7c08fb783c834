// Package replay keeps what clients have sent and no server has finally answered, so that another server can get it.
//
// An [Arena] is the memory for all sessions of the process, with a limit. A [Window] is one session's: its messages in order, as raw frames,
// as they came. It belongs to the session's loop. The package does no I/O and has no clock.
package replay
