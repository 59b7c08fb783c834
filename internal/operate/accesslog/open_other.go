//go:build !unix

package accesslog

// doNotWait is nothing here: there are no named pipes among the files.
const doNotWait = 0
