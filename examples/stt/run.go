package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
)

// run shows the demonstration. It fails when a session did, or when its answers were not those that the recogniser gives
// without the proxy. Whatever it started has ended when it returns.
func run(ctx context.Context, o options, out io.Writer) error {
	clips, err := loadClips(o.clips)
	if err != nil {
		return err
	}
	stage, err := setStage(ctx, o)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer stage.close()
	fmt.Fprintf(out, "%s %s through the proxy (%s, profile %s) to %s; Ctrl-C ends it\n\n", o.clientsStream(),
		figures.Plural(len(clips), "recording"), stage.proxyURL, o.profile, figures.Plural(len(stage.backends), "recogniser"))

	board := newBoard(out, clips)
	sessions := streamAll(ctx, o, stage.proxyURL, clips, board)
	if ctx.Err() != nil {
		return interrupted(ctx, nil)
	}
	backends, err := stage.backendStats(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	direct := make(map[string]transcript)
	for _, c := range clips {
		if direct[c.name], err = stream(ctx, stage.backends[0], c, 0, func(speech.Answer) {}); err != nil {
			return interrupted(ctx, fmt.Errorf("%s, without the proxy: %w", c.name, err))
		}
	}
	report(out, clips, sessions, direct, backends)
	return judge(sessions, direct)
}

// interrupted returns why the demonstration ended early: because it was interrupted, or for what went wrong.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// session is one that is over.
type session struct {
	client int
	clip   string
	heard  transcript
	err    error
}

// streamAll lets all clients stream and returns when they are done. Each begins with another clip.
func streamAll(ctx context.Context, o options, url string, clips []clip, board *board) []session {
	sessions := make([]session, o.clients*o.rounds)
	var clients sync.WaitGroup
	for number := range o.clients {
		clients.Go(func() {
			for round := range o.rounds {
				c := clips[(number+round)%len(clips)]
				show := board.stream(number+1, c.name)
				heard, err := stream(ctx, url, c, o.speed, show)
				sessions[number*o.rounds+round] = session{client: number + 1, clip: c.name, heard: heard, err: err}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	clients.Wait()
	return sessions
}

// judge returns what is wrong with the sessions.
func judge(sessions []session, direct map[string]transcript) error {
	var wrong []error
	for _, s := range sessions {
		if s.err != nil {
			wrong = append(wrong, fmt.Errorf("client %d, %s: %w", s.client, s.clip, s.err))
		} else if what := s.heard.difference(direct[s.clip]); what != "" {
			wrong = append(wrong, fmt.Errorf("client %d, %s: not what the recogniser says without the proxy: %s", s.client, s.clip, what))
		}
	}
	return errors.Join(wrong...)
}
