package peers

import "reflect"

// add adds the numbers of one value to those of another of the same type: of fields, of what is embedded and of maps. Texts, times,
// lists and what pointers lead to stay what they are.
func add[T any](to, from *T) { addValue(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()) }

func addValue(to, from reflect.Value) {
	switch {
	case to.CanInt():
		to.SetInt(to.Int() + from.Int())
	case to.CanUint():
		to.SetUint(to.Uint() + from.Uint())
	case to.CanFloat():
		to.SetFloat(to.Float() + from.Float())
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			if to.Type().Field(i).IsExported() { // not what times consist of
				addValue(to.Field(i), from.Field(i))
			}
		}
	case to.Kind() == reflect.Map && from.Len() > 0:
		sum := reflect.MakeMapWithSize(to.Type(), from.Len()) // the other map belongs to somebody else
		for _, all := range []reflect.Value{to, from} {
			for key, value := range all.Seq2() {
				n := reflect.New(to.Type().Elem()).Elem()
				if before := sum.MapIndex(key); before.IsValid() {
					n.Set(before)
				}
				addValue(n, value)
				sum.SetMapIndex(key, n)
			}
		}
		to.Set(sum)
	}
}
