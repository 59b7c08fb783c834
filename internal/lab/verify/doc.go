// Package verify tries on a real server whether what a profile claims is true: it holds sessions directly and over reused connections, leaves
// in every manner, cuts sessions and moves them, and compares letter by letter and time by time.
//
// [Run] does all of it, within a number of connections and a time. It does what the proxy does, with the proxy's own [profile.Boundary] and
// [profile.Tracker], but on plain blocking connections, so that it can tell exactly what was sent and received.
package verify
