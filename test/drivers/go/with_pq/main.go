// lib/pq under database/sql: the unnamed statement for queries with values; in variant cache db.Prepare, which keeps a
// named statement on each connection of its pool.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "drivers/check"

	"github.com/lib/pq"
)

var ctx = context.Background()

func pool(size int) *sql.DB {
	db := Got(sql.Open("postgres", ""))
	db.SetMaxOpenConns(size)
	return db
}

// conn is one connection, out of a pool that goes with it.
func conn() (*sql.Conn, func()) {
	db := pool(1)
	c := Got(db.Conn(ctx))
	return c, func() {
		Must(c.Close())
		Must(db.Close())
	}
}

type asked interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

var (
	kept  = map[asked]map[string]*sql.Stmt{}
	guard sync.Mutex
)

// ask returns the first column of the first row. In variant cache the statement is kept.
func ask[T any](c asked, text string, values ...any) (value T) {
	if !Cache {
		Must(c.QueryRowContext(ctx, text, values...).Scan(&value))
		return value
	}
	guard.Lock()
	if kept[c] == nil {
		kept[c] = map[string]*sql.Stmt{}
	}
	statement := kept[c][text]
	guard.Unlock()
	if statement == nil {
		statement = Got(c.PrepareContext(ctx, text))
		guard.Lock()
		kept[c][text] = statement
		guard.Unlock()
	}
	Must(statement.QueryRowContext(ctx, values...).Scan(&value))
	return value
}

func code(err error) string {
	var server *pq.Error
	if errors.As(err, &server) {
		return string(server.Code)
	}
	return "-----"
}

func expect(want string, err error) {
	That(err != nil && (want == "" || code(err) == want), "%v where there should be %s", err, want)
}

func exec(c *sql.Conn, text string, values ...any) {
	Got(c.ExecContext(ctx, text, values...))
}

// swap lets another client take the server that was released last.
func swap(rival *sql.Conn) {
	exec(rival, "BEGIN")
	exec(rival, "SELECT 1")
}

func open() {
	c, end := conn()
	defer end()
	user := ask[string](c, "SELECT current_user::text")
	name := ask[string](c, "SELECT current_database()::text")
	That(user == User && name == Name, "%s in %s", user, name)
}

func types() {
	c, end := conn()
	defer end()
	when := time.Date(2026, 11, 21, 2, 1, 23, 820000000, time.UTC)
	var (
		whole    int64
		fraction float64
		text     string
		truth    bool
		null     sql.NullString
		number   string
		array    []int64
		raw      []byte
		moment   time.Time
	)
	Must(c.QueryRowContext(ctx, "SELECT $1::int8, $2::float8, $3::text, $4::bool, $5::text, $6::numeric, $7::int4[], "+
		"$8::bytea, $9::timestamptz", int64(9007199254740993), -1.5, "häßlich, it's ☃", true, nil, "123.450",
		pq.Array([]int64{1, 2, -3}), []byte{0, 1, 254, 255}, when).
		Scan(&whole, &fraction, &text, &truth, &null, &number, pq.Array(&array), &raw, &moment))
	That(whole == 9007199254740993 && fraction == -1.5 && text == "häßlich, it's ☃" && truth && !null.Valid &&
		number == "123.450" && fmt.Sprint(array) == "[1 2 -3]" && string(raw) == "\x00\x01\xfe\xff" && moment.Equal(when),
		"came back: %v %v %v %v %v %v %v %v %v", whole, fraction, text, truth, null, number, array, raw, moment)
}

func transaction() {
	c, end := conn()
	defer end()
	insert := "INSERT INTO drive VALUES ($1, 'transaction')"
	tx := Got(c.BeginTx(ctx, nil))
	Got(tx.Exec(insert, 1))
	Must(tx.Rollback())
	tx = Got(c.BeginTx(ctx, nil))
	Got(tx.Exec(insert, 2))
	Got(tx.Exec("SAVEPOINT here"))
	Got(tx.Exec(insert, 3))
	Got(tx.Exec("ROLLBACK TO here"))
	Must(tx.Commit())
	count := ask[int](c, "SELECT count(*) FROM drive WHERE t = 'transaction'")
	That(count == 1, "%d rows", count)
}

func fail() {
	c, end := conn()
	defer end()
	insert := "INSERT INTO drive VALUES ($1, 'error')"
	exec(c, insert, 4)
	_, err := c.ExecContext(ctx, insert, 4)
	expect("23505", err)
	_, err = c.ExecContext(ctx, "SELEC 1")
	expect("42601", err)
	tx := Got(c.BeginTx(ctx, nil))
	_, err = tx.Exec("SELECT 1 / $1::int", 0)
	expect("22012", err)
	_, err = tx.Exec("SELECT 1")
	expect("25P02", err)
	Must(tx.Rollback())
	That(ask[int](c, "SELECT 1") == 1, "not 1")
}

