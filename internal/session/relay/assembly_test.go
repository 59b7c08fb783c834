package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A message of frames without end, all of them empty, is not collected without end.
func TestAssemblyOfEmptyFrames(t *testing.T) {
	var a assembly
	b := frame.AppendMessage(nil, frame.Binary, false, []byte("x"), true)
	empty := frame.AppendMessage(nil, frame.Continuation, false, nil, true)
	for range 2*maxWhole/len(empty) + 100 {
		_, n, is := a.next(b)
		if is == gatheredTooLong {
			if got := len(a.begun()); got < maxWhole || got > 2*maxWhole+len(empty) {
				t.Errorf("%d bytes were collected", got)
			}
			a.reset()
			return
		}
		if is != gatheredPart || n != len(b) {
			t.Fatalf("%d of %d bytes are %v", n, len(b), is)
		}
		b = empty
	}
	t.Errorf("%d bytes were collected", len(a.begun()))
}
