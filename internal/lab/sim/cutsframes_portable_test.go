//go:build !linux || portableloop

package sim

const cutsFrames = false
