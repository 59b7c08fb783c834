package profile

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonPaths are what the texts below are searched for.
var jsonPaths = []condition{
	{path: jsonPath{newSegment("type")}, kind: jsonString, text: "Begin"},
	{path: jsonPath{newSegment("a"), newSegment("b"), newSegment("c")}, kind: jsonAny},
	{path: jsonPath{newSegment("a"), newSegment("0"), newSegment("b")}, kind: jsonNumber, text: "1"},
	{path: jsonPath{newSegment("a"), newSegment("0"), newSegment("b")}, kind: jsonString, text: "é\n\"/𝄞"},
	{path: jsonPath{newSegment("eof")}, kind: jsonNumber, text: "10"},
	{path: jsonPath{newSegment("final")}, kind: jsonTrue},
	{path: jsonPath{newSegment("final")}, kind: jsonFalse},
	{path: jsonPath{newSegment("n")}, kind: jsonNull},
	{path: jsonPath{newSegment("")}, kind: jsonString},
	{path: jsonPath{newSegment("0")}, kind: jsonAny},
	{path: jsonPath{newSegment("1"), newSegment("x y")}, kind: jsonNumber, text: "-1.5e3"},
	{path: jsonPath{newSegment("token")}, kind: jsonString, text: "x$tokeny"},
}

const testToken = 0x0123456789abcdef

// scanned returns which of jsonPaths are true of a text, one letter each, and ? for those that are open; or "invalid".
func scanned(text string) string {
	s := jsonScanner{b: []byte(text), program: newJSONProgram(jsonPaths, false), digits: tokenDigits(testToken)}
	if !s.scan() {
		return "invalid"
	}
	var b strings.Builder
	for i := range jsonPaths {
		switch {
		case s.ambiguous>>i&1 != 0:
			b.WriteByte('?')
		case s.matched>>i&1 != 0:
			b.WriteByte("abcdefghijkl"[i])
		}
	}
	return b.String()
}

func TestJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ text, want string }{
		{`{"type":"Begin"}`, "a"},
		{" \t\r\n{ \"type\" : \"Begin\" } \n", "a"},
		{`{"type":"\u0042eg\u0069n"}`, "a"},
		{`{"\u0074ype":"Begin"}`, "a"},
		{`{"type":"begin"}`, ""},
		{`{"type":"Begin "}`, ""},
		{`{"type":"Begi"}`, ""},
		{`{"type":"Begi\u006"}`, "invalid"},
		{`{"type":["Begin"]}`, ""},
		{`{"x":{"type":"Begin"}}`, ""},
		{`["type","Begin"]`, "j"},
		{`"type"`, ""},
		{`{"type":"Begin","type":"Begin"}`, "?"},
		{`{"type":"x","\u0074ype":"Begin"}`, "?"},
		{`{"a":{"b":{"c":null}}}`, "b"},
		{`{"a":{"b":{"c":{"d":[]}}}}`, "b"},
		{`{"a":{"b":{}},"a":{"b":{"c":1}}}`, "???"},
		{`{"a":{"b":{"c":1},"b":2}}`, "?"},
		{`{"a":[{"b":1}]}`, "c"},
		{`{"a":[{"b":1.0}]}`, "c"},
		{`{"a":[{"b":10e-1}]}`, "c"},
		{`{"a":[{"b":"1"}]}`, ""},
		{`{"a":{"0":{"b":1}}}`, "c"},
		{`{"a":[{"b":1},{"b":2}]}`, "c"},
		{`{"a":[{},{"b":1}]}`, ""},
		{`{"a":[{"b":"\u00e9\n\"\/\ud834\udd1e"}]}`, "d"},
		{`{"a":[{"b":"é\n\"/𝄞"}]}`, "d"},
		{`{"a":[{"b":"é\n\"/\ud834"}]}`, ""},
		{`{"eof":10}`, "e"},
		{`{"eof":1e1}`, "e"},
		{`{"eof":1E+1}`, "e"},
		{`{"eof":010}`, "invalid"},
		{`{"eof":10.}`, "invalid"},
		{`{"eof":1` + strings.Repeat("0", 400) + `}`, ""},
		{`{"eof":10.` + strings.Repeat("0", 400) + `}`, "e"},
		{`{"eof":+10}`, "invalid"},
		{`{"eof":-}`, "invalid"},
		{`{"eof":.5}`, "invalid"},
		{`{"eof":1e}`, "invalid"},
		{`{"eof":NaN}`, "invalid"},
		{`{"final":true}`, "f"},
		{`{"final":false}`, "g"},
		{`{"final":truth}`, "invalid"},
		{`{"final":True}`, "invalid"},
		{`{"n":null}`, "h"},
		{`{"n":nul}`, "invalid"},
		{`{"":""}`, "i"},
		{`[[]]`, "j"},
		{`{"0":1,"1":{"x y":-1500}}`, "jk"},
		{`[0,{"x y":-1.5e+3}]`, "jk"},
		{`{"token":"x0123456789abcdefy"}`, "l"},
		{`{"token":"x\u003012345678\u0039abcdefy"}`, "l"},
		{`{"token":"x0123456789abcdeey"}`, ""},
		{`{"token":"x0123456789ABCDEFy"}`, ""},
		{`{"token":"x$tokeny"}`, ""},
		{`{"token":"x0123456789abcdef"}`, ""},
		{``, "invalid"},
		{`{`, "invalid"},
		{`{}`, ""},
		{`{}{}`, "invalid"},
		{`{"type":"Begin"}x`, "invalid"},
		{`{"type":"Begin",}`, "invalid"},
		{`{"type":"Begin"`, "invalid"},
		{`{"type" "Begin"}`, "invalid"},
		{`{type:"Begin"}`, "invalid"},
		{`{'type':'Begin'}`, "invalid"},
		{`[1,]`, "invalid"},
		{`[1 2]`, "invalid"},
		{`[1}`, "invalid"},
		{"\"a\nb\"", "invalid"},
		{`"\x"`, "invalid"},
		{`"\`, "invalid"},
		{`"`, "invalid"},
		{"\ufeff{}", "invalid"},
		{deep(maxDepth), "j"},
		{deep(maxDepth + 2), "invalid"},
		{deep(100000), "invalid"},
	} {
		if got := scanned(c.text); got != c.want {
			t.Errorf("%.80s: %q; want %q", c.text, got, c.want)
		}
	}
}

