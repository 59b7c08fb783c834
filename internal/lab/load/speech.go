package load

// Speech is what a run has shown whose clients hold sessions as a profile's clients do (package streams). Lag is in [Distributions.Latency].
type Speech struct {
	// First is the time from a session's first audio to its first result.
	First Times `json:"first_result_ms"`
	// Partial is how long the oldest audio that no result had followed had waited when a result came, until the end message.
	Partial Times `json:"partial_ms"`
	// Final is the time from a session's end message to its last message.
	Final Times `json:"final_ms"`
	// Late is how long after its time the clients themselves sent audio. It is nothing unless the machine that they run on is too busy.
	Late Times `json:"late_ms"`
	// Lag says how it is known which audio results answer.
	Lag LagBy `json:"lag_by"`
	// Growth is how fast lag grows while sessions last.
	Growth Growth `json:"lag_growth"`
	// RealTime is the time from when the first audio was spoken to the last message, by the length of the audio, over all sessions: 1 if they follow
	// at the pace of speech.
	RealTime float64 `json:"real_time_factor"`
	// Full counts sessions that the server refused because it was full. They are among those that could not connect or failed.
	Full int64 `json:"sessions_full"`
	// Same counts sessions with exactly the text of a session that was alone, Other those with another, and Alike is the share of words that all of them
	// had in common with it. All are 0 without such texts. A session without a text is not counted where the one that was alone had none either.
	Same  int64   `json:"same_text"`
	Other int64   `json:"other_text"`
	Alike float64 `json:"words_alike"`
	// Texts are the final texts by recording, each of the first complete session with it.
	Texts []string `json:"texts"`
}

// SameShare returns the share of sessions with exactly the text of a session that was alone. ok is false if none was compared.
func (s Speech) SameShare() (share float64, ok bool) {
	n := s.Same + s.Other
	return float64(s.Same) / float64(max(n, 1)), n > 0
}

// LagBy is how it is known which audio results answer.
type LagBy string

// The ways.
const (
	// LagByReplies: the server replies to each message.
	LagByReplies LagBy = "replies"
	// LagByTimes: results have times, or name a message of the client.
	LagByTimes LagBy = "times"
	// LagByLast: only a session's last message is known to answer all of its audio.
	LagByLast LagBy = "last message"
)

// Growth is how fast lag grows while sessions last: its slope within sessions, in seconds a second.
type Growth struct {
	PerSecond float64 `json:"per_second"`
	// Error is the standard error of the slope. It takes into account that the lags of a session depend on each other, as do those of
	// all sessions at the same time.
	Error float64 `json:"standard_error"`
	// Sessions is how many have told something. The slope is not known if there are none.
	Sessions int `json:"sessions"`
}
