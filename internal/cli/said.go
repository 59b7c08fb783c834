package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// sample is what --audio takes for the recording that comes with the program.
const sample = "sample"

// said are the flags with what clients say.
type said struct {
	audio []string
	text  []string // instead, where the servers speak
	model string
	// instead is what to use for servers that speak.
	instead string
}

// recordings reads them for the clients of a profile, up to a maximal length of each.
func (s *said) recordings(p *profile.Profile, most time.Duration) (all []*speaker.Recording, err error) {
	for _, name := range s.audio {
		recording, err := s.recording(p, name, most)
		if err != nil {
			return nil, s.explain(err, p, "--audio: "+filepath.Base(name))
		}
		all = append(all, recording)
	}
	for _, text := range s.text {
		recording, err := speaker.NewText(p, text, s.model)
		if err != nil {
			return nil, s.explain(err, p, "--text")
		}
		all = append(all, recording)
	}
	return all, nil
}

// recording reads one of --audio. The sample is the text of it where the servers speak.
func (s *said) recording(p *profile.Profile, name string, most time.Duration) (*speaker.Recording, error) {
	data := speech.WAV
	if name != sample {
		var err error
		if data, err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	audio, err := wav.Parse(data)
	if err != nil {
		return nil, err
	}
	recording, err := speaker.NewRecording(p, audio, most, s.model)
	if name == sample && errors.Is(err, speaker.ErrTakesText) {
		return speaker.NewText(p, speech.Text, s.model)
	}
	return recording, err
}

// explain says which flag is wrong.
func (s *said) explain(err error, p *profile.Profile, what string) error {
	switch {
	case errors.Is(err, speaker.ErrTakesText):
		return usageError(fmt.Errorf("--audio: the servers of the profile %s speak: use %s", p.Name, s.instead))
	case errors.Is(err, speaker.ErrTakesAudio):
		return usageError(fmt.Errorf("--text: the servers of the profile %s get audio: use --audio", p.Name))
	case errors.Is(err, speaker.ErrNoModel):
		return usageError(fmt.Errorf("--model: the value is missing: the servers of the profile %s want the name of a model", p.Name))
	case errors.Is(err, speaker.ErrModel):
		return usageError(fmt.Errorf("--model: clients of the profile %s name no model: leave it out", p.Name))
	}
	return invalidError(fmt.Errorf("%s: %w", what, err))
}
