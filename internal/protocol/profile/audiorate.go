package profile

import "strconv"

// UsualBytes returns how many bytes of messages a second of clients' audio takes, unless they name another format; 0 if that is not known.
func (f *Failover) UsualBytes() int {
	a := &f.audio
	rate, _ := strconv.Atoi(a.rate.value)
	channels, _ := strconv.Atoi(a.channels.value)
	bytes := encodingOf(a.encoding.value).sampleSize() * rate * max(channels, 1)
	switch {
	case a.floats != "":
		const packed = 5 // bytes of a float in MessagePack
		return rate * max(channels, 1) * packed
	case a.base64 != nil:
		return (bytes + 2) / 3 * 4
	}
	return bytes
}
