package frame

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// followed is what a follower says of a stream that comes in pieces of n bytes.
func followed(f *Follower, stream []byte, n int) (frames []string) {
	var held []byte
	var payload []byte
	for len(stream) > 0 {
		n := min(n, len(stream))
		held, stream = append(held, stream[:n]...), stream[n:]
		for {
			p := f.Next(held)
			if p.Size == 0 {
				break
			}
			if p.Begins {
				frames, payload = append(frames, fmt.Sprint(p.Header.Opcode, " ", p.Header.Length, " ", p.Header.Fin, " text=", p.Text)), nil
			}
			part := bytes.Clone(p.Payload)
			ApplyMask(part, p.Key)
			payload = append(payload, part...)
			if p.Ends && len(frames) > 0 {
				frames[len(frames)-1] += " " + string(payload)
			}
			held = held[p.Size:]
		}
	}
	return frames
}

func TestFollowerSeesFrames(t *testing.T) {
	long := strings.Repeat("0123456789", 500)
	want := []string{
		"text 5 true text=true Hello",
		"ping 2 true text=false hi",
		"text 2 false text=true ab",
		"pong 0 true text=false ",
		"continuation 0 false text=true ",
		"continuation 2 true text=true cd",
		"binary 5000 false text=false " + long,
		"continuation 1 true text=false x",
		"close 5 true text=false \x03\xe8bye",
	}
	for name, encode := range map[string]func(bool, Opcode, string) []byte{"client": masked, "server": plain} {
		stream := join(encode(true, Text, "Hello"), encode(true, Ping, "hi"), encode(false, Text, "ab"), encode(true, Pong, ""),
			encode(false, Continuation, ""), encode(true, Continuation, "cd"), encode(false, Binary, long), encode(true, Continuation, "x"),
			encode(true, Close, "\x03\xe8bye"))
		for _, n := range []int{1, 2, 3, 7, 100, len(stream)} {
			before := bytes.Clone(stream)
			got := followed(new(Follower), stream, n)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, pieces of %d bytes: %q", name, n, got)
			}
			if !bytes.Equal(stream, before) {
				t.Fatal("the follower has changed the bytes")
			}
		}
	}
}

// A follower that begins at any byte which its scanner has reached sees the frames that begin behind it.
func TestFollowerBeginsAnywhere(t *testing.T) {
	stream := join(masked(false, Text, "first"), masked(true, Ping, "1"), masked(true, Continuation, "second"), masked(true, Binary, "third"))
	want := []string{"text 5 false text=true first", "ping 1 true text=false 1", "continuation 6 true text=true second", "binary 5 true text=false third"}
	begins := []int{0, 11, 18, 30}
	for at := 0; at <= len(stream); at++ {
		scanner := NewClientScanner(0)
		b := bytes.Clone(stream[:at])
		pos := 0
		for {
			run, err := scanner.Next(b[pos:])
			if err != nil {
				t.Fatal(err)
			}
			pos += run.Consumed
			if !run.HasControl() {
				break
			}
		}
		f := scanner.Follow()
		var expected []string
		for i, begin := range begins {
			if begin >= pos {
				expected = append(expected, want[i])
			}
		}
		if got := followed(&f, stream[pos:], 4); fmt.Sprint(got) != fmt.Sprint(expected) {
			t.Errorf("at %d: %q; want %q", pos, got, expected)
		}
	}
}

// Bytes that are not a frame end the following, without an error or a panic: reporting them is the scanner's task.
func TestFollowerStopsAtNonsense(t *testing.T) {
	var f Follower
	if got := followed(&f, join(plain(true, Text, "a"), []byte{0xff, 0xff, 0xff}, plain(true, Text, "b")), 3); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
