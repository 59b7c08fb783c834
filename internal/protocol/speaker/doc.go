// Package speaker plays a client of a speech server: it sends a recording as the profile of the server's protocol says (the key client), and
// collects what comes back.
//
// A [Recording] is what a client sends, prepared once. [Speak] holds a session over a [Line]: a connection to a server ([Conn]), or
// whatever stands for one. All of it is ordinary blocking code, for goroutines outside the event loops.
package speaker
