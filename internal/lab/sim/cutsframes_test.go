//go:build linux && !portableloop

package sim

// cutsFrames: what a dying server writes last arrives. The portable driver writes later, and drops it when the socket is closed.
const cutsFrames = true
