package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/lab/detect"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/servers/capacity"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The files that init writes into the current directory, and the names in them. initState is the proxy's state directory, which serve makes.
const (
	initServices = "services.yaml"
	initSettings = "wsbouncer.yaml"
	initState    = "state"
	initService  = "speech"
	initBackend  = "server-1"
)

// safeProfile is right for every server.
const safeProfile = "one-shot"

// initFlags are the flags of init.
type initFlags struct {
	said
	server      serverFlags
	profile     string
	connections int
	listen      string
	wait        time.Duration
}

func newInitCommand() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init URL",
		Short: "Look at a server, and write the files of a proxy in front of it",
		Long: `Look at a server, and write the files of a proxy in front of it into the current directory: ` + initServices + `, with a service
and the server as its backend, and ` + initSettings + `, with the settings. Neither file is ever overwritten. The proxy's state directory is
` + initState + ` beside them, so that it shares none with another proxy of this machine.

The command listens for a greeting. Then it holds a session with a second of speech as the clients of each profile do, one after the
other, which takes up to a few minutes. The profile that fits is the one of the service. If none fits, or several fit equally well, it is
` + safeProfile + `, which is right for every server: each connection serves one session. The number of connections is what the server
publishes, otherwise --connections: 'wsbouncer calibrate' finds out how many streams it takes.

Use a server that serves no other clients. The command opens one connection at a time.`,
		Example: `  wsbouncer init ws://gpu-1:2700

  # A server that wants a key, which is in the environment
  wsbouncer init wss://stt.example.org/v1/listen --header 'Authorization=Token env:WSBOUNCER_SECRET_STT'`,
		Args:              oneServer,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.profile, "profile", "", "`name` of the profile, if it is known: only this one is tried")
	f.StringVar(&flags.model, "model", "", "`name` of the model to ask for: without it, profiles whose clients name one are not tried")
	f.IntVar(&flags.connections, "connections", 4, "number of connections to the server, if it does not publish how many it takes")
	f.StringVar(&flags.listen, "listen", "127.0.0.1:8080", "`address` on which the proxy will listen for clients")
	f.DurationVar(&flags.wait, "step-timeout", 5*time.Second, "maximum time of each wait for the server")
	completeFlagBy(cmd, "profile", completing(true, func(*cobra.Command) []string { return profile.Names() }))
	flags.server.add(f)
	return cmd
}

// check returns what is wrong with the flags.
func (i *initFlags) check() error {
	s := settings.Defaults()
	s.Listen = []string{i.listen}
	switch {
	case i.connections < 1:
		return usageError(fmt.Errorf("--connections: invalid number \"%d\": use a whole number from 1", i.connections))
	case i.wait < 100*time.Millisecond:
		return usageError(fmt.Errorf("--step-timeout: %v is out of range: use at least 100ms", i.wait))
	case i.profile != "" && !slices.Contains(profile.Names(), i.profile):
		_, err := app.FindProfile(i.profile, nil)
		return usageError(fmt.Errorf("--profile: %w", err))
	}
	return usageError(s.Check())
}

func (i *initFlags) run(cmd *cobra.Command, url string) error {
	if err := i.check(); err != nil {
		return err
	}
	for _, name := range []string{initServices, initSettings} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s already exists: use an empty directory, or 'wsbouncer backend add' for one more server", name)
		}
	}
	directory, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	stateDirectory := filepath.Join(directory, initState)
	if socket := state.AdminSocket(stateDirectory); len(socket) > state.MaxSocketPath {
		return fmt.Errorf("the path of the proxy's admin socket, %s, would have %d bytes, and may have at most %d: use a directory with a shorter path", socket, len(socket), state.MaxSocketPath)
	}
	safe, err := profile.Named(safeProfile)
	if err != nil {
		return err
	}
	o := detect.Options{
		Wait: i.wait,
		Target: func(p *profile.Profile) (*handshake.Target, error) {
			return i.server.target("argument URL", url, cmp.Or(p, safe))
		},
		Recording: i.second,
		Tried:     tried(cmd.ErrOrStderr()),
	}
	if o.Profiles, err = i.profiles(); err != nil {
		return err
	}
	if _, err := o.Target(nil); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Trying %s on %s\n", figures.Plural(len(o.Profiles), "profile"), secret.URL(url))
	found, err := detect.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	chosen, why, err := i.choose(found, safe)
	if err != nil {
		return err
	}
	connections, published := i.capacity(cmd.Context(), chosen, url)
	content, err := i.content(url, chosen.Name, connections)
	if err != nil {
		return err
	}
	if err := i.write(content, directory); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `Greeting: %s
Profile: %s: %s
Connections: %s
Written: %s and %s
State directory: %s

Start the proxy, and ask it:

  wsbouncer serve --settings %s
  wsbouncer status --admin %s

Clients then connect to ws://%s/ instead of %s.
`, cmp.Or(found.Greeting, "none"), chosen.Name, why, published, initServices, initSettings, stateDirectory,
		initSettings, shellWord("unix:"+state.AdminSocket(stateDirectory)), i.listen, secret.URL(url))
	return err
}

// profiles returns the profiles to try.
func (i *initFlags) profiles() ([]*profile.Profile, error) {
	all, err := app.Profiles(nil)
	return slices.DeleteFunc(all, func(p *profile.Profile) bool {
		return p.Name != cmp.Or(i.profile, p.Name) || i.profile == "" && p.Script() == nil
	}), err
}

