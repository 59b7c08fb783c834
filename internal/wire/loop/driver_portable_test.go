//go:build !linux || portableloop

package loop

// portable tells which driver is under test.
const portable = true
