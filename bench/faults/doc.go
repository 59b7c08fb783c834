// Package faults holds the end-to-end tests of what networks and servers do to a proxy: Toxiproxy, in the same process, stands
// between the proxy and three simulated servers and makes one of them slow, cuts it off or leaves it mute, while hundreds of
// sessions are live. There is nothing to import here.
package faults
