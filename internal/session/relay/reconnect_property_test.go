package relay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Whatever breaks where, each message arrives once and in order, both ways.
func TestReturnsLoseNothing(t *testing.T) {
	// A client that answers the proxy's close frame later than within CloseTimeout would be waited for.
	r := newRig(t, setup{Service: func(s *route.Service) { s.Reconnect, s.CloseTimeout = time.Hour, wstest.Timeout/2 }})
	rapid.Check(t, func(t *rapid.T) {
		h := newReturnHistory(t, r)
		defer h.end()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				h.say()
			case 2: // in the middle of a message, and perhaps the connection stays
				h.sayPart(rapid.Bool().Draw(t, "cut"))
			case 3:
				h.cut()
			case 4, 5:
				h.answer()
			case 6: // perhaps the old connection still lives
				h.comeBack(rapid.IntRange(1, 400<<10).Draw(t, "bytes")) // with none, it would not know that the proxy has had its request
			}
		}
		for !h.comeBack(-1) {
		}
		h.settle()
		switch rapid.IntRange(0, 2).Draw(t, "ending") {
		case 0:
			h.close()
		case 1:
			h.expire()
		case 2:
			h.closeServer()
		}
	})
}

// returnHistory is one history of a session whose client comes back.
type returnHistory struct {
	r      *rig
	t      *rapid.T
	server *wstest.Peer
	out    chan []byte // what the server sends
	tasks  sync.WaitGroup

	token    string
	said     [][]byte // messages of the client, as frames
	texts    []string // their payloads
	answers  []string // payloads of the server's messages
	bytes    int      // of those
	received int      // what the proxy said last that it has

	mu      sync.Mutex
	carrier *cuttable // guarded by mu: the client's connection of the moment
	got     []string  // guarded by mu: what the client has got
	skip    int       // guarded by mu: messages that come again
	heard   []string  // guarded by mu: what the server has got
	closing bool      // guarded by mu: the server has sent a close frame
	closed  bool      // guarded by mu: the client has got a close frame
	all     []*cuttable
}

// cuttable is a connection of a client that reads only so many bytes, and is reset then.
type cuttable struct {
	*net.TCPConn
	left int // the reader's: negative for no limit
	mute bool

	mu     sync.Mutex
	broken bool // guarded by mu: a part of a frame was written
}

func (c *cuttable) Read(b []byte) (int, error) {
	if c.left == 0 {
		c.reset()
		return 0, io.EOF
	}
	if c.left > 0 {
		b = b[:min(len(b), c.left)]
	}
	n, err := c.TCPConn.Read(b)
	if c.left > 0 {
		c.left -= n
	}
	return n, err
}

// Write writes pongs.
func (c *cuttable) Write(b []byte) (int, error) {
	if !c.mute {
		c.write(b, len(b))
	}
	return len(b), nil
}

// write writes the beginning of a message's frames, unless only a part of another has been written. It does not fail: what is lost comes again.
func (c *cuttable) write(b []byte, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.broken {
		c.broken = n < len(b)
		_, _ = c.TCPConn.Write(b[:n])
	}
}

func (c *cuttable) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func newReturnHistory(t *rapid.T, r *rig) *returnHistory {
	r.Ready(1)
	h := &returnHistory{r: r, t: t, out: make(chan []byte, 256)}
	if !h.dial(-1, -1) {
		t.Fatal("the client cannot connect")
	}
	h.server = r.Accepted()
	h.tasks.Go(h.listen)
	h.tasks.Go(func() {
		for b := range h.out {
			_, _ = h.server.Write(b)
		}
	})
	return h
}

// listen is the server's ear.
func (h *returnHistory) listen() {
	var message []byte
	for {
		header, payload, err := h.server.Next()
		if err != nil {
			return
		}
		switch header.Opcode {
		case frame.Ping, frame.Pong:
		case frame.Close:
			h.mu.Lock()
			if !h.closing {
				_, _ = h.server.Write(h.server.Encode(true, frame.Close, payload))
			}
			h.mu.Unlock()
			_ = h.server.Close()
		default:
			message = append(message, payload...)
			if header.Fin {
				h.mu.Lock()
				h.heard = append(h.heard, string(message))
				h.mu.Unlock()
				message = nil
			}
		}
	}
}

