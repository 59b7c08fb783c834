// Package resume lets a client come back to its session after its connection broke, over another connection (docs/reconnect.md). Admission
// reads what a client asks for, and relay gives a session whose service wants that a [Line] in place of its client's socket.
//
// The session sees one client that is silent for a while. The line knows better: it follows the frames of both directions, hands on whole
// messages only, keeps what the client has perhaps not got, and waits for the client when its connection is gone: it is parked.
//
//   - line.go: what a line is, its states, and its connections
//   - received.go: from the client
//   - kept.go: to the client
//   - lines.go: all lines of a process, their tokens and the parked ones
//   - request.go: what a client asks for when it comes back
package resume
