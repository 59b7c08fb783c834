package profile

import (
	"embed"
	"fmt"
	"slices"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// The built-in profiles are files, so that each fact has its source next to it.
//
//go:embed builtin/*.yaml
var builtInFiles embed.FS

// builtInNames are their names. The first is the default.
var builtInNames = []string{
	"one-shot", "echo", "vosk", "funasr", "sherpa-onnx", "dashscope", "vllm-realtime", "watson", "kyutai", "whisperlive",
	"whisperlivekit", "deepgram", "assemblyai", "speechmatics", "openai-realtime", "kaldi-gstreamer",
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
