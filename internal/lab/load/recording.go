package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// endOfAudio is the message that ends a session. Vosk servers compare it byte by byte.
const endOfAudio = `{"eof" : 1}`

// bytesPerSample of the audio that speech servers take.
const bytesPerSample = 2

// recording is an audio file as the frames that a client streams. It is static, and all loops share it.
type recording struct {
	config []byte   // the first frame of a session; empty for none
	chunks [][]byte // a frame for each piece of audio
	end    []byte   // the frame that ends the session
}

func newRecording(audio *wav.Audio, chunk time.Duration, config string, mask uint32) *recording {
	encode := func(opcode frame.Opcode, payload []byte) []byte {
		return frame.Append(nil, frame.Header{Fin: true, Opcode: opcode, Masked: true, Mask: mask}, payload)
	}
	r := &recording{end: encode(frame.Text, []byte(endOfAudio))}
	if config != "" {
		r.config = encode(frame.Text, []byte(config))
	}
	size := chunkSize(audio, chunk)
	for pcm := audio.PCM; len(pcm) > 0; {
		n := min(size, len(pcm))
		r.chunks = append(r.chunks, encode(frame.Binary, pcm[:n]))
		pcm = pcm[n:]
	}
	return r
}

// chunkSize returns the length in bytes of a chunk of audio.
func chunkSize(audio *wav.Audio, chunk time.Duration) int {
	return int(int64(audio.SampleRate)*int64(chunk)/int64(time.Second)) * bytesPerSample
}

// length returns the duration of the audio.
func length(audio *wav.Audio) time.Duration {
	samples := int64(len(audio.PCM) / bytesPerSample)
	return time.Duration(samples * int64(time.Second) / int64(audio.SampleRate))
}

// checkAudio returns an error if the audio cannot be streamed, whatever the other options.
func checkAudio(audio *wav.Audio) error {
	switch {
	case audio.BitsPerSample != 8*bytesPerSample || audio.Channels != 1:
		return fmt.Errorf("audio: %d channels of %d bits: use one channel (mono) of 16 bits",
			audio.Channels, audio.BitsPerSample)
	case audio.SampleRate <= 0:
		return fmt.Errorf("audio: %d samples per second: use more than 0", audio.SampleRate)
	case len(audio.PCM) == 0:
		return errors.New("audio: the file has no samples")
	}
	return nil
}
