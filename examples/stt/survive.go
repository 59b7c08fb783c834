package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// This file shows sessions that outlive their servers: while clients stream, the recogniser that serves most of them is killed again and
// again (SIGKILL), and comes back a little later.

// revival is how long a recogniser that was killed stays away.
const revival = 2 * time.Second

// pauseBetween is the silence between two recordings of a conversation: a recogniser ends its utterance there.
const pauseBetween = 900 * time.Millisecond

// survive shows the demonstration, and fails when a session did, or when its final results were not, to the letter, those that a recogniser
// gives which is not disturbed.
func survive(ctx context.Context, o options, out io.Writer) error {
	heard := make([]transcript, o.clients)
	u, err := underFire(ctx, o, out, fmt.Sprintf("one of them is killed (kill -9) every %v", o.kill), func(u *fire, i int) (err error) {
		heard[i], err = stream(ctx, u.proxyURL, u.talks[i], o.speed, u.board.stream(i+1, u.talks[i].name))
		return err
	})
	if err != nil {
		return err
	}
	defer u.close()
	var wrong []error
	for i, talk := range u.talks {
		if u.failures[i] != nil {
			wrong = append(wrong, fmt.Errorf("client %d: %w", i+1, u.failures[i]))
			continue
		}
		reference := &reference{ctx: ctx, url: u.backends[0], talk: talk, runs: make(map[int][]result)}
		legs, finals, err := reference.explain(heard[i].finals())
		if err != nil {
			wrong = append(wrong, fmt.Errorf("client %d: %w", i+1, err))
			continue
		}
		fmt.Fprintf(out, "client %d: %d answers to %d messages; all %d final results equal, to the letter, served by %s\n",
			i+1, len(heard[i]), len(talk.messages())+1, finals, figures.Plural(legs, "recogniser"))
	}
	if ctx.Err() != nil {
		return interrupted(ctx, nil)
	}
	return errors.Join(append(wrong, u.enough())...)
}

// fire is a demonstration whose servers are killed.
type fire struct {
	*stage
	o        options
	board    *board
	talks    []clip  // what each client streams
	kills    int     // of servers
	failures []error // how each client's session failed
}

// underFire sets the stage and lets all clients stream conversations, each by a call with its number from 0, while servers are killed. The caller closes
// what it returns, and compares what clients got with what a server gives that is not killed.
func underFire(ctx context.Context, o options, out io.Writer, what string, stream func(u *fire, client int) error) (_ *fire, err error) {
	clips, err := loadClips(o.clips)
	if err != nil {
		return nil, err
	}
	u := &fire{o: o, talks: make([]clip, o.clients), failures: make([]error, o.clients)}
	if u.stage, err = setStage(ctx, o); err != nil {
		return nil, interrupted(ctx, err)
	}
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	fmt.Fprintf(out, "%s speech through the proxy (%s, profile %s) to %s:\n%s; Ctrl-C ends it\n\n",
		o.clientsStream(), u.proxyURL, o.profile, figures.Plural(len(u.backends), o.serverNoun()), what)
	for i := range u.talks {
		u.talks[i] = conversation(clips, i, o.rounds)
	}
	u.board = newBoard(out, u.talks)
	killing, stop := context.WithCancel(ctx)
	var killer, clients sync.WaitGroup
	if o.kill > 0 {
		killer.Go(func() { u.kills, err = u.kill(ctx, killing, o, u.board) })
	}
	for i := range u.failures {
		clients.Go(func() { u.failures[i] = stream(u, i) })
	}
	clients.Wait()
	stop()
	killer.Wait()
	if ctx.Err() != nil || err != nil {
		return nil, interrupted(ctx, err)
	}
	fmt.Fprintf(out, "\n%ss were killed %s. The same speech, streamed to one that is not killed:\n", o.serverNoun(), figures.Plural(u.kills, "time"))
	return u, nil
}

// enough returns an error if servers were to be killed, and none was.
func (u *fire) enough() error {
	if u.o.kill > 0 && u.kills == 0 {
		return fmt.Errorf("no %s was killed: choose a shorter -kill", u.o.serverNoun())
	}
	return nil
}

// conversation joins the clips, with pauses in between, beginning with the first-th one.
func conversation(clips []clip, first, rounds int) clip {
	c := clip{name: "speech"}
	silence := make([]byte, 2*int64(sampleRate)*int64(pauseBetween)/int64(time.Second))
	for i := range rounds * len(clips) {
		c.pcm = append(append(c.pcm, clips[(first+i)%len(clips)].pcm...), silence...)
	}
	return c
}

// messages returns the clip's audio as it is sent.
func (c clip) messages() [][]byte {
	return slices.Collect(slices.Chunk(c.pcm, chunkSize))
}

// chunkSize is the size of the audio in a message, in bytes.
const chunkSize = 2 * sampleRate * int(chunk) / int(time.Second)

