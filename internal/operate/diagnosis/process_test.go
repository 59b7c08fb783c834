package diagnosis

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

var processScenes = map[string]scene{
	"well": {func(*Facts) {}, ""},
	"a disk with room": {func(f *Facts) {
		f.Stats.Disks = []api.Disk{{Path: "/a", Holds: "state", SizeBytes: 4 << 40, FreeBytes: 2 << 30}, {SizeBytes: 1 << 20, FreeBytes: 200 << 10}}
	}, ""},
	"a disk that is nearly full": {func(f *Facts) {
		f.Stats.Disks = []api.Disk{{Path: "/a", Holds: "state", SizeBytes: 1 << 30, FreeBytes: 50 << 20}}
	}, "disk-low disk /a: it has little room for the proxy's files (state): 50 MiB of 1.0 GiB are free"},
	"a full disk": {func(f *Facts) {
		f.Stats.Disks = []api.Disk{{Path: "/a", Holds: "state, database", SizeBytes: 1 << 30, FreeBytes: 100 << 10}}
	}, "disk-full disk /a: it has no room for the proxy's files (state, database): the proxy serves, but can store nothing there, so changes of the configuration fail"},
	"a full disk, and the database is on another one": {func(f *Facts) {
		f.Stats.Disks = []api.Disk{{Path: "/a", Holds: "state", SizeBytes: 1 << 30, FreeBytes: 100 << 10}}
	}, "disk-full disk /a: it has no room for the proxy's files (state): the proxy serves, but can store nothing there"},
	"shutting down": {func(f *Facts) { f.Stats.Draining = true }, "proxy-draining proxy: it shuts down: no new clients are accepted, 0 sessions left"},
	"shutting down, with a delay": {func(f *Facts) {
		f.Stats.Draining, f.Stats.Drain, f.Stats.Sessions.Active = true, &api.Drain{Since: since, Accepting: true, Closes: since.Add(5 * time.Second)}, 2
	}, "proxy-draining proxy: it shuts down: not ready, clients are accepted until 12:00:05Z, 2 sessions (12:00)"},
	"shutting down, without a limit": {func(f *Facts) {
		f.Stats.Draining, f.Stats.Drain, f.Stats.Sessions.Active = true, &api.Drain{Since: since}, 1
	}, "proxy-draining proxy: it shuts down: no new clients are accepted, 1 session left (12:00)"},
	"shutting down, with a limit": {func(f *Facts) {
		f.Stats.Draining, f.Stats.Drain = true, &api.Drain{Since: since, Spread: since.Add(20 * time.Second), Deadline: since.Add(30 * time.Second)}
	}, "proxy-draining proxy: it shuts down: no new clients are accepted, 0 sessions left, closed from 12:00:20Z to 12:00:30Z (12:00)"},
	"shutting down, all at once": {func(f *Facts) {
		f.Stats.Draining, f.Stats.Drain = true, &api.Drain{Since: since, Spread: since, Deadline: since}
	}, "proxy-draining proxy: it shuts down: no new clients are accepted, 0 sessions left, closed at 12:00:00Z (12:00)"},
	"internal errors": {func(f *Facts) { f.Recent.Internal = 2 }, "internal-error proxy: 2 internal errors in the last minute: please report the stack in its log"},
	"shortage": {
		func(f *Facts) { f.Stats.Shortages = []string{"clients cannot be accepted: out of file descriptors"} },
		"shortage proxy: clients cannot be accepted: out of file descriptors",
	},
	"two shortages": {
		func(f *Facts) {
			f.Stats.Shortages = []string{"clients cannot be accepted: out of file descriptors", "fewer connections than wanted are dialed"}
		},
		"shortage proxy: clients cannot be accepted: out of file descriptors; fewer connections than wanted are dialed",
	},
	"replay memory nearly used up": {
		func(f *Facts) { f.Stats.Replay = &api.Replay{MemoryBytes: 95 << 20, LimitBytes: 100 << 20} },
		"replay-memory proxy: replay-memory is nearly used up: 95 MiB of 100 MiB; when it is, sessions end with their backends",
	},
	"replay memory in use": {func(f *Facts) { f.Stats.Replay = &api.Replay{MemoryBytes: 80 << 20, LimitBytes: 100 << 20} }, ""},
	"an access log that cannot be written": {
		func(f *Facts) { f.Recent.LeftOut = 7 },
		"access-log-losing proxy: 7 lines of the access log were left out in the last minute: its file cannot be written, or not fast enough",
	},
	"the clock was set": {
		func(f *Facts) { f.Recent.Jump, f.Recent.Jumped = -time.Hour, since },
		"clock-jumped proxy: the machine's clock was set back by 1h00m, or the machine slept: times before and after do not fit (12:00)",
	},
	"all processors busy": {
		func(f *Facts) {
			f.Stats.Loops.Loops = []api.Loop{{Awake: true, Busy: 0.96}, {Awake: true, Busy: 0.92}, {}}
		},
		"processors-busy proxy: its event loops use 94 % of 2 processors",
	},
	"one processor busy": {func(f *Facts) { f.Stats.Loops.Loops = []api.Loop{{Awake: true, Busy: 0.99}, {Awake: true, Busy: 0.2}} }, ""},
}
