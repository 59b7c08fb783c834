package profile

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShiftTime(t *testing.T) {
	for _, c := range []struct {
		text   string
		unit   TimeUnit
		micros int64
		quoted bool
		want   string // empty if it cannot be shifted
	}{
		{"1.5", UnitSeconds, 250_000, false, "1.75"},
		{"1.5", UnitSeconds, 500_000, false, "2.0"},
		{"1", UnitSeconds, 1_000_000, false, "2"},
		{"1", UnitSeconds, 500_000, false, "1.5"},
		{"0", UnitSeconds, 123_456, false, "0.123456"},
		{"1.110000", UnitSeconds, 200_000, false, "1.310000"},
		{"1.12345678901234567890", UnitSeconds, 200_000, false, "1.32345678901234567890"},
		{"123456789012.5", UnitSeconds, 1, false, "123456789012.500001"},
		{"9.99", UnitSeconds, 10_000, false, "10.00"},
		{"1.000", UnitSeconds, 140_000, true, "1.140"},
		{"1.000", UnitSeconds, 140_600, true, "1.141"},
		{"1.0", UnitSeconds, -300_000, true, "0.7"},
		{"007.5", UnitSeconds, 1_000_000, true, "8.5"},
		{"0.5", UnitSeconds, -1_000_000, false, "0.0"}, // before the beginning
		{"0.1234567", UnitSeconds, -1_000_000, false, "0.0000000"},
		{"1e1", UnitSeconds, 500_000, false, "10.5"},
		{"6.25e-05", UnitSeconds, 1_000_000, false, "1.0000625"},
		{"1.5E+2", UnitSeconds, 0, false, "150"},
		{"1500", UnitMilliseconds, 250_000, false, "1750"},
		{"1500", UnitMilliseconds, 250_499, false, "1750"},
		{"1500", UnitMilliseconds, 250_500, false, "1751"},
		{"1500.5", UnitMilliseconds, 250_000, false, "1750.5"},
		{"100", UnitMilliseconds, -250_000, false, "0"},
		{"0:00:01.25", UnitClock, 60_000_000, true, "0:01:01.25"},
		{"0:59:59.99", UnitClock, 10_000, true, "1:00:00.00"},
		{"00:00:01", UnitClock, 3_600_000_000, true, "01:00:01"},
		{"00:00:01", UnitClock, 499_999, true, "00:00:01"},
		{"00:00:01", UnitClock, 500_000, true, "00:00:02"},
		{"59:59.5", UnitClock, 500_000, true, "60:00.0"},
		{"0:00:01.123456789", UnitClock, 1, true, "0:00:01.123457789"},
		{"0:00:01.5", UnitClock, -2_000_000, true, "0:00:00.0"},

		{"-1", UnitSeconds, 1, false, ""},
		{"-0.5", UnitMilliseconds, 1, false, ""},
		{"", UnitSeconds, 1, true, ""},
		{".5", UnitSeconds, 1, true, ""},
		{"1.", UnitSeconds, 1, true, ""},
		{"1.5s", UnitSeconds, 1, true, ""},
		{"1e", UnitSeconds, 1, true, ""},
		{"1e99", UnitSeconds, 1, false, ""},
		{"1e-99", UnitSeconds, 1, false, ""},
		{strings.Repeat("9", 20), UnitSeconds, 1, false, ""},
		{"9" + strings.Repeat("0", 60), UnitMilliseconds, 1, false, ""},
		{"NaN", UnitSeconds, 1, true, ""},
		{"1:2:3", UnitClock, 1, true, ""},
		{"0:60:00", UnitClock, 1, true, ""},
		{"1", UnitClock, 1, true, ""},
		{"0:00:00.", UnitClock, 1, true, ""},
		{"0:00:00:00", UnitClock, 1, true, ""},
		{"0:00:00,5", UnitClock, 1, true, ""},
	} {
		got, ok := shiftTime([]byte("x"), []byte(c.text), c.unit, c.micros, c.quoted)
		if string(got) != "x"+c.want || ok != (c.want != "") {
			t.Errorf("%s %v + %d µs: %s, %v; want %s", c.text, c.unit, c.micros, got, ok, c.want)
		}
	}
}

// Shifted times are exact, and stay in order.
func TestShiftTimeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() string {
			text := fmt.Sprint(rapid.Int64Range(0, 1e9).Draw(t, "whole"))
			if decimals := rapid.IntRange(0, 9).Draw(t, "decimals"); decimals > 0 {
				text += fmt.Sprintf(".%0*d", decimals, rapid.Int64Range(0, 9).Draw(t, "fraction"))
			}
			return text
		}
		micros := rapid.Int64Range(0, 1e12).Draw(t, "micros")
		a, b := draw(), draw()
		move := func(text string) *big.Rat {
			shifted, ok := shiftTime(nil, []byte(text), UnitSeconds, micros, false)
			if !ok {
				t.Fatalf("%s cannot be shifted", text)
			}
			before, _ := new(big.Rat).SetString(text)
			after, _ := new(big.Rat).SetString(string(shifted))
			if want := new(big.Rat).Add(before, big.NewRat(micros, 1e6)); after.Cmp(want) != 0 {
				t.Fatalf("%s + %d µs is %s", text, micros, shifted)
			}
			return before
		}
		move(a)
		move(b)
		// In texts with the same number of decimals, the order stays.
		x, _ := shiftTime(nil, fmt.Appendf(nil, "%.2f", 1.0), UnitSeconds, micros, true)
		y, _ := shiftTime(nil, fmt.Appendf(nil, "%.2f", 1.01), UnitSeconds, micros, true)
		p, _ := new(big.Rat).SetString(string(x))
		q, _ := new(big.Rat).SetString(string(y))
		if new(big.Rat).Sub(q, p).Cmp(big.NewRat(1, 100)) != 0 {
			t.Fatalf("%s and %s", x, y)
		}
	})
}

func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		text string
		unit TimeUnit
		want int64 // -1 if it is no time
	}{
		{"1.04", UnitSeconds, 1_040_000_000},
		{"0.0000625", UnitSeconds, 62_500},
		{"1.1234567899", UnitSeconds, 1_123_456_789},
		{"1500", UnitMilliseconds, 1_500_000_000},
		{"0.5", UnitMilliseconds, 500_000},
		{"1:00:00.25", UnitClock, 3_600_250_000_000},
		{"0:00:00.123456789", UnitClock, 123_456_789},
		{"-1", UnitSeconds, -1},
		{"99999999999999", UnitSeconds, -1},
		{"999999999:00:00", UnitClock, -1},
		{"soon", UnitSeconds, -1},
	} {
		if got, ok := parseTime([]byte(c.text), c.unit); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s %v: %d, %v; want %d", c.text, c.unit, got, ok, c.want)
		}
	}
}