// kill kills the recogniser with most sessions again and again until killing ends, and says how often. Each comes back after a while, and all are back
// when it returns.
func (s *stage) kill(ctx, killing context.Context, o options, board *board) (kills int, err error) {
	var revivals sync.WaitGroup
	defer revivals.Wait()
	failed := make(chan error, 1)
	for {
		select {
		case <-killing.Done():
			return kills, nil
		case err := <-failed:
			return kills, err
		case <-time.After(o.kill):
		}
		victim, sessions, err := s.busiest(ctx)
		if err != nil || sessions == 0 {
			if err != nil && ctx.Err() == nil {
				return kills, err
			}
			continue
		}
		s.recogniser(victim).Kill()
		kills++
		board.say("kill -9 of %s %d, which served %d of the sessions", o.serverNoun(), victim+1, sessions)
		revivals.Go(func() {
			select {
			case <-killing.Done():
			case <-time.After(revival):
			}
			if err := s.restart(ctx, o, victim); err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default: // another one failed, too
				}
				return
			}
			board.say("%s %d is back", o.serverNoun(), victim+1)
		})
	}
}

// busiest returns the number of the recogniser that serves most sessions.
func (s *stage) busiest(ctx context.Context) (number, sessions int, err error) {
	all, err := s.admin.Stats(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, b := range all.Backends {
		if i := slices.IndexFunc(s.backends, func(url string) bool { return sameServer(url, b.URL) }); i >= 0 && b.Leased > sessions {
			number, sessions = i, b.Leased
		}
	}
	return number, sessions, nil
}

// recogniser returns one of the recognisers' processes.
func (s *stage) recogniser(number int) *kit.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recognisers[number].Process
}

// restart starts a recogniser anew, at the same address.
func (s *stage) restart(ctx context.Context, o options, number int) error {
	p, err := startServer(o, number, s.listens[number])
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.recognisers[number] = p
	s.mu.Unlock()
	_, err = p.Await(ctx, p.output, serverListens)
	return err
}

// result is a final result: words with their times, in seconds.
type result struct {
	message int // that it answers, from 0
	Words   []struct {
		Conf       float64
		Start, End float64
		Word       string
	} `json:"result"`
	Text string `json:"text"`
}

// finals returns the final results that say something.
func (t transcript) finals() (finals []result) {
	for i, a := range t {
		r := result{message: i}
		if a.Text != "" && json.Unmarshal([]byte(a.Raw), &r) == nil {
			finals = append(finals, r)
		}
	}
	return finals
}

// equals reports whether two results are the same, if the clock of the other one began later by that number of seconds.
func (r *result) equals(other *result, later float64) bool {
	if r.Text != other.Text || len(r.Words) != len(other.Words) {
		return false
	}
	for i, w := range r.Words {
		o := other.Words[i]
		if w.Word != o.Word || w.Conf != o.Conf || math.Abs(w.Start-o.Start-later) > 1e-6 || math.Abs(w.End-o.End-later) > 1e-6 {
			return false
		}
	}
	return true
}

// reference is what a recogniser that is not disturbed makes of a conversation, from its beginning or from the end of an utterance.
type reference struct {
	ctx  context.Context
	url  string
	talk clip
	runs map[int][]result // by the message that they begin with
}

// from returns the final results of the audio from one of its messages on.
func (r *reference) from(message int) ([]result, error) {
	if run, ok := r.runs[message]; ok {
		return run, nil
	}
	heard, err := stream(r.ctx, r.url, clip{pcm: r.talk.pcm[message*chunkSize:]}, 0, func(speech.Answer) {})
	if err != nil {
		return nil, fmt.Errorf("without the proxy: %w", err)
	}
	r.runs[message] = heard.finals()
	return r.runs[message], nil
}

// explain finds out which undisturbed recognisers would have given these results: each begins where the utterance ended that the one
// before gave last. It returns an error if a result is not one of theirs, is missing, or comes twice.
func (r *reference) explain(finals []result) (legs, explained int, err error) {
	run, err := r.from(0)
	if err != nil {
		return 0, 0, err
	}
	begins, next := 0, 0 // of the present recogniser: its first message, and its next result
	legs = 1
	for i := range finals {
		if next < len(run) && finals[i].equals(&run[next], seconds(begins)) {
			next++
			continue
		}
		if next > 0 {
			begins += run[next-1].message + 1
		}
		if run, err = r.from(begins); err != nil {
			return 0, 0, err
		}
		if legs++; len(run) == 0 || !finals[i].equals(&run[0], seconds(begins)) {
			return 0, 0, fmt.Errorf("final result %d is %q, which no undisturbed recogniser says there", i+1, describe(finals[i]))
		}
		next = 1
	}
	if next < len(run) {
		return 0, 0, fmt.Errorf("the last %d final results are missing, beginning with %q", len(run)-next, describe(run[next]))
	}
	return legs, len(finals), nil
}

// seconds returns when a message begins.
func seconds(message int) float64 { return float64(message) * chunk.Seconds() }

func describe(r result) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%.100s", r.Text)
	if len(r.Words) > 0 {
		fmt.Fprintf(&b, " (%.2f to %.2f s)", r.Words[0].Start, r.Words[len(r.Words)-1].End)
	}
	return b.String()
}

// startServer starts a recogniser, or a simulated translation, that listens there.
func startServer(o options, number int, listen string) (child, error) {
	name := fmt.Sprintf("%s %d", o.serverNoun(), number+1)
	if o.translate {
		return start(name, o.proxy, "sim", "--protocol", o.profile, "--listen", listen)
	}
	return start(name, o.python, o.server, "--listen", listen, "--workers", "1")
}