// message draws a message, and returns its payload and its frames.
func (h *returnHistory) message(number, most int, encode func(fin bool, op frame.Opcode, payload []byte) []byte) (string, []byte) {
	sizes := rapid.OneOf(rapid.SampledFrom([]int{0, 1, 125, 126, 65535, 65536}), rapid.IntRange(0, 3000), rapid.IntRange(0, 200<<10))
	size := min(most, sizes.Draw(h.t, "size"))
	payload := wstest.Noise(byte(number), size)
	copy(payload, strconv.Itoa(number)+" ")
	var frames []byte
	op, rest := frame.Binary, payload
	for n := rapid.IntRange(0, 3).Draw(h.t, "fragments"); n > 0; n-- {
		part := rapid.IntRange(0, len(rest)).Draw(h.t, "part")
		frames = append(frames, encode(false, op, rest[:part])...)
		op, rest = frame.Continuation, rest[part:]
		if rapid.Bool().Draw(h.t, "ping") {
			frames = append(frames, encode(true, frame.Ping, []byte("between fragments"))...)
		}
	}
	return string(payload), append(frames, encode(true, op, rest)...)
}

func (h *returnHistory) current() *cuttable {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.carrier
}

// say lets the client send a message.
func (h *returnHistory) say() {
	h.sayUpTo(func(frames []byte) int { return len(frames) })
}

func (h *returnHistory) sayUpTo(end func(frames []byte) int) {
	text, frames := h.message(len(h.said), 200<<10, wstest.ClientFrame[[]byte])
	h.said, h.texts = append(h.said, frames), append(h.texts, text)
	if n := end(frames); h.current() != nil {
		h.current().write(frames, n)
	}
}

// sayPart lets it send a part of one.
func (h *returnHistory) sayPart(cut bool) {
	h.sayUpTo(func(frames []byte) int { return rapid.IntRange(0, len(frames)-1).Draw(h.t, "sent") })
	if cut {
		h.cut()
	}
}

// answer lets the server send a message. What is kept for the client is limited, and a client that acknowledges nothing may lose what is beyond.
func (h *returnHistory) answer() {
	text, frames := h.message(len(h.answers), max(1, min(200<<10, 600<<10-h.bytes)), h.server.Encode)
	h.answers, h.bytes = append(h.answers, text), h.bytes+len(text)
	h.out <- frames
}

// cut breaks the client's connection.
func (h *returnHistory) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.carrier == nil {
		return
	}
	if rapid.Bool().Draw(h.t, "reset") {
		h.carrier.reset()
	} else {
		_ = h.carrier.Close()
	}
	h.carrier = nil
}

// comeBack comes back over a connection that is reset after some bytes; negative for none. It returns false if that was before the answer's end.
func (h *returnHistory) comeBack(bytes int) bool {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return true
	}
	h.carrier = nil // what comes over it from now on does not count
	got := len(h.got)
	h.mu.Unlock()
	if rapid.IntRange(0, 3).Draw(h.t, "received") == 0 {
		got = -1
	}
	return h.dial(bytes, got)
}

// dial connects, for the first time if there is no token.
func (h *returnHistory) dial(limit, got int) bool {
	nc, err := net.Dial("tcp", h.r.Address)
	if err != nil {
		h.t.Fatal(err)
	}
	c := &cuttable{TCPConn: nc.(*net.TCPConn), left: limit, mute: rapid.Bool().Draw(h.t, "mute")}
	_ = c.SetDeadline(wstest.Deadline())
	h.all = append(h.all, c)
	var fields []string
	if h.token != "" {
		fields = append(fields, "Wsbouncer-Resume: "+h.token)
	}
	if got >= 0 {
		fields = append(fields, "Wsbouncer-Received: "+strconv.Itoa(got))
	}
	request := []byte(wstest.UpgradeRequest("/v1/test", fields...))
	c.write(request, len(request))
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		if limit < 0 {
			h.t.Fatal(err)
		}
		return false
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(response.Body)
		h.t.Fatalf("refused with %s: %s", response.Status, text)
	}
	number := func(name string) int { n, _ := strconv.Atoi(response.Header.Get(name)); return n }
	received, sent := number("Wsbouncer-Received"), number("Wsbouncer-Sent")
	h.mu.Lock()
	heard := len(h.heard)
	h.carrier, h.skip = c, len(h.got)-sent
	wrong := h.skip < 0 || got >= 0 && got != sent
	h.mu.Unlock()
	if wrong || received < h.received || received < heard && h.token == "" || received > len(h.said) {
		h.t.Fatalf("the proxy has %d messages of %d, and had %d; it goes on behind %d, and the client has said %d",
			received, len(h.said), h.received, sent, got)
	}
	h.token, h.received = response.Header.Get("Wsbouncer-Resume"), received
	early, _ := in.Peek(in.Buffered())
	conn := speaker.NewConn(handshake.Established{Conn: c, Early: bytes.Clone(early)}, wstest.Timeout)
	h.tasks.Go(func() { h.read(c, conn) })
	for _, frames := range h.said[received:] {
		c.write(frames, len(frames))
	}
	return true
}

