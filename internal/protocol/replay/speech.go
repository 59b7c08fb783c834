package replay

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

const (
	// frameTime is the length of a frame: one level is measured of each.
	frameTime = 20 * time.Millisecond
	// levelsPerDB is the resolution of levels, and lowest the level of digital silence, in dB below full scale.
	levelsPerDB = 2
	lowest      = -100
	// quietest is the level below which nothing is taken for speech.
	quietest = (-55 - lowest) * levelsPerDB
	// aboveNoise is how far above the noise speech is at least.
	aboveNoise = 8 * levelsPerDB
	// The noise is the lowest level of the last noiseBlocks blocks of blockFrames frames (2 seconds): speech pauses more often than that.
	blockFrames = 25
	noiseBlocks = 4
	// seedFrames in a row must be above the noise to begin an utterance: clicks and keys are shorter.
	seedFrames = 4
	// goOnFrames in a row must be above the noise to keep an utterance going.
	goOnFrames = 3
	// hangover is how many frames an utterance may be below its threshold without ending.
	hangover = 12
	// minSpread is the variance of the levels in an utterance, in squares of levels: syllables come and go, noise and tones do not.
	minSpread = 2 * levelsPerDB * 2 * levelsPerDB
)

// Detector distinguishes speech from silence and noise by energy: what is for some time louder than the noise around it, and whose level goes up
// and down as syllables do. It follows the noise, so that a fan that is switched on becomes noise. It takes music and other voices for
// speech. It needs no memory but its own, and belongs to one goroutine.
type Detector struct {
	encoding profile.Encoding
	size     int // of a sample in bytes; 0 if the audio cannot be decoded
	samples  int // in a frame, of all channels
	stride   int // every stride-th sample is looked at

	// The frame that is being measured.
	taken, looked int
	sum, squares  float64
	cut           [4]byte // the beginning of a sample whose rest has not come
	cutSize       int

	frames int // that were measured
	blocks [noiseBlocks]uint8
	lowest uint8 // of the present block

	above     int     // frames in a row above the threshold
	run       int     // frames of the present utterance; 0 if there is none
	below     int     // of them, those at its end without a voice
	counted   int     // of them, those that are in spoken
	levels    int     // of the present utterance that count for the spread
	mean, sq  float64 // sums of these levels and of their squares
	spoken    int     // frames of speech so far
	lastVoice int     // the frame after the last one of speech
}

// NewDetector returns a detector for audio of a format, as [profile.Tracker.Format] returns it. If the format is not known, it never finds
// speech.
func NewDetector(e profile.Encoding, rate, channels int) Detector {
	d := Detector{encoding: e, size: e.SampleSize()}
	channels = max(channels, 1)
	d.samples = rate / int(time.Second/frameTime) * channels
	if d.samples == 0 {
		d.size = 0
	}
	// A hundred samples give a frame's level within a decibel. The stride is odd, so that both channels are heard.
	d.stride = 1
	if channels <= 2 {
		d.stride = max(1, d.samples/100) | 1
	}
	d.Reset()
	return d
}

// Made reports whether the detector is for a format in which it can find speech: the zero value is for none.
func (d *Detector) Made() bool { return d.size > 0 }

// Reset forgets what was heard, but not the format.
func (d *Detector) Reset() {
	*d = Detector{encoding: d.encoding, size: d.size, samples: d.samples, stride: d.stride, lowest: math.MaxUint8}
	for i := range d.blocks {
		d.blocks[i] = math.MaxUint8
	}
}

// Heard returns how much audio was written, and Spoken how much of it was speech, pauses between words included.
func (d *Detector) Heard() time.Duration  { return time.Duration(d.frames) * frameTime }
func (d *Detector) Spoken() time.Duration { return time.Duration(d.spoken) * frameTime }

// LastVoice returns where the last speech ended, counted from the first byte that was written; 0 if there was none.
func (d *Detector) LastVoice() time.Duration { return time.Duration(d.lastVoice) * frameTime }

