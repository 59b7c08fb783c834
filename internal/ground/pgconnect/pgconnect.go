// Package pgconnect has what the stores in PostgreSQL share: how they connect, and how they distinguish an outage from a refusal. It connects to
// nothing itself.
package pgconnect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Timeout is how long connecting to one host may take, unless connect_timeout says otherwise.
const Timeout = 5 * time.Second

// ErrDSN repeats neither the value nor the driver's message, which may contain a password.
var ErrDSN = errors.New("invalid database: use postgres://user:password@host:5432/name?sslmode=require, " +
	"or host=... port=... user=... dbname=... (the password can also come from PGPASSWORD or ~/.pgpass; percent-encode special " +
	"characters in a URL)")

// Settle sets what the user has not set. application is the name under which the database shows the connection.
func Settle(c *pgx.ConnConfig, application string) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = Timeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = application
	}
}

// Server returns the address, host:port, of the first server that a database's name means; empty if it is reached by a unix socket.
func Server(dsn string) (address string, err error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", ErrDSN
	}
	if network, _ := pgconn.NetworkAddress(c.Host, c.Port); network == "unix" {
		return "", nil
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), nil
}

// IsDirect reports whether nothing is between a connection and the server that may lose notifications. A connection pooler that gives each
// transaction another connection lets a client listen, and passes nothing on. Each pooler shows by the process that it names to a new client: it
// is none of the server's.
func IsDirect(ctx context.Context, conn *pgx.Conn) bool {
	var process uint32
	return conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&process) == nil && process == conn.PgConn().PID()
}

// Plain returns an error whose text is one line and says each thing once: the driver has a line for each try, and tries the same address
// with and without TLS.
func Plain(err error) error {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return &plain{strings.NewReplacer(":; ", ": ", "`", "'").Replace(strings.Join(lines, "; ")), err}
}

type plain struct {
	text string
	err  error
}

func (p *plain) Error() string { return p.text }
func (p *plain) Unwrap() error { return p.err }

// Pooled returns an error with what to do about it, if it says that a connection pooler in between gives each transaction another connection,
// such as PgBouncer in transaction mode; nil for any other error. The statements that the driver prepared are on another connection then.
func Pooled(err error) error {
	var failure *pgconn.PgError
	if !errors.As(err, &failure) {
		return nil
	}
	switch failure.Code {
	case "26000", "42P05": // invalid_sql_statement_name, duplicate_prepared_statement
		return fmt.Errorf("a connection pooler is in between, which keeps no prepared statements: add default_query_exec_mode=exec to the database's name: %w", err)
	}
	return nil
}

// IsOutage reports whether an error says that the server cannot be reached: it is stopping, has crashed, is starting, or does not answer.
func IsOutage(err error) bool {
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch failure.Code {
		case "57P01", "57P02", "57P03", "08000", "08003", "08006", // it stops, or the connection broke
			"25P03", "25P04", "57P05": // it has ended the connection, on which nothing happened for too long: this machine is busy
			return true
		}
		return false
	}
	return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(net.Error)) || pgconn.Timeout(err) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
