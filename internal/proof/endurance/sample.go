//go:build linux

package endurance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// figure is something that must not grow.
type figure struct {
	name    string
	limit   float64 // by how much it may in an hour
	process bool    // it begins anew with each process
	metric  string  // of Prometheus; empty for what is not one
	unit    float64 // of the metric
}

var figures = []figure{
	{"descriptors", 2, true, "process_open_fds", 1},
	{"goroutines", 2, true, "go_goroutines", 1},
	{"live heap, MiB", 1, true, "go_gc_heap_live_bytes", kit.MiB},
	{"resident memory, MiB", 4, true, "process_resident_memory_bytes", kit.MiB},
	{ledgerRows, 1, false, "", 0},
	{stateFiles, 1, false, "", 0},
	{logSize, 4, false, "", 0},
}

const (
	ledgerRows = "rows of the ledger and keys"
	stateFiles = "files of the state"
	logSize    = "log, MiB"
	// born is the metric that tells processes apart.
	born = "process_start_time_seconds"
)

// record is a line of the file of samples.
type record struct {
	At     time.Time          `json:"at"`
	Hours  float64            `json:"hours"`            // under load
	Life   string             `json:"life,omitempty"`   // of the process: when it began
	Values map[string]float64 `json:"values,omitempty"` // by figure; those that could not be read are missing
	Count  map[string]int     `json:"count,omitempty"`  // of what happened since the record before
	Found  map[string]int     `json:"found,omitempty"`  // of what must not happen
}

func (o *Options) recordFile() string { return o.file("samples.jsonl") }

// readRecords reads the file of samples. A crash may have cut off the last line.
func readRecords(file string) (all []record, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var one record
		if json.Unmarshal(line, &one) == nil {
			all = append(all, one)
		}
	}
	return all, err
}

// unwritten is what is found when a sample could not be written.
const unwritten = "a sample could not be written"

// write adds a record, with what happened since the last one. If it cannot be written, the next record has what happened and was found, and the error
// names the latter.
func (r *run) write(one *record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.At, one.Hours, one.Count, one.Found = time.Now(), r.hours(), r.count, r.found
	line, err := json.Marshal(one)
	if err == nil {
		_, err = fmt.Fprintf(r.records, "\n%s", line) // the file may end in half a line
	}
	if err != nil {
		r.found[unwritten]++
		r.journal.Event("FOUND %s: %v", unwritten, err)
		return fmt.Errorf("%s: %w; found until then: %s", unwritten, err, kit.Tallied(r.found))
	}
	r.count, r.found = make(map[string]int), make(map[string]int)
	return nil
}

// sample takes samples until ctx ends.
func (r *run) sample(ctx context.Context) {
	var dialer net.Dialer
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, // the next answer may come from another process
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", r.o.file("proxy/admin.sock"))
		},
	}}
	for kit.Wait(ctx, r.o.Sample) == nil {
		one := record{Values: make(map[string]float64)}
		if metrics := scrape(&client); metrics[born] > 0 {
			one.Life = fmt.Sprint(metrics[born])
			for _, f := range figures {
				if v, ok := metrics[f.metric]; ok {
					one.Values[f.name] = v / f.unit
				}
			}
		}
		if rows, err := r.rows(ctx); err == nil {
			one.Values[ledgerRows] = rows
		}
		files := 0.0
		_ = filepath.WalkDir(r.o.file("proxy/state"), func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "usage" { // of each process and hour, it keeps a file for a week
				return fs.SkipDir
			}
			files++ // also one that is gone by now
			return nil
		})
		one.Values[stateFiles] = files
		if about, err := os.Stat(r.o.file("proxy/log")); err == nil {
			one.Values[logSize] = float64(about.Size()) / kit.MiB
		}
		_ = r.write(&one) // the next one has what was found
	}
}

// scrape returns the metrics without labels; none if there is no answer.
func scrape(client *http.Client) map[string]float64 {
	answer, err := client.Get("http://proxy/metrics")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	all := make(map[string]float64)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = v
		}
	}
	return all
}

// rows returns how many rows, and grants in them, the ledger has, and how many keys there are. The history grows with each change, and usage with each hour.
func (r *run) rows(ctx context.Context) (n float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	return n, conn.QueryRow(ctx, `SELECT ((SELECT count(*) FROM wsbouncer.fleet_members) + (SELECT count(*) FROM wsbouncer.fleet_beats)
		+ (SELECT coalesce(sum(1 + json_array_length(grants)), 0) FROM wsbouncer.fleet_accounts) + (SELECT count(*) FROM wsbouncer.keys))::float8`).Scan(&n)
}
