// Package profile decides where one session on a server's connection ends and the next may begin.
//
// A profile describes a server's message protocol: what the server sends at connect, when it is ready, how it says that it is
// full, how a client ends its session, which messages make the connection clean again, and how the proxy proves that. Profiles are
// data. Some are built in ([Named], [Names]), and users write their own in YAML ([Parse]). The package checks both when it reads
// them, and compiles them into matchers. docs/reference/write-a-profile.md explains every key.
//
// The package does no I/O, has no clock and starts no goroutines. A [Profile] is immutable, and any number of goroutines may use it. A
// [Boundary] follows one connection and belongs to the owner of that connection.
//
// # What a caller does
//
// Before it dials, the caller asks [HandshakePolicy.Variant] which parts of the client's request the server needs in its handshake, and
// takes the profile's Predial, Subprotocol, Limits and Ping into account. If the server refuses the handshake, [Profile.BusyStatus]
// reports whether that means that the server is full.
//
// Then the caller reports the connection's events to its Boundary. Each call returns a [Step], which says what to do. In order:
//
//	event                                        call
//	the connection is open                       New, Dialed
//	a data frame of an inspected message begins  Frame; if its Step says Feed, Feed for every piece of the payload
//	the connection is leased                     Begin; the caller sends Greeting to the client first
//	a message from the server begins, in a       Plausible; if it returns false, the caller ends the session and passes on nothing
//	  session                                    of that message
//	a Step said Replaced                         ReplaceEnd, with the session's traffic so far
//	a Step said Elsewhere                        Opening, then End; Begin on another connection, and present the opening there first
//	the lease ends, for whatever reason          End, with the session's traffic
//	the time that a Step asked for has passed    Timer
//	the server closed, or the connection is lost Closed
//
// The caller begins a session only on a connection whose latest Step with a Then other than Continue said Ready.
//
// # What costs nothing
//
// When a message begins, and only then, the caller asks [Boundary.Inspect] whether to present messages of that kind. If not, it
// presents nothing of the message: neither its further frames nor its payload. As a rule, no profile inspects audio: the fast path of
// a frame is one load and one test of a bit. There are two exceptions after ReplaceEnd and End: the caller presents everything that
// the server sends, and presents the rest of a message that was not inspected when it began by Feed alone.
//
// # What a Step means
//
// Pass applies only to what was presented: Relay it, Hold it (the Boundary keeps a copy), Release what was held as one new frame
// ([Boundary.Held]), Drop it, or Keep it unread for later. The order matters: the caller first sends what it relays or releases, and
// then does the rest of the Step. Feed asks for the payload. Then says what happens to the connection or its session, and Reason says
// why, for logs and counters. Client says whether to continue reading from the client. Close is the code of the close frame for a client
// that is still connected. Timer says when to call Timer, and replaces an earlier time. Send holds the proxy's own messages to the
// server, which go out at the next frame boundary, after what was passed on.
//
// # A session with Vosk
//
// The profile vosk has reuse: lockstep, since that server answers each message with one message. A client's end message
// {"eof" : 1} would make the server close the connection, so the profile sends its reset instead:
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
