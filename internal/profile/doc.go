// Package profile knows where one session on a server's connection ends and the next may begin.
//
// A profile describes a server's message protocol: what the server says at connect, when it is ready, how it says that it is
// full, how a client ends its session, what has to be exchanged before the connection is clean, and how that is proven. Profiles
// are data. Some are built in ([Named], [Names]), one's own are written in YAML ([Parse]); either way they are checked when they
// are read and made into matchers. docs/profiles.md explains every key.
//
// The package does no I/O, has no clock and starts no goroutines. A [Profile] is immutable and may be used by any number of
// goroutines. A [Boundary] follows one connection and belongs to whoever owns that connection.
//
// # What a caller does
//
// Before it dials, the caller asks [Profile.Variant] what of the client's request the server needs in its handshake, and takes
// the profile's Predial, Subprotocol, Limits and Ping into account. When the handshake is refused, [Profile.BusyStatus] tells
// whether that means that the server is full.
//
// Then the connection's events are told to its Boundary, and each call returns a [Step]: what to do. In order:
//
//	what happens                                 call
//	the connection is there                      New, Dialed
//	a data frame begins whose message is inspected Frame, and if its Step says Feed, Feed for every piece of the payload
//	the connection is leased                     Begin; Greeting goes to the client first
//	a message from the server begins, in a       Plausible; when it says no, the session ends, nothing of that message is
//	  session                                    passed on
//	a Step said Replaced                         ReplaceEnd, with the traffic of the session so far
//	a Step said Elsewhere                        Opening, then End; Begin on another connection, where the opening is presented first
//	the lease ends, for whatever reason          End, with the traffic of the session
//	the time that a Step asked for has passed    Timer
//	the server closed, or the connection is lost Closed
//
// A session begins only on a connection whose last Step that said anything said Ready.
//
// # What costs nothing
//
// When a message begins, and only then, the caller asks [Boundary.Inspect] whether messages of that kind are inspected at present. If
// not, nothing of the message is presented: neither its further frames nor its payload. Audio is not inspected, as a rule,
// by any profile: the fast path of a frame is one load and one test of a bit. Two exceptions: after ReplaceEnd and after End, all of
// what the server sends is presented, and the rest of a message that was not inspected when it began is presented by Feed alone.
//
// # What a Step means
//
// Pass is about what was presented, and about nothing else: Relay it, Hold it back (the Boundary keeps a copy), Release what was
// held as a frame of its own ([Boundary.Held]), Drop it, or Keep it unread for later. The order matters: what is relayed or
// released goes out first, and then the rest of the Step is done. Feed asks for the payload. Then is what becomes of
// the connection or its session; Reason says why, for logs and counters. Client says whether to go on reading from the client.
// Close is the code for the client's close frame, if it is still there. Timer is when to call Timer, in place of what was asked
// before. Send are the proxy's own messages to the server, which go out at the next frame boundary, after what was passed on.
//
// # A session with Vosk
//
// The profile vosk has reuse: lockstep, since that server answers each message with one message. A client's end message
// {"eof" : 1} would make it close, so that the profile puts its reset in that message's place:
//
//	client         proxy                          server   calls
//	                                                        Dialed -> Ready
//	               leased                                   Begin -> the first message is inspected
//	audio          ->                             ->        Frame: Relay; from now on binary messages are not inspected
//	               <-                  {"partial"}          (not inspected; counted by the caller, Plausible)
//	{"eof" : 1}    held                                     Frame: Hold; Feed: Drop, Replaced
//	               {"reset" : 1}, silence,        ->        ReplaceEnd: Send, Timer 5s; everything from the server is inspected
//	               {"reset" : 1}
//	               <-                     {"text"}          Frame: Relay; Feed: Relay, Finished, Close 1000
//	close 1000     <-                                       End -> Resetting
//	               (dropped)           {"partial"}          Frame: Drop; Feed: Drop
//	               (dropped)              {"text"}          Feed: Drop, Ready: three answers, the last one a final result
//
// The example of [Boundary] runs it.
package profile
