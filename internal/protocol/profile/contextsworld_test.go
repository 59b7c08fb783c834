package profile

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// contextsServer is ElevenLabs' multi-stream-input: contexts keep text until they are told to speak it. What comes without an id is of the default one.
// It takes binary messages for texts, and ids wherever the case of their keys differs, as servers may.
type contextsServer struct {
	c        chooser
	nasty    nasty
	contexts map[string][]int // whose text is in it, not spoken yet
}

func (s *contextsServer) hear(_ frame.Opcode, payload string) (list []said) {
	var m struct {
		Text  string
		ID    string `json:"context_id"`
		Close bool   `json:"close_context"`
	}
	if json.Unmarshal([]byte(payload), &m) != nil {
		return nil
	}
	id := cmp.Or(m.ID, "default")
	if s.contexts == nil {
		s.contexts = make(map[string][]int)
	}
	if who := speaker(m.Text); who > 0 {
		s.contexts[id] = append(s.contexts[id], who)
	}
	from, begun := s.contexts[id]
	if !begun || !m.Close && s.c.chance(50) {
		return nil
	}
	spoken := say(map[string]any{"contextId": id, "audio": "..."}, from)
	if !m.Close {
		return []said{spoken}
	}
	delete(s.contexts, id)
	spoken.late = s.nasty.late
	return []said{spoken, say(map[string]any{"contextId": id, "isFinal": true}, nil)}
}

func contextsClient(c chooser, v *visit) (list []said) {
	for k := range 1 + c(3) {
		id := fmt.Sprintf(`"context_id":"%d-%d",`, v.id, k)
		switch n := c(100); {
		case n < 6:
			id = `"context_id":"always the same",`
		case n < 8:
			id = `"context_id":"default",`
		case n < 10:
			id = ""
		case n < 11:
			id = `"CONTEXT_ID":"always the same",`
		case n < 12:
			id = `"context_id":"always the sam\u0065",`
		}
		for range 1 + c(3) {
			m := text(fmt.Sprintf(`{%s"text":"audio of %d, "}`, id, v.id))
			if c.chance(2) {
				m.op = frame.Binary
			}
			list = append(list, m)
		}
		for range min(1, c(5)) + c(20)/19 { // a second one is of no context
			list = append(list, text(fmt.Sprintf(`{%s"close_context":true}`, id)))
		}
		if c.chance(10) { // behind the end
			list = append(list, text(fmt.Sprintf(`{%s"text":"audio of %d, "}`, id, v.id)))
		}
	}
	return list
}
