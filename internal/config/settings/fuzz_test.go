package settings

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// FuzzDecode reads anything as a file: what is wrong has a place, and what is right can be written and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("listen: [a:1, '[::1]:2']\nadmin: ''\nloops: 3\ndatabase: a.yaml\ndrain-timeout: 1m\n"))
	f.Add(Template())
	f.Add([]byte("loops: &a 1\nlisten: {a: *a}\n? [x]\n: y\n"))
	place := regexp.MustCompile(`^f(:\d+(:\d+)?)?: `)
	f.Fuzz(func(t *testing.T, data []byte) {
		first := newLoading(Defaults())
		first.decode("f", data)
		for _, err := range first.problems {
			if !place.MatchString(err.Error()) {
				t.Fatalf("no place: %v", err)
			}
		}
		var b strings.Builder
		for i := range table {
			text := first.rows[i].yaml()
			if !strings.HasPrefix(text, "[") && text != `""` {
				text = "'" + strings.ReplaceAll(text, "'", "''") + "'"
			}
			if strings.ContainsFunc(text, func(r rune) bool {
				return r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffd'
			}) {
				t.Skip("single quotes cannot have it")
			}
			b.WriteString(table[i].name + ": " + text + "\n")
		}
		again := newLoading(Defaults())
		again.decode("g", []byte(b.String()))
		if len(again.problems) > 0 || !reflect.DeepEqual(again.settings, first.settings) {
			t.Fatalf("%v\n%+v\n%+v\n%s", again.problems, first.settings, again.settings, &b)
		}
	})
}
