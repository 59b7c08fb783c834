package config

// Shown returns the fields of an entity that differ from their defaults, as they may be shown to anybody: the values of headers
// that are no references, and parameters in URLs whose names look like secrets, are hidden.
func (c *Content) Shown(kind Kind, name string) Values {
	values := c.Values(kind, name)
	for _, f := range Fields(kind) {
		text, ok := values[f.Name]
		switch {
		case !ok:
		case f.IsMap:
			entries := entriesOf(text)
			for key, text := range entries {
				entries[key] = show(kind, f.Name, key, text)
			}
			values[f.Name] = MapText(entries)
		default:
			values[f.Name] = show(kind, f.Name, "", text)
		}
	}
	return values
}
