// pgx: the extended protocol in binary, and a named statement for each text; in variant cache only two are kept, so that
// each query gives up another one.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"time"

	. "drivers/check"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func connect() *pgx.Conn {
	config := Got(pgx.ParseConfig(""))
	if Cache {
		config.StatementCacheCapacity = 2
	}
	return Got(pgx.ConnectConfig(ctx, config))
}

func exec(c *pgx.Conn, sql string, values ...any) {
	Got(c.Exec(ctx, sql, values...))
}

// ask returns the first column of the first row.
func ask[T any](c *pgx.Conn, sql string, values ...any) (value T) {
	Must(c.QueryRow(ctx, sql, values...).Scan(&value))
	return value
}

func code(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return "-----"
}

func expect(want string, err error) {
	That(err != nil && (want == "" || code(err) == want), "%v where there should be %s", err, want)
}

// swap lets another client take the server that was released last.
func swap(rival *pgx.Conn) {
	exec(rival, "BEGIN")
	ask[int](rival, "SELECT 1")
}

func open() {
	c := connect()
	user := ask[string](c, "SELECT current_user::text")
	name := ask[string](c, "SELECT current_database()::text")
	That(user == User && name == Name, "%s in %s", user, name)
	Must(c.Close(ctx))
}

func types() {
	c := connect()
	number := pgtype.Numeric{Int: big.NewInt(123450), Exp: -3, Valid: true}
	values := []any{int64(9007199254740993), -1.5, "häßlich, it's ☃", true, nil, number, []int32{1, 2, -3},
		[]byte{0, 1, 254, 255}, time.Date(2026, 11, 21, 2, 1, 23, 820000000, time.UTC), map[string]any{"a": 1.0}}
	rows := Got(c.Query(ctx, "SELECT $1::int8, $2::float8, $3::text, $4::bool, $5::text, $6::numeric, $7::int4[], $8::bytea, "+
		"$9::timestamptz, $10::jsonb", values...))
	That(rows.Next(), "no row")
	got := Got(rows.Values())
	rows.Close()
	for n := range values {
		want := values[n]
		switch value := got[n].(type) {
		case []any:
			want, got[n] = fmt.Sprint(want), fmt.Sprint(value)
		case time.Time:
			got[n] = value.UTC()
		case pgtype.Numeric:
			want, got[n] = "123.450", string(Got(value.MarshalJSON()))
		}
		That(reflect.DeepEqual(got[n], want), "%v came back as %v", want, got[n])
	}
	Must(c.Close(ctx))
}

func transaction() {
	c := connect()
	insert := "INSERT INTO drive VALUES ($1, 'transaction')"
	tx := Got(c.Begin(ctx))
	Got(tx.Exec(ctx, insert, 1))
	Must(tx.Rollback(ctx))
	tx = Got(c.Begin(ctx))
	Got(tx.Exec(ctx, insert, 2))
	inner := Got(tx.Begin(ctx))
	Got(inner.Exec(ctx, insert, 3))
	Must(inner.Rollback(ctx))
	Must(tx.Commit(ctx))
	count := ask[int](c, "SELECT count(*) FROM drive WHERE t = 'transaction'")
	That(count == 1, "%d rows", count)
	Must(c.Close(ctx))
}

func fail() {
	c := connect()
	insert := "INSERT INTO drive VALUES ($1, 'error')"
	exec(c, insert, 4)
	_, err := c.Exec(ctx, insert, 4)
	expect("23505", err)
	_, err = c.Exec(ctx, "SELEC 1")
	expect("42601", err)
	tx := Got(c.Begin(ctx))
	_, err = tx.Exec(ctx, "SELECT 1 / $1::int", 0)
	expect("22012", err)
	_, err = tx.Exec(ctx, "SELECT 1")
	expect("25P02", err)
	Must(tx.Rollback(ctx))
	That(ask[int](c, "SELECT 1") == 1, "not 1")
	Must(c.Close(ctx))
}

// A pipeline: descriptions of all texts first, then all executions, with one Sync behind each.
func batch() {
	c := connect()
	several := &pgx.Batch{}
	for n := 0; n < 200; n++ {
		several.Queue(fmt.Sprintf("SELECT $1::int + %d", n%20), n).QueryRow(func(row pgx.Row) error {
			var got int
			if err := row.Scan(&got); err != nil || got != n+n%20 {
				return fmt.Errorf("%d: %d, %w", n, got, err)
			}
			return nil
		})
	}
	Must(c.SendBatch(ctx, several).Close())
	wrong := &pgx.Batch{}
	wrong.Queue("SELECT 1")
	wrong.Queue("SELECT 1 / $1::int", 0)
	wrong.Queue("SELECT 2")
	expect("22012", c.SendBatch(ctx, wrong).Close())
	That(ask[int](c, "SELECT 1") == 1, "not 1")
	Must(c.Close(ctx))
}

