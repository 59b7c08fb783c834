package profile

import (
	"bytes"
	"math"
	"strconv"
)

// Times in messages are decimal numbers, which servers write in many ways. They are computed as texts here: a float would change digits that
// that were to stay, and apd (github.com/cockroachdb/apd/v3, v3.2.3) allocates for each text with a point, one to nine times, takes three
// times as long, and reads .5, +1 and NaN, which are no numbers in JSON; each result of a session with failover passes here.

// decimal is a number as it was written: its digits, without sign and exponent.
type decimal struct {
	digits [maxDigits]byte
	whole  int // how many digits are before the point; at least one
	count  int // of all digits
}

// maxDigits is the largest number of digits of a number that is computed with.
const maxDigits = 48

// parse reads a number that is not negative, in JSON's notation (leading zeros are allowed as well). ok is false if the text is none, or has
// too many digits.
func (d *decimal) parse(text []byte) (ok bool) {
	*d = decimal{}
	i, point := 0, -1
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			if d.count == maxDigits {
				return false
			}
			d.digits[d.count] = c
			d.count++
			continue
		case c == '.' && point < 0 && d.count > 0:
			point = d.count
			continue
		}
		break
	}
	if d.count == 0 || point == d.count {
		return false
	}
	if d.whole = point; point < 0 {
		d.whole = d.count
	}
	if i == len(text) {
		return true
	}
	if text[i]|0x20 != 'e' {
		return false
	}
	exponent, err := strconv.Atoi(string(text[i+1:]))
	if err != nil || exponent < -maxDigits || exponent > maxDigits {
		return false
	}
	return d.move(exponent)
}

// move moves the point by this many digits to the right.
func (d *decimal) move(by int) bool {
	before, after := max(0, 1-d.whole-by), max(0, d.whole+by-d.count) // zeros to add
	if d.count+before+after > maxDigits {
		return false
	}
	copy(d.digits[before:], d.digits[:d.count])
	for i := range before {
		d.digits[i] = '0'
	}
	d.count += before
	for range after {
		d.digits[d.count] = '0'
		d.count++
	}
	d.whole += by + before
	return true
}

// scaled returns the number times 10^places, without the digits that remain behind the point, and the place of the first of those. ok is
// false if it is too large.
func (d *decimal) scaled(places int) (value int64, rest int, ok bool) {
	end := d.whole + places
	for i := range end {
		digit := int64(0)
		if i < d.count {
			digit = int64(d.digits[i] - '0')
		}
		if value > (math.MaxInt64>>1-digit)/10 {
			return 0, 0, false
		}
		value = value*10 + digit
	}
	return value, min(end, d.count), true
}

// roundTo returns a number that is a multiple of unit, the nearest to v; halves go up.
func roundTo(v, unit int64) int64 {
	v += unit / 2
	rest := v % unit
	if rest < 0 {
		rest += unit
	}
	return v - rest
}

var powers = [...]int64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}

// microPlaces is how many digits after the point a microsecond has in seconds. Times are shifted by whole microseconds.
const microPlaces = 6

// shiftTime appends to dst a time as the text that it was, plus this many microseconds; a time that would be before 0 becomes 0. A quoted text
// keeps its number of decimals. A number may get more, up to six for seconds and none for milliseconds: it loses no precision. ok is false
// if the text is no time that can be shifted: a negative one means something else.
func shiftTime(dst, text []byte, unit TimeUnit, micros int64, quoted bool) (shifted []byte, ok bool) {
	if unit == UnitClock {
		return shiftClock(dst, text, micros)
	}
	var d decimal
	if !d.parse(text) {
		return dst, false
	}
	decimals := d.count - d.whole
	places := microPlaces
	switch {
	case unit == UnitMilliseconds:
		places, micros = 0, roundTo(micros, 1000)/1000
	case quoted && decimals < microPlaces:
		micros = roundTo(micros, powers[microPlaces-decimals])
	}
	value, rest, ok := d.scaled(places)
	if !ok || value > math.MaxInt64-max(micros, 0) {
		return dst, false
	}
	tail := d.digits[rest:d.count]
	if value += micros; value < 0 {
		value = 0
		for i := range tail {
			tail[i] = '0'
		}
	}
	dst = strconv.AppendInt(dst, value/powers[places], 10)
	if places == 0 {
		if len(tail) > 0 {
			dst = append(append(dst, '.'), tail...)
		}
		return dst, true
	}
	return appendFraction(dst, value%powers[places], tail, decimals), true
}

