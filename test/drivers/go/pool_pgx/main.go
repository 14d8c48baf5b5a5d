// A pool of pgx whose workers write numbers until standard input ends: see test_pools.py.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

const workers = 6

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, fmt.Sprintf("pool_max_conns=%d", workers))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var last atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	for range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for !over.Load() {
				number := last.Add(1)
				if _, err := pool.Exec(ctx, "INSERT INTO numbers VALUES ($1, 0)", number); err != nil {
					fmt.Println("error", err)
				} else {
					fmt.Println(number)
				}
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	all.Wait()
	pool.Close()
}
