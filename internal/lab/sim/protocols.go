package sim

import (
	"net/http"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The names of the protocols that a server can speak.
const (
	Echo               = "echo"
	Vosk               = "vosk"
	FunASR             = "funasr"
	FunASRRealtime     = "funasr-realtime"
	SherpaONNX         = "sherpa-onnx"
	SherpaPython       = "sherpa-onnx-python"
	DashScope          = "dashscope"
	VLLMRealtime       = "vllm-realtime"
	Watson             = "watson"
	Kyutai             = "kyutai"
	WhisperLive        = "whisperlive"
	WhisperLiveKit     = "whisperlivekit"
	RealtimeSTT        = "realtimestt"
	Deepgram           = "deepgram"
	AssemblyAI         = "assemblyai"
	Speechmatics       = "speechmatics"
	Soniox             = "soniox"
	Gladia             = "gladia"
	OpenAIRealtime     = "openai-realtime"
	SGLangRealtime     = "sglang-realtime"
	SGLangOmni         = "sglang-omni"
	VLLMOmni           = "vllm-omni"
	NVIDIARealtime     = "nvidia-realtime"
	OpenAITranslations = "openai-translations"
	KaldiGStreamer     = "kaldi-gstreamer"
	KyutaiTTS          = "kyutai-tts"
	Cartesia           = "cartesia"
	ElevenLabsTTS      = "elevenlabs-tts"
	AzureSpeech        = "azure-speech"
)

// Protocol is what a server can speak. It is immutable.
type Protocol struct {
	// Name is how flags call it.
	Name string
	// Summary is one line for people.
	Summary string
	// Subprotocol is the WebSocket subprotocol that the real server accepts; empty for none.
	Subprotocol string
	// Silence is how long the real server bears a client that says nothing; 0 for ever.
	Silence time.Duration
	// Full says how the server turns away sessions that it has no place for.
	Full string

	away       time.Duration // how long a place takes to come free after its session
	fullStatus int           // HTTP status of that; 0 when it is said in the protocol
	auth       *keyAuth      // asks for a key; nil for a server that takes none
	publishes  publisher     // what it answers to HTTP; nil for nothing
	new        func(request *http.Request) dialogue
}

// Protocols are all protocols that a server can speak. Those of services are simulated from their documents, those of
// programs from their source; the files of this package, one for each, say which.
func Protocols() []Protocol { return slices.Clone(protocols) }

const unavailable = http.StatusServiceUnavailable

var protocols = []Protocol{
	{
		Name: Echo, Summary: "answers every message with the same message",
		Full: "HTTP 503", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return echoDialogue{} },
	},
	{
		Name: Vosk, Summary: "alphacep/vosk-server, Python; transcripts tell how long and loud the sounds were",
		Full: "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newVoskDialogue() },
	},
	{
		Name: FunASR, Summary: "modelscope/FunASR, Python: 2pass, online and offline", Subprotocol: "binary",
		Full: "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newFunASRDialogue() },
	},
	{
		Name: FunASRRealtime, Summary: "modelscope/FunASR, realtime_ws.py",
		Full: "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newFunASRRealtimeDialogue() },
	},
	{
		Name: SherpaONNX, Summary: "k2-fsa/sherpa-onnx, the online server in C++",
		Full: "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newSherpaDialogue(false) },
	},
	{
		Name: SherpaPython, Summary: "k2-fsa/sherpa-onnx, streaming_server.py",
		Full: "HTTP 503", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newSherpaDialogue(true) },
	},
	{
		Name: DashScope, Summary: "Alibaba Cloud Model Studio, tasks with ids", Silence: 60 * time.Second,
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests,
		new: func(*http.Request) dialogue { return new(dashScopeDialogue) },
	},
	{
		Name: VLLMRealtime, Summary: "vLLM's /v1/realtime",
		publishes: vllmMetrics,
		Full:      "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return new(vllmDialogue) },
	},
	{
		Name: Watson, Summary: "IBM Watson Speech to Text", Silence: 30 * time.Second,
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests,
		new: func(*http.Request) dialogue { return new(watsonDialogue) },
	},
	{
		Name: Kyutai, Summary: "kyutai-labs/moshi, moshi-server, MessagePack",
		publishes: moshiModules,
		Full:      `{type: Error, message: "no free channels"} and a close, at connect`,
		new:       func(*http.Request) dialogue { return new(kyutaiDialogue) },
	},
	{
		Name: WhisperLive, Summary: "collabora/WhisperLive",
		Full: `{"status": "WAIT"} to the options, and a close`,
		new:  func(*http.Request) dialogue { return new(whisperLiveDialogue) },
	},
	{
		Name: WhisperLiveKit, Summary: "QuentinFuxa/WhisperLiveKit, /asr",
		Full: "close 1013 at connect (no limit of its own: what a gateway says)",
		new:  func(*http.Request) dialogue { return newWhisperLiveKitDialogue() },
	},
	{
		Name: RealtimeSTT, Summary: "KoljaB/RealtimeSTT, the production server", Silence: 5 * time.Minute,
		publishes: realtimeSTTCapacity,
		Full:      `{"type": "error", "code": "session_limit"} and close 1013, at connect`,
		new:       func(*http.Request) dialogue { return new(realtimeSTTDialogue) },
	},
	{
		Name: Deepgram, Summary: "Deepgram's /v1/listen", Silence: 10 * time.Second,
		publishes: deepgramMetrics,
		Full:      "HTTP 429", fullStatus: http.StatusTooManyRequests, auth: deepgramAuth,
		new: func(r *http.Request) dialogue { return newDeepgramDialogue(r.URL.Query()) },
	},
	{
		Name: AssemblyAI, Summary: "AssemblyAI's /v3/ws",
		Full: `{"type": "Error", "error_code": 3009} and close 3009, at connect`, auth: assemblyAIAuth,
		new: func(r *http.Request) dialogue { return newAssemblyAIDialogue(r.URL.Query()) },
	},
	{
		Name: Speechmatics, Summary: "Speechmatics real-time, /v2", Silence: 3 * time.Minute,
		Full: `{"message": "Error", "type": "quota_exceeded"} to StartRecognition, and close 4005`, auth: speechmaticsAuth,
		new: func(*http.Request) dialogue { return new(speechmaticsDialogue) },
	},
	{
		Name: Soniox, Summary: "Soniox real-time, /transcribe-websocket", Silence: 20 * time.Second,
		Full: `{"error_code": 429} to the first message, and a close`, auth: sonioxAuth,
		new: func(*http.Request) dialogue { return new(sonioxDialogue) },
	},
	{
		Name: Gladia, Summary: "Gladia real-time, /v2/live",
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests,
		new: func(r *http.Request) dialogue { return newGladiaDialogue(r.URL.Query()) },
	},
	{
		Name: OpenAIRealtime, Summary: "OpenAI's Realtime API, transcription",
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests, auth: openAIAuth,
		new: func(r *http.Request) dialogue { return newOpenAIDialogue(r.URL.Query()) },
	},
	{
		Name: SGLangRealtime, Summary: "sglang's /v1/realtime", Full: `{"error": {"code": "too_many_sessions"}} and a close, at connect`,
		publishes: sglangInfo,
		new:       func(*http.Request) dialogue { return newSGLangDialogue() },
	},
	{
		Name: SGLangOmni, Summary: "sglang-omni's /v1/realtime?intent=transcription",
		Full: "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newSGLangOmniDialogue() },
	},
	{
		Name: OpenAITranslations, Summary: "OpenAI's simultaneous translation; a word for each sound, and its translation is the word spelled backwards",
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests, auth: openAIAuth,
		new: func(r *http.Request) dialogue { return newTranslationDialogue(r.URL.Query()) },
	},
	{
		Name: VLLMOmni, Summary: "vLLM-Omni's /v1/realtime?duplex=1",
		Full: `{"error": {"code": "resource_exhausted"}} to the first message`,
		new:  func(*http.Request) dialogue { return newVLLMOmniDialogue() },
	},
	{
		Name: NVIDIARealtime, Summary: "NVIDIA NeMo-Speech.cpp's /v1/realtime",
		Full: "HTTP 503 (no limit of its own: what a gateway says)", fullStatus: unavailable,
		new: func(*http.Request) dialogue { return newNVIDIADialogue() },
	},
	{
		Name: KaldiGStreamer, Summary: "alumae/kaldi-gstreamer-server", Silence: 5 * time.Second, away: time.Second,
		Full: `{"status": 9} and a close, at connect`,
		new:  func(r *http.Request) dialogue { return newKaldiDialogue(r.URL.Query()) },
	},
	{
		Name: KyutaiTTS, Summary: "kyutai-labs/moshi, moshi-server, text to speech",
		publishes: moshiModules,
		Full:      `{type: Error, message: "no free channels"} and a close, at connect`,
		new:       func(r *http.Request) dialogue { return newKyutaiTTSDialogue(r) },
	},
	{
		Name: Cartesia, Summary: "Cartesia's text to speech, /tts/websocket", Silence: 5 * time.Minute,
		Full: `{"type": "error", "status_code": 429} to the first message`, auth: cartesiaAuth,
		new: func(*http.Request) dialogue { return newContextsDialogue(cartesia{}, 1, 0) },
	},
	{
		Name: ElevenLabsTTS, Summary: "ElevenLabs' text to speech, stream-input and multi-stream-input", Silence: 20 * time.Second,
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests, auth: elevenLabsAuth,
		new: func(r *http.Request) dialogue {
			return newContextsDialogue(newElevenLabs(r), elevenLabsDefault, elevenLabsContexts)
		},
	},
	{
		Name: AzureSpeech, Summary: "Azure Speech recognition, as its SDK uses it", Subprotocol: "USP", Silence: azureSilence,
		Full: "HTTP 429", fullStatus: http.StatusTooManyRequests, auth: azureAuth,
		new: func(*http.Request) dialogue { return new(azureDialogue) },
	},
}

// protocolNamed returns the protocol of that name.
func protocolNamed(name string) (*Protocol, error) {
	i := slices.IndexFunc(protocols, func(p Protocol) bool { return p.Name == name })
	if i < 0 {
		return nil, spelling.Unknown("protocol", name, ProtocolNames())
	}
	return &protocols[i], nil
}

// ProtocolNames returns the names of all protocols.
func ProtocolNames() []string {
	var names []string
	for _, p := range protocols {
		names = append(names, p.Name)
	}
	return names
}

// echoDialogue answers every message with the same message.
type echoDialogue struct{}

func (echoDialogue) hear(v *voice, kind frame.Opcode, message []byte) {
	v.say(reply{role: final, kind: kind, payload: message})
}
