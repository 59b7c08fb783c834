package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// leaves are the values of a message by their paths. Numbers keep the digits that they were written with, but for zeros at the end of a
// fraction: the proxy writes what it shifts with as many decimals as the server, which writes 0.5 where it wrote 7.62 before.
type leaves map[string]string

// leavesOf returns the values of a message; a message that is no JSON and no MessagePack is one value.
func leavesOf(m speaker.Message) leaves {
	all := make(leaves)
	value, ok := speaker.Decode(m)
	if !ok {
		all[""] = string(m.Payload)
		return all
	}
	all.add("", value)
	return all
}

func (l leaves) add(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			l.add(strings.TrimPrefix(path+"."+key, "."), below)
		}
	case []any:
		for i, below := range v {
			l.add(fmt.Sprintf("%s[%d]", path, i), below)
		}
	case json.Number:
		l[path] = withoutZeros(v.String())
	default:
		l[path] = fmt.Sprint(v)
	}
}

// withoutZeros returns a JSON number without zeros at the end of its fraction.
func withoutZeros(number string) string {
	if !strings.Contains(number, ".") || strings.ContainsAny(number, "eE") {
		return number
	}
	return strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
}

// general returns a path without the numbers of items.
func general(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		b.WriteByte(path[i])
		if path[i] == '[' {
			for i+1 < len(path) && path[i+1] != ']' {
				i++
			}
		}
	}
	return b.String()
}

// outcome is what a session's client has got for good.
type outcome struct {
	finals []leaves
	texts  []string // of the finals
}

// words are those of all finals.
func (o *outcome) words() string {
	return strings.Join(strings.Fields(strings.Join(o.texts, " ")), " ")
}

// unite makes one final result of all, which has only their words.
func (o *outcome) unite() {
	if len(o.finals) > 0 {
		o.texts = []string{o.words()}
		o.finals = []leaves{{"words": o.texts[0]}}
	}
}

// dividedOtherwise reports whether two outcomes have the same words in other results, as from a server that makes a result of what it has each time
// that it looks.
func dividedOtherwise(a, b *outcome) bool {
	return !slices.Equal(a.texts, b.texts) && a.words() == b.words()
}

// differences returns the paths, without the numbers of items, at which two outcomes differ; more tells that one has more finals.
func differences(a, b *outcome) (paths map[string]bool, more bool) {
	paths = make(map[string]bool)
	for i := range min(len(a.finals), len(b.finals)) {
		for path, value := range a.finals[i] {
			if other, ok := b.finals[i][path]; !ok || other != value {
				paths[general(path)] = true
			}
		}
		for path := range b.finals[i] {
			if _, ok := a.finals[i][path]; !ok {
				paths[general(path)] = true
			}
		}
	}
	return paths, len(a.finals) != len(b.finals)
}

// compare says how an outcome differs from what it should be, paths aside that differ anyway and times that are only rounded otherwise; empty if it
// does not.
func compare(got, want *outcome, volatile map[string]bool, times *profile.Failover) string {
	for i := range min(len(got.finals), len(want.finals)) {
		for _, path := range slices.Sorted(maps.Keys(want.finals[i])) {
			if volatile[general(path)] {
				continue
			}
			value, ok := got.finals[i][path]
			if wanted := want.finals[i][path]; !ok {
				return fmt.Sprintf("final result %d lacks %s, which a direct session has as %.100q", i+1, name(path), wanted)
			} else if value != wanted && !times.SameTime(general(path), value, wanted) {
				return fmt.Sprintf("final result %d has %s %.100q; a direct session has %.100q", i+1, name(path), value, wanted)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(got.finals[i])) {
			if _, ok := want.finals[i][path]; !ok && !volatile[general(path)] {
				return fmt.Sprintf("final result %d has %s %.100q, which a direct session does not have", i+1, name(path), got.finals[i][path])
			}
		}
	}
	if len(got.finals) != len(want.finals) {
		return fmt.Sprintf("%d final results; a direct session has %d: %.200q, %.200q", len(got.finals), len(want.finals), got.texts, want.texts)
	}
	return ""
}

func name(path string) string {
	if path == "" {
		return "the payload"
	}
	return path
}
