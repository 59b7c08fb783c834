package loop

// Filter is the part that all handlers have in common which stand in front of another handler of the same connection: a type that embeds
// it, with the other one as its Handler, is that handler, except for the methods that it has itself. That holds for the optional
// interfaces, too, which [As] finds.
type Filter struct{ Handler }

func (f *Filter) next() Handler { return f.Handler }

// As returns the first handler that is a T, of h and those that it stands in front of.
func As[T any](h Handler) (found T, ok bool) {
	for {
		if found, ok = h.(T); ok {
			return found, true
		}
		filter, ok := h.(interface{ next() Handler })
		if !ok {
			return found, false
		}
		h = filter.next()
	}
}