// second is a second of what clients of a profile say.
func (i *initFlags) second(p *profile.Profile) (*speaker.Recording, error) {
	say := i.said
	if s := p.Script(); s != nil && !s.NamesModel() {
		say.model = ""
	}
	recording, err := say.recording(p, sample, time.Second)
	if errors.Is(err, speaker.ErrNoModel) {
		err = errors.New("its clients name a model: add --model")
	}
	return recording, err
}

// tried returns what shows how a profile fits.
func tried(messages io.Writer) func(detect.Try) {
	return func(t detect.Try) {
		word := "no"
		switch {
		case t.Fits:
			word = "yes"
		case t.Untried:
			word = "not tried"
		}
		fmt.Fprintf(messages, "  %s: %s: %s\n", t.Profile.Name, word, t.Found)
	}
}

// choose returns the profile of the service, and why it is this one. The error is that --profile does not fit.
func (i *initFlags) choose(found *detect.Result, safe *profile.Profile) (p *profile.Profile, why string, err error) {
	fits, doubtful := found.Fitting()
	names := make([]string, len(fits))
	for n := range fits {
		names[n] = fits[n].Profile.Name
	}
	switch {
	case len(fits) == 0 && i.profile == safe.Name:
		return safe, "it is right for every server", nil
	case len(fits) == 0 && i.profile != "":
		return nil, "", fmt.Errorf("the profile %s was not seen to fit this server, and nothing was written: %s (without --profile, init looks for one that fits)", i.profile, found.Tries[0].Found)
	case len(fits) == 0:
		return safe, "no other profile fits, and it is right for every server (docs/choose-a-profile.md)", nil
	case doubtful:
		return safe, fmt.Sprintf("it is right for every server, and several others fit equally well: %s. Use --profile for one of them", strings.Join(names, ", ")), nil
	}
	why = fits[0].Found
	if len(fits) > 1 {
		why += ". With weaker evidence, these fit, too: " + strings.Join(names[1:], ", ")
	}
	return fits[0].Profile, why, nil
}

// capacity returns the field connections of the backend, and how that was found.
func (i *initFlags) capacity(ctx context.Context, p *profile.Profile, url string) (connections config.Values, how string) {
	target, err := i.server.target("argument URL", url, p)
	if err == nil {
		var read capacity.Reading
		if read, err = capacity.Read(ctx, p, target); err == nil && read.Total > 0 {
			return config.Values{"connections": "auto", "connections-max": strconv.Itoa(read.Total)}, fmt.Sprintf("auto, at most %d: the server publishes its capacity", read.Total)
		}
	}
	n := strconv.Itoa(i.connections)
	return config.Values{"connections": n}, n + ": the server does not publish its capacity ('wsbouncer calibrate' finds out how many streams it takes)"
}

// content returns the configuration: a service, and the server as its backend.
func (i *initFlags) content(url, profileName string, backend config.Values) (*config.Content, error) {
	content := config.NewContent()
	service := config.Values{"profile": profileName}
	if i.server.protocol != "" {
		service["subprotocol"] = i.server.protocol
	}
	backend["service"], backend["url"] = initService, url
	for _, field := range i.server.header.fields {
		backend["headers."+field.name] = field.given
	}
	for name, value := range map[string]string{"tls-ca": i.server.tls.CA, "tls-certificate": i.server.tls.Certificate, "tls-key": i.server.tls.Key} {
		if value == "" {
			continue
		}
		absolute, err := filepath.Abs(value)
		if err != nil {
			return nil, err
		}
		backend[name] = absolute
	}
	if name := i.server.tls.ServerName; name != "" {
		backend["tls-server-name"] = name
	}
	problems := slices.Concat(content.Set(config.KindService, initService, service), content.Set(config.KindBackend, initBackend, backend))
	var err error
	if len(problems) > 0 {
		err = problems
	} else {
		err = content.Validate(config.CheckProfiles)
	}
	return &content, invalidError(listed("the configuration of this server is invalid, and nothing was written", err))
}

// write writes both files into the current directory, whose path is given, or none.
func (i *initFlags) write(content *config.Content, directory string) error {
	if err := writeNew(initServices, file.Encode(content)); err != nil {
		return err
	}
	if err := writeNew(initSettings, []byte(i.settings(directory))); err != nil {
		return errors.Join(err, os.Remove(initServices))
	}
	return nil
}

// settings returns the file of settings for a proxy in a directory.
func (i *initFlags) settings(directory string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Settings of the proxy, written by 'wsbouncer init'. 'wsbouncer config init --file all.yaml' writes a file that explains every setting.
listen: %q
database: %q
state-directory: %q

# The dashboard, the admin API and metrics:
#admin: 127.0.0.1:9090
`, i.listen, filepath.Join(directory, initServices), filepath.Join(directory, initState))
	var variables, directories []string
	for _, field := range i.server.header.fields {
		_, reference, _ := secret.CutReference(field.given)
		if name, ok := strings.CutPrefix(reference, "env:"); ok && !strings.HasPrefix(name, "WSBOUNCER_SECRET_") {
			variables = append(variables, strconv.Quote(name))
		}
		if path, ok := strings.CutPrefix(reference, "file:"); ok {
			directories = append(directories, strconv.Quote(filepath.Dir(path)))
		}
	}
	if len(variables) > 0 {
		fmt.Fprintf(&b, "\n# What the server's headers refer to:\nsecret-env: [WSBOUNCER_SECRET_*, %s]\n", strings.Join(variables, ", "))
	}
	if len(directories) > 0 {
		fmt.Fprintf(&b, "\n# Where the files are that the server's headers refer to:\nsecret-directory: [%s]\n", strings.Join(directories, ", "))
	}
	return b.String()
}

// writeNew writes a file that must not exist, readable by its owner and group only.
func writeNew(name string, data []byte) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(data)
	return err
}
