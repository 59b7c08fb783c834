package app

import (
	"fmt"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Profiles returns the built-in profiles and, behind them, those of the files. The error says everything that is wrong in the
// first file that is not right.
func Profiles(files []string) ([]*profile.Profile, error) {
	var all []*profile.Profile
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	own := make(map[string]string)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		list, err := profile.Parse(file, data)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if other, ok := own[p.Name]; ok {
				return nil, fmt.Errorf("%s: the profile %q is in %s too", file, p.Name, other)
			}
			own[p.Name] = file
			all = append(all, p)
		}
	}
	return all, nil
}

// FindProfile returns the profile of that name.
func FindProfile(name string, files []string) (*profile.Profile, error) {
	all, err := Profiles(files)
	if err != nil {
		return nil, err
	}
	return ProfileNamed(name, all)
}

// ProfileNamed returns the profile of that name from a list. The error names one that may have been meant.
func ProfileNamed(name string, all []*profile.Profile) (*profile.Profile, error) {
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, spelling.Unknown("profile", name, names)
}
