package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// profileSources are where profiles come from, beside those that are built in: files, and the configuration if one is meant.
type profileSources struct {
	targetFlags
	files []string
}

func (s *profileSources) add(cmd *cobra.Command) {
	addProfileFiles(cmd, &s.files)
	s.targetFlags.add(cmd)
}

// load returns all profiles, and those of the configuration as they were written.
func (s *profileSources) load(cmd *cobra.Command, messages io.Writer) ([]*profile.Profile, map[string]config.Profile, error) {
	all, err := app.Profiles(s.files)
	if err != nil {
		return nil, nil, invalidError(fmt.Errorf("--profile-file: %w", err))
	}
	stored, err := s.stored(cmd, messages)
	if err != nil || stored == nil {
		return all, nil, err
	}
	own, err := profile.Parse("the configuration", stored.ProfilesYAML())
	if err != nil {
		return nil, nil, err
	}
	for _, p := range own {
		for _, other := range all {
			if other.Name == p.Name {
				return nil, nil, fmt.Errorf("the profile %q is defined twice: in the configuration and in a profile file", p.Name)
			}
		}
	}
	return append(all, own...), stored.Profiles, nil
}

// stored returns what the configuration says, if it has profiles. Those that are built in can be shown without any, so that a
// configuration that was not asked for may be missing, but not silently.
func (s *profileSources) stored(cmd *cobra.Command, messages io.Writer) (stored *config.Content, err error) {
	err = s.use(cmd, false, func(t *target) error {
		v, err := t.view(cmd.Context(), messages)
		stored = &v.Content
		return err
	})
	asked := s.admin != "" || s.database != ""
	switch {
	case errors.Is(err, errNoTarget):
		return nil, nil
	case err != nil && !asked:
		fmt.Fprintf(messages, "Profiles of the configuration are not shown: %v\n", err)
		return nil, nil
	case err != nil || len(stored.Profiles) == 0:
		return nil, err
	}
	return stored, nil
}

// newProfileWriteCommand returns the command that adds a profile, or replaces one.
func newProfileWriteCommand(verb config.Verb) *cobra.Command {
	var write writeFlags
	var from string
	does, plan, complete := "Add a profile", adding, cobra.CompletionFunc(cobra.NoFileCompletions)
	if verb == config.Set {
		does, plan, complete = "Replace a profile", setting, completeNames(config.KindProfile, false)
	}
	cmd := &cobra.Command{
		Use:   string(verb) + " NAME",
		Short: does + " of your own",
		Long: does + ` from a YAML file. The file contains
either the profile itself, such as "from: vosk", or several profiles by name. Comments are kept.`,
		Example:           fmt.Sprintf("  wsbouncer profile %s mine --file mine.yaml\n  echo 'from: vosk' | wsbouncer profile %s mine --file -", verb, verb),
		Args:              names(config.KindProfile, false),
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return usageError(errors.New("--file: the value is missing: use a YAML file, or - for standard input"))
			}
			data, err := readInput(cmd, from)
			if err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			yaml, err := profileIn(from, args[0], data)
			if err != nil {
				return invalidError(fmt.Errorf("--file: %w", err))
			}
			return write.run(cmd, false, plan(config.KindProfile, args[0], config.Values{"yaml": yaml}))
		},
	}
	cmd.Flags().StringVarP(&from, "file", "f", "", "YAML file with the profile, - for standard input")
	write.add(cmd)
	return cmd
}

// profileIn returns the profile that a file has: the file itself, or in a file of profiles the one of that name.
func profileIn(from, name string, data []byte) (string, error) {
	isFileOfMany := false
	for line := range strings.Lines(string(data)) {
		isFileOfMany = isFileOfMany || strings.HasPrefix(line, "profiles:")
	}
	if !isFileOfMany {
		if strings.TrimSpace(string(data)) == "" {
			return "", fmt.Errorf("%s is empty: use YAML such as from: vosk", from)
		}
		return string(data), nil
	}
	content, err := file.DecodePart(from, data)
	if err != nil {
		return "", err
	}
	if err := known(&content, config.KindProfile, name); err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	return content.Profiles[name].YAML, nil
}
