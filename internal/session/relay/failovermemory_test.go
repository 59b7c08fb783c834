package relay

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Messages that are no audio are kept for as long as the replay-window allows, too: a client cannot fill the memory with them.
func TestMessagesThatAreNoAudio(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, _ := r.began()
	text := `{"hello" : "` + strings.Repeat("x", 50_000) + `"}`
	for range 50 { // 2.5 MB; 960 kB are kept of them for a window of 15 s, and as many for the audio
		client.Send(frame.Text, text)
		server.ExpectOwn(frame.Text, text) // one that comes in several reads continues as a new frame
	}
	if why := r.recoverable(false); why != "the client has sent more than is kept for replay-window 15s" {
		t.Errorf("it is not recoverable since %s", why)
	}
	client.CloseNormally()
}

// When the memory is used up, the session that keeps the most stops being recoverable. One that keeps little stays recoverable, and outlives its
// server.
func TestLargestSessionPays(t *testing.T) {
	r := newFailoverRig(t, "vosk", 3, setup{})
	r.Arena.SetLimit(200 << 10)
	hog, hogServer, hogs := r.began()
	hogID := record.ID{}
	r.on(func(s *Session) { hogID = s.record.ID })
	for range 110 { // 11 seconds, 180 kB
		hog.Send(frame.Binary, sessiontest.Chunk(1))
		hogServer.Expect(frame.Binary, sessiontest.Chunk(1))
	}
	honest := r.Connect(wstest.UpgradeRequest("/v1/test"))
	honest.ExpectUpgrade()
	honest.Send(frame.Text, sessiontest.VoskConfig)
	n := 0
	r.each(func(s *Session) {
		if s.record.ID != hogID {
			n = slices.Index(r.Backends, s.record.Backend)
		}
	})
	server := r.Scripts[n].Take()
	server.Expect(frame.Text, sessiontest.VoskConfig)
	for range 30 {
		honest.Send(frame.Binary, sessiontest.Chunk(2))
		server.Expect(frame.Binary, sessiontest.Chunk(2))
	}
	wstest.Eventually(t, "the largest session is no longer recoverable", func() (is bool) {
		r.each(func(s *Session) {
			if f := s.failover; s.record.ID == hogID {
				is = !f.machine.Recoverable() && f.unrecoverable() == "the proxy's replay-memory is used up" && f.window.Memory() == 0
			} else if !f.machine.Recoverable() {
				t.Errorf("the other one is not recoverable: %s", f.unrecoverable())
			}
		})
		return is
	})
	server.Reset()
	next := r.Scripts[3-n-hogs].Take()
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	for range 30 {
		next.Expect(frame.Binary, sessiontest.Chunk(2))
		next.Send(frame.Text, sessiontest.Partial("x"))
		honest.Expect(frame.Text, sessiontest.Partial("x"))
	}
	honest.CloseNormally()
	hog.CloseNormally()
}

// What waits of messages that clients have not ended counts, of all sessions together. Where that is too much, the message under way streams to the
// server, and its session is recoverable again when all is answered.
func TestUnfinishedMessages(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, _ := r.began()
	all := &r.sessions.lines.Unfinished
	audio := strings.Repeat("a", 64_000)
	message := client.Encode(true, frame.Binary, []byte(audio))
	begin := func() { r.sendPart(client, message[:40_000], 39_000) }
	end := func(expect func(frame.Opcode, string), answer string) {
		client.SendBytes(message[40_000:])
		expect(frame.Binary, audio)
		server.Send(frame.Text, answer)
		client.Expect(frame.Text, answer)
	}

	begin()
	r.recoverable(true)
	end(server.ExpectOwn, sessiontest.Partial("x"))
	r.on(func(s *Session) {
		if f := s.failover; f.up.raw != nil {
			t.Errorf("%d bytes are kept of a message that has passed", cap(*f.up.raw))
		}
	})

	others := make([]resume.Gathering, 40)
	for i := range others {
		others[i].Join(all, strconv.Itoa(i), "")
		for n := 24 << 20; !others[i].Count(n); {
			n -= n / 8
		}
	}
	begin()
	if why := r.recoverable(false); why != "too much waits of messages that clients have not ended" {
		t.Errorf("it is not recoverable since %s", why)
	}
	end(server.Expect, sessiontest.Final("one", 0, 8.1))
	r.recoverable(true)
	for _, answer := range []string{sessiontest.Partial("x"), sessiontest.Final("two", 8.1, 16.1)} { // the second one begins while nothing is kept
		begin()
		r.recoverable(false)
		end(server.Expect, answer)
	}
	r.recoverable(true)

	for i := range others {
		others[i].Leave()
	}
	begin()
	var rest resume.Gathering
	rest.Join(all, "", "another network")
	if rest.Count(22_369_000) {
		t.Error("what waits does not count")
	}
	_ = client.Close()
	wstest.Eventually(t, "it counts no longer", func() bool { return rest.Count(22_369_000) })
}

// A session in a replay whose memory is lost, and then that for unfinished messages, too, loses nothing that its client has sent.
func TestUnfinishedMessageInReplay(t *testing.T) {
	r := newFailoverRig(t, "speechmatics", 2, setup{})
	const started = `{"message": "RecognitionStarted"}`
	start := `{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 8000}}`
	client, server, n := r.Begin()
	client.Send(frame.Text, start)
	server.Expect(frame.Text, start)
	server.Send(frame.Text, started)
	client.Expect(frame.Text, started)
	client.Send(frame.Binary, sessiontest.Chunk(0))
	server.Expect(frame.Binary, sessiontest.Chunk(0))
	server.Reset()
	next := r.Other(n)
	next.ExpectOwn(frame.Text, start) // and the rest waits until it has begun

	audio := strings.Repeat("a", 20_000) + strings.Repeat("b", 20_000)
	message := client.Encode(true, frame.Binary, []byte(audio))
	r.sendPart(client, message[:10_000], 9_900)
	r.on(func(s *Session) { s.failover.loseMemory() })
	others := make([]resume.Gathering, 40)
	for i := range others {
		others[i].Join(&r.sessions.lines.Unfinished, strconv.Itoa(i), "")
		for n := 24 << 20; !others[i].Count(n); {
			n -= n / 8
		}
	}
	r.sendPart(client, message[10_000:30_000], 1)
	for i := range others {
		others[i].Leave()
	}
	next.Send(frame.Text, started)
	client.SendBytes(message[30_000:])
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Expect(frame.Binary, audio)
}
