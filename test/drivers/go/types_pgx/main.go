// pgx, its pool and its prepared statements, for the test of type changes: ../../python/type_changes.py describes the lines that are read and printed.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func open() *pgxpool.Pool {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		panic(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		panic(err)
	}
	return pool
}

func run(pool *pgxpool.Pool, sql string, arguments ...any) string {
	var rows []string
	found, err := pool.Query(context.Background(), sql, arguments...)
	if err == nil {
		for found.Next() {
			values, failed := found.Values()
			if failed != nil {
				return "error " + failed.Error()
			}
			var row []string
			for _, value := range values {
				row = append(row, fmt.Sprintf("%T:%v", value, value))
			}
			rows = append(rows, strings.Join(row, ","))
		}
		err = found.Err()
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return "error " + server.Code
	}
	if err != nil {
		return "error " + err.Error()
	}
	return "ok " + strings.Join(rows, ";")
}

func main() {
	pool := open()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, sql, _ := strings.Cut(lines.Text(), " ")
		if verb == "fresh" {
			pool.Close()
			pool = open()
		}
		var arguments []any
		if strings.Contains(sql, "$1") {
			arguments = append(arguments, 7)
		}
		fmt.Println(run(pool, sql, arguments...))
	}
}
