package tables

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/operate/usage"
)

// This file keeps what clients have used beside the configuration, as a [usage.Store].

// usageNumbers are the columns with the numbers of a row, in the order of meter.Used.Numbers.
var usageNumbers = []string{
	"sessions", "in_micros", "in_estimated", "in_bytes", "in_unknown", "out_micros", "out_estimated", "out_bytes", "out_unknown", "results",
}

// BookUsage implements [usage.Store]. All numbers of a row grow together, so that of two states of it the one with the larger sum is the later.
func (s *Store) BookUsage(ctx context.Context, rows []usage.Row) error {
	if len(rows) == 0 {
		return nil
	}
	return s.transact(ctx, true, func(t *Tables) (bool, error) {
		names := append([]string{"hour", "process", "service", "tenant", "api_key"}, usageNumbers...)
		var args []any
		var values []string
		for i := range rows {
			r := &rows[i]
			args = append(args, r.Hour, r.Process, r.Service, r.Tenant, r.Key)
			for _, n := range r.Used.Numbers() {
				args = append(args, strconv.FormatUint(*n, 10))
			}
			marks := make([]string, len(names))
			for j := range marks {
				if marks[j] = t.Parameter + strconv.Itoa(i*len(names)+j+1); j >= len(names)-len(usageNumbers) {
					marks[j] = "CAST(" + marks[j] + " AS bigint)"
				}
			}
			values = append(values, "("+strings.Join(marks, ", ")+")")
		}
		var set, before, after []string
		for _, n := range usageNumbers {
			set = append(set, n+" = excluded."+n)
			before, after = append(before, "u."+n), append(after, "excluded."+n)
		}
		err := t.Tx.Exec(ctx, "INSERT INTO "+t.Schema+"usage AS u ("+strings.Join(names, ", ")+") VALUES "+strings.Join(values, ", ")+
			" ON CONFLICT (hour, process, service, tenant, api_key) DO UPDATE SET "+strings.Join(set, ", ")+
			" WHERE "+strings.Join(after, " + ")+" > "+strings.Join(before, " + "), args...)
		if err != nil {
			return false, fmt.Errorf("writing the table usage: %w", err)
		}
		return true, nil
	})
}

// SumUsage implements [usage.Store].
func (s *Store) SumUsage(ctx context.Context, from, to, except string) (sums []usage.Row, err error) {
	err = s.transact(ctx, false, func(t *Tables) (bool, error) {
		var columns []string
		for _, n := range usageNumbers {
			columns = append(columns, "CAST(sum("+n+") AS text)")
		}
		args, where := []any{from, to}, " WHERE hour >= "+t.Parameter+"1 AND hour < "+t.Parameter+"2"
		if except != "" {
			args, where = append(args, except), where+fmt.Sprintf(" AND substr(process, 1, %d) <> %s3", len(except), t.Parameter)
		}
		rows, err := t.Tx.Query(ctx, "SELECT service, tenant, api_key, "+strings.Join(columns, ", ")+
			" FROM "+t.Schema+"usage"+where+" GROUP BY service, tenant, api_key", args...)
		if err != nil {
			return false, fmt.Errorf("reading the table usage: %w", err)
		}
		for _, row := range rows {
			sum := usage.Row{Scope: usage.Scope{Service: text(row[0]), Tenant: text(row[1]), Key: text(row[2])}}
			for i, n := range sum.Used.Numbers() {
				if *n, err = strconv.ParseUint(text(row[i+3]), 10, 64); err != nil {
					return false, fmt.Errorf("reading the table usage: %w", err)
				}
			}
			sums = append(sums, sum)
		}
		return false, nil
	})
	return sums, err
}

// NewestUsage implements [usage.Store].
func (s *Store) NewestUsage(ctx context.Context, before string) (hour string, err error) {
	err = s.transact(ctx, false, func(t *Tables) (bool, error) {
		rows, err := t.Tx.Query(ctx, "SELECT max(hour) FROM "+t.Schema+"usage WHERE hour < "+t.Parameter+"1 AND hour <= "+t.Hour, before)
		if err != nil {
			return false, fmt.Errorf("reading the table usage: %w", err)
		}
		for _, row := range rows {
			hour = text(row[0])
		}
		return false, nil
	})
	return hour, err
}

// ForgetUsage implements [usage.Store].
func (s *Store) ForgetUsage(ctx context.Context, before string) error {
	return s.transact(ctx, true, func(t *Tables) (bool, error) {
		if err := t.Tx.Exec(ctx, "DELETE FROM "+t.Schema+"usage WHERE hour < "+t.Parameter+"1", before); err != nil {
			return false, fmt.Errorf("writing the table usage: %w", err)
		}
		return true, nil
	})
}
