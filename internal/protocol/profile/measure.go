package profile

// Measure says how long the audio is that the client of a session has sent, by the bytes of its messages. It is data, and belongs to the owner of
// the session. The zero value knows no duration.
//
// The format is what the profile's failover.audio says. Clients may name it in their URL, or in their first message. What they name later counts
// only for sessions that a [Tracker] follows.
type Measure struct {
	program *trackerProgram
	chosen  [3]string
	format  format
}

// NewMeasure returns the measure of a session with a server of the profile, whose client's URL has this raw query.
func NewMeasure(p *Profile, query string) Measure {
	m := Measure{program: p.program.tracker}
	m.program.audio.choose(&m.chosen, query)
	m.read()
	return m
}

// read finds out the format by what was chosen.
func (m *Measure) read() { m.format, _ = readFormat(m.chosen) }

// firstMessage takes the client's first text message.
func (m *Measure) firstMessage(payload []byte) {
	if hits, ok := collect(nil, payload, m.program.choices, m.program.choices.all); ok {
		m.program.chooseByMessage(&m.chosen, payload, hits)
		m.read()
	}
}

// Audio returns the duration in microseconds of the audio in messages with so many payload bytes, binary and text. estimated reports that the audio
// is not the whole payload, so that its part is estimated: in base64, or as numbers in MessagePack. ok is false if the duration is not known.
func (m *Measure) Audio(binary, text uint64) (micros uint64, estimated, ok bool) {
	if !m.format.fixed {
		return 0, false, false
	}
	audio := binary
	switch a := &m.program.audio; {
	case a.base64 != nil:
		audio, estimated = text/4*3, true
	case a.floats != "":
		audio, estimated = binary/packedFloat*4, true
	}
	return uint64(m.format.lastsFor(int64(audio), 1e6)), estimated, true
}

// Measure returns the same for a session that the tracker follows.
func (t *Tracker) Measure() Measure {
	m := Measure{program: t.program, chosen: t.chosen, format: t.format}
	if !m.format.fixed {
		m.read()
	}
	return m
}
