package main

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// sampleRate is that of all audio on the wire. It is the same for all sessions, because a Vosk server keeps the rate that a
// connection had first.
const sampleRate = 16000

//go:embed clips/*.wav
var builtIn embed.FS

// clip is a recording: 16 bits, little-endian, mono, at sampleRate.
type clip struct {
	name string
	pcm  []byte
}

// loadClips reads WAV files, or takes those that are built in when there are none.
func loadClips(files []string) ([]clip, error) {
	if len(files) == 0 {
		return builtInClips()
	}
	var clips []clip
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		c, err := newClip(filepath.Base(file), content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if slices.ContainsFunc(clips, func(other clip) bool { return other.name == c.name }) {
			return nil, fmt.Errorf("%s: there is another file of that name, and transcripts are told apart by it", file)
		}
		clips = append(clips, c)
	}
	return clips, nil
}

func builtInClips() ([]clip, error) {
	entries, err := builtIn.ReadDir("clips")
	if err != nil {
		return nil, err
	}
	var clips []clip
	for _, entry := range entries {
		content, err := builtIn.ReadFile(path.Join("clips", entry.Name()))
		if err != nil {
			return nil, err
		}
		c, err := newClip(entry.Name(), content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		clips = append(clips, c)
	}
	synthetic, err := newClip("synthetic", speech.WAV)
	return append(clips, synthetic), err
}

func newClip(file string, content []byte) (clip, error) {
	audio, err := wav.Parse(content)
	if err != nil {
		return clip{}, err
	}
	c := clip{name: strings.TrimSuffix(file, filepath.Ext(file)), pcm: convert(audio)}
	if len(c.pcm) == 0 {
		return clip{}, fmt.Errorf("there is no audio in it")
	}
	return c, nil
}