// Write takes the next audio, which may end within a sample.
func (d *Detector) Write(b []byte) {
	if d.size == 0 {
		return
	}
	if d.cutSize > 0 {
		n := copy(d.cut[d.cutSize:d.size], b)
		d.cutSize += n
		b = b[n:]
		if d.cutSize < d.size {
			return
		}
		d.cutSize = 0
		d.take(d.cut[:d.size])
	}
	whole := len(b) - len(b)%d.size
	d.take(b[:whole])
	d.cutSize = copy(d.cut[:], b[whole:])
}

// take takes whole samples.
func (d *Detector) take(b []byte) {
	for count := len(b) / d.size; count > 0; {
		n := min(count, d.samples-d.taken)
		// The first sample of the frame is looked at, and then one of each stride.
		for i := (d.stride - d.taken%d.stride) % d.stride; i < n; i += d.stride {
			v := d.decode(b[i*d.size:])
			d.sum += v
			d.squares += v * v
			d.looked++
		}
		d.taken += n
		count -= n
		b = b[n*d.size:]
		if d.taken == d.samples {
			d.measured(d.level())
			d.taken, d.looked, d.sum, d.squares = 0, 0, 0, 0
		}
	}
}

// decode returns the first sample, from -1 to 1.
func (d *Detector) decode(b []byte) float64 {
	switch d.encoding {
	case profile.S16LE:
		return float64(int16(binary.LittleEndian.Uint16(b))) / (1 << 15)
	case profile.F32LE:
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		if !(v >= -1 && v <= 1) { // not a number, or beyond full scale
			return 0
		}
		return v
	case profile.U8:
		return (float64(b[0]) - 128) / (1 << 7)
	case profile.MuLaw:
		return float64(muLaw(b[0])) / (1 << 15)
	default:
		return float64(aLaw(b[0])) / (1 << 15)
	}
}

// muLaw decodes a sample as ITU-T G.711 says, table 2.
func muLaw(b byte) int {
	b = ^b
	v := (int(b&0x0f)<<3+0x84)<<(b>>4&7) - 0x84
	if b&0x80 != 0 {
		return -v
	}
	return v
}

// aLaw decodes a sample as ITU-T G.711 says, table 1.
func aLaw(b byte) int {
	b ^= 0x55
	v := int(b&0x0f)<<4 + 8
	if exponent := b >> 4 & 7; exponent > 0 {
		v = (v + 0x100) << (exponent - 1)
	}
	if b&0x80 == 0 {
		return -v
	}
	return v
}

// level returns the level of the frame, without what is constant in it.
func (d *Detector) level() uint8 {
	n := float64(d.looked)
	power := d.squares/n - d.sum/n*(d.sum/n)
	if power <= 0 {
		return 0
	}
	return uint8(max(0, min(-lowest*levelsPerDB, levelsPerDB*(10*math.Log10(power)-lowest))))
}

// measured judges a frame by its level.
func (d *Detector) measured(level uint8) {
	d.lowest = min(d.lowest, level)
	noise := d.lowest
	for _, b := range d.blocks {
		noise = min(noise, b)
	}
	if d.frames++; d.frames%blockFrames == 0 {
		d.blocks[d.frames/blockFrames%noiseBlocks] = d.lowest
		d.lowest = math.MaxUint8
	}
	if level < quietest || level < noise+aboveNoise {
		d.above = 0
		d.pause()
		return
	}
	d.above++
	if d.run == 0 {
		if d.above < seedFrames {
			return
		}
		d.run, d.counted, d.levels, d.mean, d.sq = seedFrames-1, 0, 0, 0, 0
	}
	if d.above < goOnFrames {
		d.pause()
		return
	}
	d.run++
	d.below = 0
	d.levels++
	d.mean += float64(level)
	d.sq += float64(level) * float64(level)
	n := float64(d.levels)
	if d.levels >= 2*seedFrames && d.sq/n-d.mean/n*(d.mean/n) >= minSpread {
		d.spoken += d.run - d.counted
		d.counted = d.run
		d.lastVoice = d.frames
	}
}

// pause counts a frame without a voice in the utterance, if there is one, and ends it if there were too many.
func (d *Detector) pause() {
	if d.run == 0 {
		return
	}
	d.run++
	if d.below++; d.below > hangover {
		d.run = 0
	}
}
