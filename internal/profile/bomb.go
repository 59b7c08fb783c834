package profile

// The YAML library takes memory and time out of all proportion for texts that nest deeply, so these are refused before it sees
// them.

// deepest is how many brackets may stand inside of one another, and how far lines may be indented, in steps of four.
const deepest = 50

// firstTooDeep returns where a text begins to nest too deeply. ok is true when it does not. Brackets within texts count too;
// they come in pairs as a rule.
func firstTooDeep(data []byte) (at place, ok bool) {
	at = place{1, 1}
	depth, indent, indenting := 0, 0, true
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			at, indent, indenting = place{at.line + 1, 1}, 0, true
			continue
		}
		switch c {
		case ' ', '-', '?', ':', '!', '[', '{':
			if indenting {
				indent++
			}
		default:
			indenting = false
		}
		if depth > deepest || indent > 4*deepest {
			return at, false
		}
		at.column++
	}
	return at, true
}
