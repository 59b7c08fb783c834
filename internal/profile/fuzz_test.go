package profile

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// FuzzParse looks for YAML that breaks the parser, for problems without a place, and for profiles that do not survive being
// printed and read again.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		f.Add(BuiltInYAML(name))
	}
	refused, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		f.Fatal(err)
	}
	for section := range strings.SplitSeq(string(refused), "\n=== ") {
		_, rest, _ := strings.Cut(section, "\n")
		yaml, _, _ := strings.Cut(rest, "--- refused\n")
		f.Add([]byte(yaml))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse("f.yaml", data, func(string) bool { return false })
		if err != nil {
			if list != nil {
				t.Fatalf("profiles and an error: %v", err)
			}
			for _, p := range err.(Problems) {
				if p.Line < 1 || p.Column < 1 || p.Text == "" {
					t.Fatalf("place of %+v", p)
				}
			}
			return
		}
		for _, p := range list {
			text := p.YAML()
			again, err := parse("again.yaml", text, func(string) bool { return false })
			if err != nil {
				t.Fatalf("%s\nis printed as\n%s\nwhich is refused: %v", data, text, err)
			}
			if len(again) != 1 || !bytes.Equal(again[0].YAML(), text) || again[0].Reuse != p.Reuse {
				t.Fatalf("%s\nis printed as\n%s\nand then as\n%s", data, text, again[0].YAML())
			}
			b := New(p)
			b.Dialed()
		}
	})
}

// FuzzMatch gives any message in any pieces to a Boundary, whose judgement must not depend on the pieces.
func FuzzMatch(f *testing.F) {
	f.Add([]byte(`{"action":"stop"}`), uint32(0x12345678), []byte{3, 5, 1})
	f.Add([]byte(`{"action":"start"}`), uint32(0), []byte{0, 0})
	f.Add([]byte(``), uint32(1), []byte{})
	f.Add([]byte(`{"action":1,"action":2}`), uint32(0xffffffff), []byte{1, 1, 1, 1, 1})
	p, err := Named("watson")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, message []byte, key uint32, cuts []byte) {
		masked := bytes.Clone(message)
		applyMask(masked, key)
		outcome := func(pieces [][]byte) (Boundary, Step) {
			b := New(p)
			b.Dialed()
			b.Begin(1)
			s := b.Frame(FromClient, Text, int64(len(message)), true)
			at := 0
			for i, piece := range pieces {
				if s.Feed {
					s2 := b.Feed(FromClient, piece, turned(key, at), i == len(pieces)-1)
					s2.Feed = true
					s = s2
				}
				at += len(piece)
			}
			return b, s
		}
		whole, _ := outcome([][]byte{bytes.Clone(masked)})
		var pieces [][]byte
		rest := bytes.Clone(masked)
		for _, cut := range cuts {
			n := min(int(cut), len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		pieces = append(pieces, rest)
		split, step := outcome(pieces)
		if whole.flags != split.flags || whole.session.counted != split.session.counted || whole.state != split.state || whole.settings != split.settings {
			t.Fatalf("%q in %d pieces: %+v; whole: %+v", message, len(pieces), split, whole)
		}
		if step.Pass == Release {
			if op, payload, fin := split.Held(FromClient); op != Text || !fin || !bytes.Equal(payload, message) {
				t.Fatalf("%q is released as %v %q %v", message, op, payload, fin)
			}
		}
	})
}

// turned returns the key for the payload's byte at an offset.
func turned(key uint32, offset int) uint32 {
	for range offset & 3 {
		key = key>>8 | key<<24
	}
	return key
}
