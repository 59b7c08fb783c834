package profile

import (
	"embed"
	"fmt"
	"slices"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// The built-in profiles are files, so that each fact stands next to where it is known from.
//
//go:embed builtin/*.yaml
var builtInFiles embed.FS

// builtInNames are their names. The first is the default.
var builtInNames = []string{
	"one-shot", "echo", "vosk", "funasr", "sherpa-onnx", "dashscope", "vllm-realtime", "watson", "kyutai", "whisperlive",
	"whisperlivekit", "deepgram", "assemblyai", "speechmatics", "openai-realtime", "kaldi-gstreamer",
}

// builtIn holds those that have been asked for.
var builtIn = struct {
	sync.Mutex
	profiles map[string]*Profile
}{profiles: make(map[string]*Profile)}

// Named returns the built-in profile of that name, the same one every time.
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
	if err != nil { // a test parses them all
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

// BuiltInYAML returns a built-in profile as it was written, with comments that name the source of each fact; nil when there
// is none of that name.
func BuiltInYAML(name string) []byte {
	b, err := builtInFiles.ReadFile("builtin/" + name + ".yaml")
	if err != nil {
		return nil
	}
	return b
}
