package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Inspector presents the inspected messages of one direction to a connection's boundary, piece by piece as they arrive. The
// zero value is ready. It belongs to whoever owns the direction's scanner.
type Inspector struct {
	feeding bool         // the payload of the frame under way is presented too
	pass    profile.Pass // what becomes of the frame under way, when it is not
}

// Present presents the piece at the start of data, where the scanner's Next has stopped with run. It calls act once or twice with the
// boundary's steps: for the frame's header and for the payload. raw is the piece as it is on the wire, or nil if a second call follows;
// ends tells that its frame ends with it. Present returns the length of the piece; 0 if the boundary did not take it
// ([profile.Keep]), so that it has to be presented again.
func (i *Inspector) Present(b *profile.Boundary, d profile.Direction, scanner *frame.Scanner, run *frame.Run, data []byte,
	act func(step profile.Step, raw []byte, ends bool),
) (int, error) {
	step, headed := profile.Step{}, run.Begins
	if headed {
		step = b.Frame(d, run.Header.Opcode, run.Header.Length, run.Header.Fin)
		if step.Pass == profile.Keep {
			act(step, nil, false)
			return 0, nil
		}
		i.feeding, i.pass = step.Feed, step.Pass
	}
	piece, err := scanner.NextPiece(data)
	if err != nil {
		return 0, err
	}
	raw := data[:piece.Size]
	if !i.feeding {
		step.Pass = i.pass
		act(step, raw, piece.FrameEnds)
		return piece.Size, nil
	}
	if headed {
		act(step, nil, false)
	}
	act(b.Feed(d, piece.Payload, piece.Key, piece.MessageEnds), raw, piece.FrameEnds)
	return piece.Size, nil
}

// inspectRest has the rest of the message under way presented, whether it was until now or not. The boundary expects that when
// a session is over ([profile.Boundary.Feed]).
func (i *Inspector) inspectRest(b *profile.Boundary, scanner *frame.Scanner) {
	scanner.Inspect = b.Inspect(profile.FromServer)
	scanner.InspectRest()
	i.feeding = true
}
