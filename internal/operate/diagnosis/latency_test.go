package diagnosis

// replied has the backends reply after these seconds lately, in that many sessions each.
func replied(sessions int, seconds ...float64) func(*Facts) {
	return func(f *Facts) {
		f.Recent.Replies = make(map[BackendName]Reply)
		for i, s := range seconds {
			f.Recent.Replies[BackendName{"stt", f.Stats.Backends[i].Name}] = Reply{Seconds: s, Sessions: sessions}
		}
	}
}

// pinged has pings to the backends take these seconds.
func pinged(f *Facts, seconds ...float64) {
	for i, s := range seconds {
		f.Stats.Backends[i].RoundTripSeconds = s
	}
}

var slownessScenes = map[string]scene{
	"slow": {replied(10, 0.2, 0.9, 0.3), "backend-slow backend gpu-2: slow: its first reply takes 900ms, that of the others of stt 250ms"},
	"slow, and so are its pings": {
		func(f *Facts) { replied(5, 0.2, 1.6, 0.3)(f); pinged(f, 0.003, 1.4, 0.002) },
		"backend-slow backend gpu-2: slow: its first reply takes 1.6s, that of the others of stt 250ms; a ping takes 1.4s, to the others 3ms, so look at the network to it",
	},
	"slow, and its pings are not": {
		func(f *Facts) { replied(5, 0.2, 1.6, 0.3)(f); pinged(f, 0.003, 0.004, 0) },
		"backend-slow backend gpu-2: slow: its first reply takes 1.6s, that of the others of stt 250ms; a ping takes 4ms, to the others 3ms, so the server itself is slow",
	},
	"clearly slow":               {replied(5, 0.2, 1.1, 0.3), "backend-slow backend gpu-2: slow: its first reply takes 1.1s, that of the others of stt 250ms"},
	"slow, but too few sessions": {replied(9, 0.2, 0.7), ""},
	"clearly, but too few":       {replied(4, 0.2, 1.1), ""},
	"slow, but not noticeably":   {replied(5, 0.002, 0.05), ""},
	"alike":                      {replied(9, 0.2, 0.3, 0.25), ""},
	"slow, as are pings to all":  {func(f *Facts) { replied(10, 0.5, 1.4, 0.5)(f); pinged(f, 3, 1.4, 3) }, ""},
	"slow, and the others are far away": {
		func(f *Facts) { replied(10, 0.5, 1.4, 0.5)(f); pinged(f, 0.3, 0.3, 0.3) },
		"backend-slow backend gpu-2: slow: its first reply takes 1.4s, that of the others of stt 500ms; a ping takes 300ms, to the others 300ms, so the server itself is slow",
	},
	"slower than one was that is out of service": {
		func(f *Facts) { replied(10, 0.9, 0.1, 0.7)(f); opens("EOF")(f) },
		"backend-unreachable backend gpu-2: circuit open: EOF (12:00)",
	},
	"slow, and out of service": {func(f *Facts) { replied(10, 0.2, 0.9, 0.3)(f); opens("EOF")(f) }, "backend-unreachable backend gpu-2: circuit open: EOF (12:00)"},
}
