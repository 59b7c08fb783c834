package profile

// Measure says how long audio is that was sent one way of a session, by the bytes of the messages. It is data, and belongs to the owner of the session. The
// zero value knows no duration.
//
// The format is what the profile's failover.audio says of clients' audio, and output of servers'. Clients may name it in their URL, or in their first
// message. What they name later counts only for sessions that a [Tracker] follows.
type Measure struct {
	audio  *audioProgram // nil in the zero value
	chosen [3]string
	format format
}

// Formats are what a session's audio means, from its client and from its server.
type Formats struct{ In, Out Measure }

// NewFormats returns the formats of a session with a server of the profile, whose client's URL has this raw query.
func NewFormats(p *Profile, query string) Formats {
	t := p.program.tracker
	f := Formats{Measure{audio: &t.heard}, Measure{audio: &t.spoken}}
	for _, m := range []*Measure{&f.In, &f.Out} {
		m.audio.choose(&m.chosen, query)
		m.read()
	}
	return f
}

// read finds out the format by what was chosen.
func (m *Measure) read() { m.format, _ = readFormat(m.chosen) }

// firstMessage takes the client's first text message.
func (f *Formats) firstMessage(payload []byte) {
	for _, m := range []*Measure{&f.In, &f.Out} {
		if m.audio.choices == nil {
			continue
		}
		if hits, ok := collect(nil, payload, m.audio.choices, m.audio.choices.all); ok {
			m.audio.chooseByMessage(&m.chosen, payload, hits)
			m.read()
		}
	}
}

// Audio returns the duration in microseconds of the audio in messages with so many payload bytes, binary and text, and how many bytes of them are of
// unknown duration. estimated reports that the audio is not the whole payload, so that its part is estimated: in base64, or as numbers in MessagePack.
func (m *Measure) Audio(binary, text uint64) (micros, unknown uint64, estimated bool) {
	audio, carried := binary, binary
	if a := m.audio; a != nil {
		switch {
		case a.base64 != nil:
			audio, carried, estimated = text/4*3, text, true
		case a.floats != "":
			audio, estimated = binary/packedFloat*4, true
		}
	}
	if !m.format.fixed {
		return 0, carried, false
	}
	return uint64(m.format.lastsFor(int64(audio), 1e6)), 0, estimated
}

// Measure returns the same of the client's audio, for a session that the tracker follows.
func (t *Tracker) Measure() Measure {
	m := Measure{audio: &t.program.heard, chosen: t.chosen, format: t.format}
	if !m.format.fixed {
		m.read()
	}
	return m
}
