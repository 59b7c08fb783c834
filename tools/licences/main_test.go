package main

import (
	"slices"
	"testing"
)

// A licence is known by its text, however its lines are broken; one that does not fit is never taken for one that does.
func TestNamesIn(t *testing.T) {
	for text, want := range map[string][]string{
		"                                 Apache License\n                           Version 2.0, January 2004": {"Apache-2.0"},
		"Permission is hereby granted,\nfree of charge, to any person":                                          {"MIT"},
		"Redistribution and use in source and binary forms ... Neither the name of Google Inc.":                 {"BSD-3-Clause"},
		"Redistribution and use in source and binary forms, with or without modification":                       {"BSD-2-Clause"},
		"Mozilla Public License Version 2.0 ... means either the GNU General Public License, Version 2.0":       {"MPL-2.0"},
		"Permission to use, copy, modify, and/or distribute this software for any":                              {"ISC"},
		"GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007":                                                  {"GPL"},
		"GNU LESSER GENERAL PUBLIC LICENSE, which adds to the GNU General Public License":                       {"LGPL", "GPL"},
		"Apache License, Version 2.0, or the MIT licence: Permission is hereby granted, free of charge":         {"Apache-2.0", "MIT"},
		"You may not use this.": nil,
	} {
		if got := namesIn(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v; want %v", text, got, want)
		}
	}
	for _, name := range []string{"GPL", "LGPL", "AGPL", ""} {
		if slices.Contains(fits, name) {
			t.Errorf("%q is taken to fit", name)
		}
	}
}