// read is the client's ear on one of its connections.
func (h *returnHistory) read(c *cuttable, conn *speaker.Conn) {
	for {
		m, err := conn.Receive(wstest.Deadline())
		h.mu.Lock()
		if errors.As(err, new(*speaker.CloseError)) && h.carrier == c {
			h.closed = true
			b := wstest.ClientFrame(true, frame.Close, frame.ClosePayload(frame.NormalClosure, ""))
			c.write(b, len(b))
			c.left = -1
			h.tasks.Go(func() { // to the end: otherwise the connection is reset, and the proxy does not get the close frame
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
		}
		switch {
		case err != nil || h.carrier != c:
			h.mu.Unlock()
			return
		case h.skip > 0:
			h.skip--
		default:
			h.got = append(h.got, string(m.Payload))
		}
		h.mu.Unlock()
	}
}

// until waits as wstest.Eventually does. When nothing comes of it, it ends this history only.
func (h *returnHistory) until(what string, condition func() bool) {
	for end := wstest.Deadline(); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.t.Fatalf("never happened: %s; %+v, %+v; the server has %s of %s, and the client %s of %s",
				what, h.r.sessions.lines.Stats(), h.r.Script.Counts(), heads(h.heard), heads(h.texts), heads(h.got), heads(h.answers))
		}
	}
}

// heads returns the beginnings of messages.
func heads(messages []string) (all []string) {
	for _, m := range messages {
		all = append(all, fmt.Sprintf("%.4q(%d)", m, len(m)))
	}
	return all
}

// settle waits until each side has got what the other has sent, in order.
func (h *returnHistory) settle() {
	wrong := false
	h.until("all messages arrive", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		up, down := len(h.heard), len(h.got)
		wrong = up > len(h.texts) || down > len(h.answers) || !slices.Equal(h.heard, h.texts[:up]) || !slices.Equal(h.got, h.answers[:down])
		return wrong || up == len(h.texts) && down == len(h.answers)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if wrong {
		h.t.Fatalf("the server has got %s of %s, and the client %s of %s", heads(h.heard), heads(h.texts), heads(h.got), heads(h.answers))
	}
}

// close lets the client say goodbye.
func (h *returnHistory) close() {
	b := wstest.ClientFrame(true, frame.Close, frame.ClosePayload(frame.NormalClosure, ""))
	h.current().write(b, len(b))
	h.until("the client's close frame is answered", h.isClosed)
	h.gone()
}

func (h *returnHistory) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// closeServer lets the server send its last messages and say goodbye, whether the client is there or not.
func (h *returnHistory) closeServer() {
	if rapid.Bool().Draw(h.t, "away") {
		h.cut()
	}
	for range rapid.IntRange(0, 3).Draw(h.t, "answers") {
		h.answer()
	}
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.out <- h.server.Encode(true, frame.Close, frame.ClosePayload(frame.NormalClosure, ""))
	for range rapid.IntRange(0, 3).Draw(h.t, "returns") {
		h.comeBack(rapid.IntRange(1, 100<<10).Draw(h.t, "bytes"))
	}
	for !h.comeBack(-1) {
	}
	h.until("the client gets the server's close frame", h.isClosed)
	h.gone()
}

// expire ends the wait for the client.
func (h *returnHistory) expire() {
	h.cut()
	h.until("the session waits for its client", func() bool { return h.r.sessions.lines.EndOldest("test") })
	h.gone()
}

// gone checks that the session cannot be come back to.
func (h *returnHistory) gone() {
	h.until("the session ends", func() bool { return h.r.sessions.Active() == 0 })
	h.until("its line ends", func() bool { return h.r.sessions.lines.Stats().Lines == 0 })
	p, err := h.r.TryConnect()
	if err != nil {
		h.t.Fatal(err)
	}
	defer p.Close()
	_, _ = p.Write([]byte(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+h.token)))
	if response, err := p.TryResponse(); err != nil || response.StatusCode != http.StatusGone {
		h.t.Fatalf("the token is still good for something: %v, %v", response, err)
	}
	h.settle()
}

// end ends what is left.
func (h *returnHistory) end() {
	for _, c := range h.all {
		c.reset()
	}
	_ = h.server.Close()
	close(h.out)
	h.tasks.Wait()
	for h.r.sessions.Active() > 0 { // after a failure
		h.r.sessions.lines.EndOldest("test")
		time.Sleep(time.Millisecond)
	}
}
