package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/load/report"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// longestAudio is how much of a recording is used at most.
const longestAudio = time.Hour

// warmUp is how much is played to a server first: one that loads its model for its first session would be compared with that.
const warmUp = 3 * time.Second

// benchAudio are the flags of the bench command for clients that speak.
type benchAudio struct {
	said
	profile string
	files   []string
	pause   time.Duration
}

func (b *benchAudio) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&b.audio, "audio", nil, "WAV `file` with speech to stream instead, 16 bits, or sample for one that comes with the program (repeat for several)")
	f.StringVar(&b.profile, "profile", "vosk", "with --audio: `name` of the profile whose clients hold the sessions")
	f.StringVar(&b.model, "model", "", "with --audio: `name` of the model to ask for, where clients of the profile name one")
	f.DurationVar(&b.pause, "pause", 0, "with --audio: time between two sessions of a client (default none)")
	addProfileFiles(cmd, &b.files)
	completeFlag(cmd, "profile", config.KindProfile)
	b.instead = "--audio sample, whose text they get"
	for flag, field := range map[string]string{"chunk": "chunk", "config": "start"} {
		removeFlags(f, map[string]error{flag: fmt.Errorf("bench no longer has it: set %s in the section client of a profile of your own, and use --profile-file", field)})
	}
}

// options returns what the flags ask for. The URLs and how they are reached are those of a load.
func (b *benchAudio) options(cmd *cobra.Command, o load.Options) (*streams.Options, error) {
	targets, err := o.Targets()
	if err != nil {
		return nil, err
	}
	if b.pause < 0 {
		return nil, fmt.Errorf("pause: %s is negative: use 0s or more", b.pause)
	}
	p, err := app.FindProfile(b.profile, b.files)
	if err != nil {
		return nil, err
	}
	s := &streams.Options{
		Targets: targets, Profile: p, Streams: o.Connections, Spread: o.Ramp, For: o.Duration, Pause: b.pause, Connect: o.ConnectTimeout, Last: o.Drain,
	}
	if s.Recordings, err = b.recordings(p, longestAudio); err != nil {
		return nil, err
	}
	if s.Last == 0 {
		s.Last = streams.DefaultLast
	}
	if !cmd.Flags().Changed("ramp") { // sessions begin and end at all times, not all at once
		s.Spread = length(s) / time.Duration(len(s.Recordings))
	}
	for _, t := range targets {
		if o.Subprotocol == "" {
			t.Protocol, t.Lookalike = p.Subprotocol, p.Lookalike
		}
		t.AddQuery(s.Recordings[0].Query())
	}
	return s, nil
}

// length is how long all recordings last.
func length(s *streams.Options) (all time.Duration) {
	for _, r := range s.Recordings {
		all += r.Length()
	}
	return all
}

// settings are those of the report.
func (b *benchAudio) settings() []report.Setting {
	all := []report.Setting{{Name: "profile", Value: b.profile}, {Name: "audio", Value: strings.Join(b.audio, ", ")}}
	if b.model != "" {
		all = append(all, report.Setting{Name: "model", Value: b.model})
	}
	if b.pause > 0 {
		all = append(all, report.Setting{Name: "pause", Value: b.pause.String()})
	}
	return all
}

// run holds a short session that does not count, sessions alone, and then all of them. With an error, the result has what was measured until then, if anything.
func (b *benchAudio) run(ctx context.Context, s *streams.Options, messages io.Writer, quiet bool) (*load.Result, error) {
	first := *s
	first.Recordings = []*speaker.Recording{s.Recordings[0].AtMost(warmUp)}
	if !quiet {
		fmt.Fprintf(messages, "a short session to warm up, and %s alone, to compare with: %v\n", figures.Plural(len(s.Recordings), "session"),
			(length(&first) + length(s)).Round(100*time.Millisecond))
	}
	alone, err := streams.Alone(ctx, first)
	if err == nil {
		alone, err = streams.Alone(ctx, *s)
	}
	if err != nil {
		return alone.Result, err
	}
	s.Alone = alone
	return streams.Run(ctx, *s)
}
