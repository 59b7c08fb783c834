// Package wav reads WAV files with uncompressed 16-bit audio, the form that speech servers take.
package wav

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Audio is the content of a WAV file.
type Audio struct {
	SampleRate    int // frames per second
	Channels      int
	BitsPerSample int // always 16
	// PCM is the samples, little-endian; those of the channels alternate. It shares memory with the file.
	PCM []byte
}

// The formats of audio that are recognized.
const (
	formatPCM        = 0x0001
	formatFloat      = 0x0003
	formatALaw       = 0x0006
	formatMuLaw      = 0x0007
	formatExtensible = 0xfffe
)

// subFormatTail is the rest of the identifier of an extensible format, after the two bytes of the format.
const subFormatTail = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"

// The sample rates of speech and music, in Hz. Whoever resamples a file with a tiny one would need many times its size.
const (
	minRate = 1_000
	maxRate = 384_000
)

// unknownSize is the size of the audio in a file whose writer could not go back to enter it, as ffmpeg into a pipe: it lasts until the end of the file.
const unknownSize = 0xffff_ffff

// Parse reads a WAV file, given its content. The error says what is wrong with the file.
func Parse(file []byte) (*Audio, error) {
	if len(file) < 12 || string(file[:4]) != "RIFF" || string(file[8:12]) != "WAVE" {
		return nil, fmt.Errorf("not a WAV file: it begins with %.12q instead of RIFF....WAVE", file[:min(len(file), 12)])
	}
	var audio *Audio
	for rest := file[12:]; len(rest) > 0; {
		if len(rest) < 8 {
			return nil, fmt.Errorf("truncated WAV file: %d bytes where a chunk should begin", len(rest))
		}
		name, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		if size == unknownSize && name == "data" && audio != nil {
			size = int64(len(body) - len(body)%(2*audio.Channels))
		}
		if size > int64(len(body)) {
			return nil, fmt.Errorf("truncated WAV file: chunk %q has %d of its %d bytes", name, len(body), size)
		}
		chunk := body[:size]
		switch name {
		case "fmt ":
			var err error
			if audio, err = parseFormat(chunk); err != nil {
				return nil, err
			}
		case "data":
			if audio == nil {
				return nil, errors.New(`damaged WAV file: chunk "data" comes before chunk "fmt "`)
			}
			if frame := 2 * audio.Channels; len(chunk)%frame != 0 {
				return nil, fmt.Errorf("damaged WAV file: the number of bytes of audio, %d, is not a multiple of %d", len(chunk), frame)
			}
			audio.PCM = chunk
			return audio, nil
		}
		rest = body[min(size+size%2, int64(len(body))):] // chunks begin at even offsets
	}
	if audio == nil {
		return nil, errors.New(`damaged WAV file: it has no chunk "fmt "`)
	}
	return nil, errors.New(`damaged WAV file: it has no chunk "data"`)
}

// parseFormat reads the chunk that describes the audio.
func parseFormat(chunk []byte) (*Audio, error) {
	if len(chunk) < 16 {
		return nil, fmt.Errorf(`damaged WAV file: chunk "fmt " has %d bytes, but needs 16`, len(chunk))
	}
	format := binary.LittleEndian.Uint16(chunk)
	audio := &Audio{
		Channels:      int(binary.LittleEndian.Uint16(chunk[2:])),
		SampleRate:    int(binary.LittleEndian.Uint32(chunk[4:])),
		BitsPerSample: int(binary.LittleEndian.Uint16(chunk[14:])),
	}
	if format == formatExtensible {
		if len(chunk) < 40 {
			return nil, fmt.Errorf(`damaged WAV file: extensible chunk "fmt " has %d bytes, but needs 40`, len(chunk))
		}
		if string(chunk[26:40]) != subFormatTail {
			return nil, fmt.Errorf("the audio is in an unknown format (%x): convert it to uncompressed 16-bit PCM", chunk[24:40])
		}
		format = binary.LittleEndian.Uint16(chunk[24:])
	}
	switch {
	case format != formatPCM:
		return nil, fmt.Errorf("the audio is %s: convert it to uncompressed 16-bit PCM", formatName(format))
	case audio.BitsPerSample != 16:
		return nil, fmt.Errorf("the audio is %d-bit PCM: convert it to uncompressed 16-bit PCM", audio.BitsPerSample)
	case audio.Channels == 0:
		return nil, errors.New("damaged WAV file: the audio has no channels")
	case audio.SampleRate < minRate || audio.SampleRate > maxRate:
		return nil, fmt.Errorf("damaged WAV file: the sample rate is %d Hz: use %d to %d", audio.SampleRate, minRate, maxRate)
	}
	return audio, nil
}

// formatName returns the name of a format, for errors.
func formatName(format uint16) string {
	switch format {
	case formatFloat:
		return "floating point"
	case formatALaw:
		return "A-law"
	case formatMuLaw:
		return "mu-law"
	}
	return fmt.Sprintf("in format %#04x", format)
}