func copying() {
	c := connect()
	var rows [][]any
	for n := 20000; n < 30000; n++ {
		rows = append(rows, []any{n, fmt.Sprintf("copy %d", n)})
	}
	columns := []string{"n", "t"}
	Got(c.CopyFrom(ctx, pgx.Identifier{"drive"}, columns, pgx.CopyFromRows(rows)))
	var out bytes.Buffer
	Got(c.PgConn().CopyTo(ctx, &out, "COPY (SELECT * FROM drive WHERE starts_with(t, 'copy')) TO STDOUT"))
	That(strings.Count(out.String(), "\n") == len(rows), "%d bytes came back", out.Len())
	_, err := c.CopyFrom(ctx, pgx.Identifier{"drive"}, columns, pgx.CopyFromRows(rows[:1]))
	expect("23505", err)
	That(ask[int](c, "SELECT 1") == 1, "not 1")
	Must(c.Close(ctx))
}

func cancel() {
	c, watcher := connect(), connect()
	done := make(chan error)
	go func() {
		_, err := c.Exec(ctx, Sleep)
		done <- err
	}()
	WaitFor(func() bool { return ask[int](watcher, Running) == 1 })
	Must(c.PgConn().CancelRequest(ctx))
	expect("57014", <-done)
	That(ask[int](c, "SELECT 1") == 1, "not 1")
	Must(c.Close(ctx))
	Must(watcher.Close(ctx))
}

// A context that ends closes the connection; the query is cancelled behind it.
func deadline() {
	c, watcher := connect(), connect()
	short, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := c.Exec(short, Sleep)
		done <- err
	}()
	WaitFor(func() bool { return ask[int](watcher, Running) == 1 })
	stop()
	That(errors.Is(<-done, context.Canceled), "not cancelled")
	WaitFor(func() bool { return ask[int](watcher, Running) == 0 })
	Must(watcher.Close(ctx))
}

func large() {
	c := connect()
	text := strings.Repeat("x", Large)
	That(ask[string](c, "SELECT $1::text", text) == text, "another text")
	That(ask[int](c, "SELECT length($1::text)", text) == Large, "another length")
	Must(c.Close(ctx))
}

func prepared() {
	c, rival := connect(), connect()
	Got(c.Prepare(ctx, "named", "SELECT $1::int + 100"))
	for turn := 0; turn < 7; turn++ {
		for n := 0; n < 10; n++ {
			got := ask[int](c, fmt.Sprintf("SELECT $1::int + %d", n), turn)
			That(got == turn+n, "%d + %d is %d", turn, n, got)
		}
		swap(rival)
		That(ask[int](c, "SELECT $1::int + 0", turn) == turn, "not %d", turn)
		That(ask[int](c, "named", turn) == turn+100, "not %d", turn+100)
		exec(rival, "ROLLBACK")
	}
	Must(c.Deallocate(ctx, "named"))
	Must(c.Close(ctx))
	Must(rival.Close(ctx))
}

// The other ways to run a query that pgx has, as its manual names them for poolers.
func modes() {
	c := connect()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for n := 0; n < 3; n++ {
			got := ask[int](c, "SELECT $1::int", mode, n)
			That(got == n, "%v: %d is %d", mode, n, got)
		}
	}
	Must(c.Close(ctx))
}

func temporary() {
	c, rival := connect(), connect()
	defer c.Close(ctx)
	defer c.Exec(ctx, "DISCARD TEMP")
	defer rival.Close(ctx)
	exec(c, "CREATE TEMPORARY TABLE mine (n int)")
	swap(rival)
	ask[int](c, "SELECT count(*) FROM mine")
}

func reconnect() {
	c := connect()
	_, err := c.Exec(ctx, Terminate)
	expect("57P01", err)
	That(c.IsClosed(), "still open")
	c = connect()
	That(ask[int](c, "SELECT 1") == 1, "not 1")
	Must(c.Close(ctx))
}

func workers() {
	Together(Workers, func(number int) {
		c := connect()
		for turn := 0; turn < Rounds; turn++ {
			key := 100000 + number*Rounds + turn
			Must(pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO drive VALUES ($1, 'workers')", key); err != nil {
					return err
				}
				var t string
				return tx.QueryRow(ctx, "SELECT t FROM drive WHERE n = $1", key).Scan(&t)
			}))
		}
		Must(c.Close(ctx))
	})
	pool := Got(pgxpool.New(ctx, ""))
	var count int
	Must(pool.QueryRow(ctx, "SELECT count(*) FROM drive WHERE t = 'workers'").Scan(&count))
	That(count == Workers*Rounds, "%d rows", count)
	pool.Close()
}

func listen() {
	c, other := connect(), connect()
	exec(c, "LISTEN weir")
	exec(other, "NOTIFY weir, 'high'")
	heard := Got(c.WaitForNotification(ctx))
	That(heard.Payload == "high", "%s", heard.Payload)
	Must(c.Close(ctx))
	Must(other.Close(ctx))
}

func main() {
	// libpq's word for the file that pgx takes by another one is the same
	if os.Getenv("PGSSLMODE") == "disable" {
		os.Unsetenv("PGSSLROOTCERT")
	}
	checks := []Check{
		Named("open", open), Named("types", types), Named("transaction", transaction),
		Named("error", fail), Named("batch", batch), Named("copy", copying),
		Named("cancel", cancel), Named("deadline", deadline), Named("large", large),
		Named("prepared", prepared), Named("modes", modes), Named("temporary", temporary),
		Named("reconnect", reconnect), Named("workers", workers),
	}
	if Session {
		checks = append(checks, Named("listen", listen))
	}
	Run(code, checks)
}
