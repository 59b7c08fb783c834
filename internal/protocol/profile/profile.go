package profile

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Profile describes one message protocol. It is immutable.
type Profile struct {
	// Name is the profile's name in configuration and flags.
	Name string
	// Summary is one line for people.
	Summary string
	// Reuse says how the proxy proves that a connection is clean. It is OneShot if the profile has a doubt or a risk that it does not
	// accept by unsafe.
	Reuse Reuse
	// Declared is the way of reuse that the profile describes, whether or not it is in force.
	Declared Reuse
	// Reason says why Reuse is OneShot; empty otherwise.
	Reason string

	// Predial says whether connections may be opened before clients arrive.
	Predial Predial
	// Subprotocol is what the proxy offers when it dials (RFC 6455, section 4.1); empty if the profile sets none.
	Subprotocol string
	// Lookalike tells people which server it may be that does not choose Subprotocol, and which profile fits that one; empty for none.
	Lookalike string
	// Limits are the profile's own; the process may have tighter ones.
	Limits Limits
	// MaxAge is how long the server lets a connection live, or the session on it, counted from when it was dialed; 0 for no limit.
	MaxAge time.Duration
	// Ping is the interval of WebSocket pings on an idle connection; 0 for the process's own interval.
	Ping time.Duration
	// EndCloses means that the server closes the connection after the client's own end message.
	EndCloses bool

	spec    *spec
	program *program
}

// Source returns where the profile's facts come from, in its author's words.
func (p *Profile) Source() string { return p.spec.source }

// From returns the name of the profile that this one inherits from; empty for none.
func (p *Profile) From() string { return p.spec.from }

// BusyStatus reports whether this HTTP status, as the answer to the opening handshake, means that the server is full.
func (p *Profile) BusyStatus(status int) bool {
	return status > 0 && status < 1000 && inRanges(uint16(status), p.program.busyStatus)
}

// DialsAhead reports whether connections to a backend are opened before clients arrive. header holds the names, in canonical form, of
// the header fields that the backend's settings contain; query is the query of its URL.
func (p *Profile) DialsAhead(header []string, query string) bool {
	switch p.Predial {
	case PredialNever:
		return false
	case PredialWithKey:
		return p.keyed(header, query)
	}
	return true
}

// keyed reports whether one of these fields or parameters is one in which, by the profile, a client's key is sent.
func (p *Profile) keyed(header []string, query string) bool {
	v := &p.spec.variant
	for _, name := range header {
		if slices.Contains(v.private.headers, name) && namesKey(name) {
			return true
		}
	}
	for raw := range strings.SplitSeq(query, "&") {
		if name, value, ok := parameter(raw); ok && value != "" && slices.Contains(v.private.query, name) && namesKey(name) {
			return true
		}
	}
	return false
}

// namesKey reports whether this name of a header field or parameter suggests a key or token, not just an option.
func namesKey(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(secretNames, name) || strings.Contains(name, "key") || strings.Contains(name, "token") || strings.HasPrefix(name, "auth")
}

// The built-in profiles are files, so that each fact has its source next to it.
//
//go:embed builtin/*.yaml
var builtInFiles embed.FS

// builtInNames are their names. The first is the default.
var builtInNames = []string{
	"one-shot", "echo", "vosk", "funasr", "funasr-realtime", "sherpa-onnx", "sherpa-onnx-python", "dashscope", "vllm-realtime", "watson",
	"kyutai", "whisperlive", "whisperlivekit", "realtimestt", "deepgram", "assemblyai", "speechmatics", "soniox", "gladia",
	"openai-realtime", "sglang-realtime", "sglang-omni", "vllm-omni", "nvidia-realtime", "openai-translations", "kaldi-gstreamer", "kyutai-tts", "cartesia",
	"elevenlabs-tts", "azure-speech",
}

// builtIn caches the built-in profiles that were requested. The mutex guards the map.
var builtIn = struct {
	sync.Mutex
	profiles map[string]*Profile
}{profiles: make(map[string]*Profile)}

// Named returns the built-in profile with this name, the same one every time. Any goroutine may call it.
func Named(name string) (*Profile, error) {
	if !slices.Contains(builtInNames, name) {
		return nil, spelling.Unknown("profile", name, builtInNames)
	}
	builtIn.Lock()
	p := builtIn.profiles[name]
	builtIn.Unlock()
	if p != nil {
		return p, nil
	}
	list, err := parse("builtin/"+name+".yaml", BuiltInYAML(name), func(string) bool { return false })
	if err == nil && (len(list) != 1 || list[0].Name != name) {
		err = fmt.Errorf("builtin/%s.yaml must contain the profile %s and no other", name, name)
	}
	if err != nil { // does not happen: a test parses all built-in profiles
		return nil, fmt.Errorf("the built-in profile %s: %w", name, err)
	}
	builtIn.Lock()
	defer builtIn.Unlock()
	if builtIn.profiles[name] == nil {
		builtIn.profiles[name] = list[0]
	}
	return builtIn.profiles[name], nil
}

// Names returns the names of the built-in profiles, the default first.
func Names() []string { return slices.Clone(builtInNames) }

// BuiltInYAML returns a built-in profile as it was written, with comments that name the source of each fact, or nil if no built-in
// profile has this name.
func BuiltInYAML(name string) []byte {
	b, err := builtInFiles.ReadFile("builtin/" + name + ".yaml")
	if err != nil {
		return nil
	}
	return b
}
