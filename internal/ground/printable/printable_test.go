package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"all is well", "all is well"},
		{"grün, 你好", "grün, 你好"},
		{"twenty bytes, exactly", "twenty bytes, exa..."},
		{"exactly twenty bytes", "exactly twenty bytes"},
		{"a\nb\r\nc\x00", "a\uFFFDb\uFFFD\uFFFDc\uFFFD"},
		{"\x1b[31mred", "\uFFFD[31mred"},
		{"\u009b31mred", "\uFFFD31mred"},               // the same escape sequence, with a C1 control character
		{"a\u2028b\u0085c", "a\uFFFDb\uFFFDc"},         // line breaks that JSON and UTF-8 know
		{"ab\u202ecd", "ab\uFFFDcd"},                   // writes backwards
		{"no-break\u00a0space", "no-break\uFFFDspace"}, // looks like a space, and is none to programs
		{"bad \xff\xfe", "bad \uFFFD\uFFFD"},
		{"kept \uFFFD", "kept \uFFFD"},
		{"你好你好你好你", "你好你好你..."},
		{strings.Repeat("\n", 20), strings.Repeat("\uFFFD", 5) + "..."},
	} {
		if got := Text(c.text, 20); got != c.want {
			t.Errorf("Text(%q) is %q; want %q", c.text, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\nb", 10)
	f.Add(strings.Repeat("\xff", 64<<10), 100)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < len(cut) || limit > 1<<20 {
			return
		}
		got := Text(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("Text(%q, %d) is %q", text, limit, got)
		}
		if again := Text(got, limit); again != got {
			t.Errorf("%q becomes %q the second time", got, again)
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Text("nothing to change here, 你好", 100) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
