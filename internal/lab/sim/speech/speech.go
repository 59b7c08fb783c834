// Package speech has a recording to stream to speech servers, and a client that streams it, for tests and demonstrations.
package speech

import _ "embed" // for WAV

// WAV is a WAV file with three spoken sentences: 16 kHz, mono, 16 bits.
//
//go:embed speech.wav
var WAV []byte
