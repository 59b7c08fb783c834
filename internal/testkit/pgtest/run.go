//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// Run is the TestMain of a package whose tests share one server: it starts a server, hands it to prepare, runs the tests, stops the server, and
// looks for goroutines that are left. It returns the status to exit with. Without a PostgreSQL server on this system, prepare is not called.
func Run(tests interface{ Run() int }, prepare func(context.Context, *Server) error) int {
	s, err := New()
	switch {
	case errors.Is(err, ErrNone):
		fmt.Println("skipping tests:", err)
		return tests.Run()
	case err != nil:
		fmt.Println(err)
		return 1
	}
	defer s.Remove()
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := prepare(ctx, s); err != nil {
		fmt.Println(err)
		return 1
	}
	code := tests.Run()
	_ = s.Stop() // before the leak check: the server has a goroutine that copies its output
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	return code
}

// Execute runs statements, each by itself, as psql would.
func Execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
