// Package speech holds a recording to stream to speech servers, in tests and demonstrations.
package speech

import _ "embed" // for WAV

// WAV is a WAV file with three spoken sentences: 16 kHz, mono, 16 bits.
//
//go:embed speech.wav
var WAV []byte