func copying() {
	c, end := conn()
	defer end()
	into := func(keys ...int) error {
		tx := Got(c.BeginTx(ctx, nil))
		statement := Got(tx.Prepare("COPY drive (n, t) FROM STDIN"))
		for _, n := range keys {
			if _, err := statement.Exec(n, fmt.Sprintf("copy %d", n)); err != nil {
				Must(tx.Rollback())
				return err
			}
		}
		_, err := statement.Exec()
		if err != nil {
			Must(tx.Rollback())
			return err
		}
		Must(statement.Close())
		return tx.Commit()
	}
	keys := make([]int, 10000)
	for n := range keys {
		keys[n] = 20000 + n
	}
	Must(into(keys...))
	count := ask[int](c, "SELECT count(*) FROM drive WHERE starts_with(t, 'copy')")
	That(count == len(keys), "%d rows", count)
	expect("23505", into(20000))
	That(ask[int](c, "SELECT 1") == 1, "not 1")
}

// A context that ends sends a request to cancel.
func cancel() {
	c, end := conn()
	watcher, endWatcher := conn()
	defer endWatcher()
	short, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := c.ExecContext(short, Sleep)
		done <- err
	}()
	WaitFor(func() bool { return ask[int](watcher, Running) == 1 })
	stop()
	That(<-done != nil, "no error")
	WaitFor(func() bool { return ask[int](watcher, Running) == 0 })
	end()
}

func large() {
	c, end := conn()
	defer end()
	text := strings.Repeat("x", Large)
	That(ask[string](c, "SELECT $1::text", text) == text, "another text")
	That(ask[int](c, "SELECT length($1::text)", text) == Large, "another length")
}

func prepared() {
	c, end := conn()
	defer end()
	rival, endRival := conn()
	defer endRival()
	for turn := 0; turn < 7; turn++ {
		for n := 0; n < 10; n++ {
			got := ask[int](c, fmt.Sprintf("SELECT $1::int + %d", n), turn)
			That(got == turn+n, "%d + %d is %d", turn, n, got)
		}
		swap(rival)
		That(ask[int](c, "SELECT $1::int + 0", turn) == turn, "not %d", turn)
		exec(rival, "ROLLBACK")
	}
	for _, statement := range kept[c] {
		Must(statement.Close())
	}
}

func temporary() {
	c, end := conn()
	defer end()
	rival, endRival := conn()
	defer endRival()
	exec(c, "CREATE TEMPORARY TABLE mine (n int)")
	defer c.ExecContext(ctx, "DISCARD TEMP")
	swap(rival)
	defer rival.ExecContext(ctx, "ROLLBACK")
	ask[int](c, "SELECT count(*) FROM mine")
}

func reconnect() {
	db := pool(1)
	_, err := db.Exec(Terminate)
	expect("", err)
	var one int
	Must(db.QueryRow("SELECT 1").Scan(&one))
	Must(db.Close())
}

func workers() {
	db := pool(Workers)
	Together(Workers, func(number int) {
		for turn := 0; turn < Rounds; turn++ {
			key := 100000 + number*Rounds + turn
			tx := Got(db.Begin())
			Got(tx.Exec("INSERT INTO drive VALUES ($1, 'workers')", key))
			var t string
			Must(tx.QueryRow("SELECT t FROM drive WHERE n = $1", key).Scan(&t))
			Must(tx.Commit())
		}
	})
	Must(db.Close())
	db = pool(3)
	count := ask[int](db, "SELECT count(*) FROM drive WHERE t = 'workers'")
	That(count == Workers*Rounds, "%d rows", count)
	Must(db.Close())
}

func listen() {
	other, end := conn()
	defer end()
	listener := pq.NewListener("", 10*time.Millisecond, time.Second, nil)
	Must(listener.Listen("weir"))
	exec(other, "NOTIFY weir, 'high'")
	for heard := range listener.Notify {
		if heard != nil {
			That(heard.Extra == "high", "%s", heard.Extra)
			break
		}
	}
	Must(listener.Close())
}

func main() {
	if os.Getenv("PGSSLMODE") == "disable" {
		os.Unsetenv("PGSSLROOTCERT")
	}
	checks := []Check{
		Named("open", open), Named("types", types), Named("transaction", transaction),
		Named("error", fail), Named("copy", copying), Named("cancel", cancel),
		Named("large", large), Named("prepared", prepared), Named("temporary", temporary),
		Named("reconnect", reconnect), Named("workers", workers),
	}
	if Session {
		checks = append(checks, Named("listen", listen))
	}
	Run(code, checks)
}