// FuzzJSON holds the scanner against encoding/json.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"type":"Begin","a":{"b":{"c":1}},"eof":10}`, `[{"b":1},{"x y":-1500}]`, `{"a":[{"b":"\u00e9\n\"\/\ud834\udd1e"}],"final":true}`,
		`{"type":"\ud800","n":null,"":"","0":0}`, `{"a":{"b":1},"a":{}}`, "\xff", `{"token":"x0123456789abcdefy"}`, `1e999`, "[[[[]]]]",
	} {
		f.Add([]byte(seed))
	}
	program := newJSONProgram(jsonPaths, false)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := string(text)
		s := jsonScanner{b: text, program: program, digits: tokenDigits(testToken)}
		valid := s.scan()
		if string(text) != before {
			t.Fatal("the text was changed")
		}
		if !valid {
			if json.Valid(text) && nesting(text) <= maxDepth {
				t.Fatalf("%q is valid", text)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is not valid", text)
		}
		decoder := json.NewDecoder(strings.NewReader(before))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for i, c := range jsonPaths {
			if s.ambiguous>>i&1 != 0 {
				continue
			}
			if got, want := s.matched>>i&1 != 0, c.trueOf(value); got != want {
				t.Fatalf("%q: condition %s %q is %v; encoding/json says %v", text, c.path, c.text, got, want)
			}
		}
	})
}

// nesting returns how deep a valid JSON text is nested.
func nesting(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// trueOf reports whether the condition is true of a decoded text.
func (c *condition) trueOf(value any) bool {
	for _, s := range c.path {
		switch v := value.(type) {
		case map[string]any:
			inner, ok := v[s.key]
			if !ok {
				return false
			}
			value = inner
		case []any:
			if s.index < 0 || s.index >= len(v) {
				return false
			}
			value = v[s.index]
		default:
			return false
		}
	}
	switch c.kind {
	case jsonAny:
		return true
	case jsonString:
		v, ok := value.(string)
		return ok && v == strings.ReplaceAll(c.text, tokenMark, "0123456789abcdef")
	case jsonNumber:
		v, ok := value.(json.Number)
		if !ok {
			return false
		}
		a, err := strconv.ParseFloat(string(v), 64)
		b, _ := strconv.ParseFloat(c.text, 64)
		return err == nil && a == b
	case jsonTrue:
		return value == true
	case jsonFalse:
		return value == false
	}
	return value == nil
}

// specials finds the first byte that is not plain, wherever in eight bytes it is.
func TestSpecials(t *testing.T) {
	check := func(t rapid.TB, eight []byte) {
		want := slices.IndexFunc(eight, func(c byte) bool { return c < 0x20 || c == '"' || c == '\\' })
		got := -1
		if marks := specials(binary.LittleEndian.Uint64(eight)); marks != 0 {
			got = bits.TrailingZeros64(marks) / 8
		}
		if got != want {
			t.Errorf("%q: %d; want %d", eight, got, want)
		}
	}
	for c := range 256 {
		for at := range 8 {
			eight := []byte("abcdefgh")
			eight[at] = byte(c)
			check(t, eight)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		eight := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x00\x1f !\"#[\\]\x80"))), 8, 8).Draw(t, "eight")
		check(t, eight)
	})
}
