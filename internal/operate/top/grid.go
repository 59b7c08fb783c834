package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is a column of a pane.
type column struct {
	head     string
	priority int  // the lower, the longer it stays on a narrow screen; 0 stays always
	right    bool // numbers stand at the right
	flexible bool // takes what is left, and gives up what is missing
	least    int  // columns of the screen that a flexible one needs
	most     int  // columns of the screen at most; 0 for no limit
	rest     bool // takes what is left when all have what they need
	bar      bool // its cells draw themselves
	middle   bool // a text that is too long is cut in its middle: the ends of names tell them apart
	streamed bool // only the stream of one proxy measures it: there is no such column for a whole fleet
	fleet    bool // only for a whole fleet
}

// cell is what a row has in a column.
type cell struct {
	text  string
	tone  tone
	drawn func(width int) string // draws the cell itself, as a bar does; nil for a text
}

// row is a row of a pane.
type row struct {
	key   string
	cells []cell
}

// gap is between two columns.
const gap = 1

// arrange returns the columns that fit into a width, and how wide they are: first those with the best priority. Flexible columns
// share what is left.
func arrange(columns []column, rows []row, width int) (shown, widths []int) {
	natural := make([]int, len(columns))
	for i, c := range columns {
		natural[i] = ansi.StringWidth(c.head)
		for _, r := range rows {
			natural[i] = max(natural[i], ansi.StringWidth(r.cells[i].text))
		}
		if c.bar {
			natural[i] = c.most
		}
		if c.most > 0 {
			natural[i] = min(natural[i], c.most)
		}
		natural[i] = max(natural[i], c.least)
	}
	need := func(i int) int {
		if columns[i].flexible {
			return min(natural[i], max(columns[i].least, 4))
		}
		return natural[i]
	}
	dropped := make([]bool, len(columns))
	for {
		total, worst := -gap, -1
		for i := range columns {
			if dropped[i] {
				continue
			}
			total += need(i) + gap
			if columns[i].priority > 0 && (worst < 0 || columns[i].priority >= columns[worst].priority) {
				worst = i
			}
		}
		if total <= width || worst < 0 {
			break
		}
		dropped[worst] = true
	}
	left := width + gap
	for i := range columns {
		if !dropped[i] {
			shown = append(shown, i)
			widths = append(widths, need(i))
			left -= need(i) + gap
		}
	}
	for _, texts := range []bool{true, false} { // flexible columns grow to their natural width, from left to right, bars last
		for n, i := range shown {
			if columns[i].flexible && columns[i].bar != texts && left > 0 {
				grow := max(0, min(left, natural[i]-widths[n]))
				widths[n] += grow
				left -= grow
			}
		}
	}
	for n := len(shown) - 1; n >= 0 && left > 0; n-- { // one column takes the rest
		if columns[shown[n]].rest {
			widths[n] += left
			left = 0
		}
	}
	return shown, widths
}

// line draws one row.
func (s Style) line(columns []column, shown, widths []int, r row, width int, isChosen bool) string {
	var b strings.Builder
	for n, i := range shown {
		if n > 0 {
			b.WriteByte(' ')
		}
		c := r.cells[i]
		if columns[i].middle {
			c.text = s.elide(c.text, widths[n])
		}
		switch {
		case c.drawn != nil && !isChosen:
			b.WriteString(c.drawn(widths[n]))
		case c.drawn != nil:
			b.WriteString(ansi.Strip(c.drawn(widths[n])))
		case isChosen:
			b.WriteString(s.fit(c.text, widths[n], columns[i].right))
		default:
			b.WriteString(s.paint(c.tone, s.fit(c.text, widths[n], columns[i].right)))
		}
	}
	text := b.String()
	if isChosen {
		return s.paint(chosen, s.fit(text, width, false))
	}
	return s.fit(text, width, false)
}
