package meter

import "time"

// Used is what clients have used of servers, as they may be billed for it. All numbers only grow.
type Used struct {
	Sessions uint64
	In, Out  Audio  // from clients, and to them
	Results  uint64 // messages that servers have sent to clients
}

// Audio is what was sent one way.
type Audio struct {
	Micros    uint64 // of audio whose duration is known, in microseconds
	Estimated uint64 // the part of Micros that is estimated by the size of the messages around the audio
	Bytes     uint64 // payload of all messages
	Unknown   uint64 // the part of Bytes that is audio of unknown duration, such as compressed audio
}

// Duration returns the duration of the audio, as far as it is known.
func (a *Audio) Duration() time.Duration { return time.Duration(a.Micros) * time.Microsecond }

// Numbers returns all numbers, in the order of the fields.
func (u *Used) Numbers() [10]*uint64 {
	return [...]*uint64{
		&u.Sessions, &u.In.Micros, &u.In.Estimated, &u.In.Bytes, &u.In.Unknown,
		&u.Out.Micros, &u.Out.Estimated, &u.Out.Bytes, &u.Out.Unknown, &u.Results,
	}
}

// Add adds other.
func (u *Used) Add(other Used) {
	for i, n := range other.Numbers() {
		*u.Numbers()[i] += *n
	}
}

// Since returns what was used after earlier. A number that is smaller than before counts as unchanged.
func (u Used) Since(earlier Used) Used {
	for i, n := range earlier.Numbers() {
		now := u.Numbers()[i]
		*now -= min(*n, *now)
	}
	return u
}