// appendFraction appends the digits after the point: six for the microseconds and then the tail, but at least decimals, without zeros at the
// end that are more than that.
func appendFraction(dst []byte, micros int64, tail []byte, decimals int) []byte {
	before := len(dst)
	dst = append(dst, '.')
	for place := microPlaces - 1; place >= 0; place-- {
		dst = append(dst, '0'+byte(micros/powers[place]%10))
	}
	dst = append(dst, tail...)
	for len(dst)-before-1 > decimals && dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	if dst[len(dst)-1] == '.' {
		dst = dst[:before]
	}
	return dst
}

// clock is a time such as 1:02:03.45.
type clock struct {
	micros   int64 // without the digits behind the sixth decimal
	fields   int   // 2 or 3
	width    int   // of the first field
	decimals int
	tail     []byte // the digits behind the sixth decimal
}

// parseClock reads a time: hours (or not), minutes and seconds.
func parseClock(text []byte) (c clock, ok bool) {
	var total int64
	at := 0
	for {
		from := at
		var n int64
		for at < len(text) && '0' <= text[at] && text[at] <= '9' && at-from < 9 {
			n = n*10 + int64(text[at]-'0')
			at++
		}
		if at == from || c.fields > 0 && (at-from != 2 || n > 59) {
			return c, false
		}
		if c.fields == 0 {
			c.width = at - from
		}
		c.fields++
		total = total*60 + n
		if at == len(text) || text[at] != ':' {
			break
		}
		at++
	}
	if c.fields != 2 && c.fields != 3 {
		return c, false
	}
	c.micros = total * 1e6
	if at == len(text) {
		return c, true
	}
	if text[at] != '.' || at+1 == len(text) {
		return c, false
	}
	at++
	for i, digit := range text[at:] {
		if digit < '0' || digit > '9' || i == maxDigits {
			return c, false
		}
		if c.decimals++; c.decimals <= microPlaces {
			c.micros += int64(digit-'0') * powers[microPlaces-c.decimals]
		}
	}
	c.tail = text[min(at+microPlaces, len(text)):]
	return c, true
}

// shiftClock is shiftTime for times such as 1:02:03.45.
func shiftClock(dst, text []byte, micros int64) ([]byte, bool) {
	c, ok := parseClock(text)
	if !ok {
		return dst, false
	}
	if c.decimals < microPlaces {
		micros = roundTo(micros, powers[microPlaces-c.decimals])
	}
	if micros > math.MaxInt64-c.micros {
		return dst, false
	}
	total := c.micros + micros
	if total < 0 {
		total, c.tail = 0, bytes.Repeat([]byte{'0'}, len(c.tail))
	}
	seconds := total / 1e6
	minutes := seconds / 60
	if c.fields == 3 {
		dst = appendPadded(dst, minutes/60, c.width)
		dst = append(dst, ':')
		dst = appendPadded(dst, minutes%60, 2)
	} else {
		dst = appendPadded(dst, minutes, c.width)
	}
	dst = append(dst, ':')
	dst = appendPadded(dst, seconds%60, 2)
	return appendFraction(dst, total%1e6, c.tail, c.decimals), true
}

// appendPadded appends a number with at least this many digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	for range width - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// parseTime reads a time and returns it in nanoseconds, cut off after that. ok is false if the text is no time, or a negative one.
func parseTime(text []byte, unit TimeUnit) (nanos int64, ok bool) {
	if unit == UnitClock {
		c, ok := parseClock(text)
		nanos = c.micros * 1000
		for i, digit := range c.tail {
			if i == 3 {
				break
			}
			nanos += int64(digit-'0') * powers[2-i]
		}
		return nanos, ok && c.micros <= math.MaxInt64/1000
	}
	var d decimal
	if !d.parse(text) {
		return 0, false
	}
	places := 9
	if unit == UnitMilliseconds {
		places = 6
	}
	nanos, _, ok = d.scaled(places)
	return nanos, ok
}
