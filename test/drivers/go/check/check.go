// Package check is what both programs need: how to say what came of a check. python/check.py describes the environment
// and the lines that are printed.
package check

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	Workers   = 100
	Rounds    = 5
	Large     = 10 * 1000 * 1000
	Sleep     = "SELECT pg_sleep(3600)"
	Terminate = "SELECT pg_terminate_backend(pg_backend_pid())"
	Running   = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND " +
		"starts_with(query, 'SELECT pg_sleep(3600)') AND state = 'active' AND wait_event = 'PgSleep'"
)

var (
	Session = os.Getenv("DRIVER_MODE") == "session"
	Cache   = os.Getenv("DRIVER_VARIANT") == "cache"
	User    = os.Getenv("PGUSER")
	Name    = os.Getenv("PGDATABASE")
)

// A Check has a name and fails by panicking with an error.
type Check struct {
	Name string
	Work func()
}

func Named(name string, work func()) Check {
	return Check{name, work}
}

// Run runs them in order. code tells the SQLSTATE of an error.
func Run(code func(error) string, checks []Check) {
	for _, c := range checks {
		err := try(c.Work)
		if err == nil {
			fmt.Println("ok " + c.Name)
			continue
		}
		text, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Printf("error %s: %s %s\n", c.Name, code(err), text)
	}
}

// try runs it and returns what it panicked with, if that is an error; other panics are faults of the program.
func try(work func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fault.(error)
		}
	}()
	work()
	return nil
}

// Must panics when there is an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Got is Must for what returns a value, too.
func Got[T any](value T, err error) T {
	Must(err)
	return value
}

// That panics unless it is so.
func That(isSo bool, format string, arguments ...any) {
	if !isSo {
		panic(fmt.Errorf(format, arguments...))
	}
}

// WaitFor asks until it is so.
func WaitFor(isSo func() bool) {
	for !isSo() {
		time.Sleep(10 * time.Millisecond)
	}
}

// Together runs work(0) to work(count - 1) at the same time, and panics with the first error of any.
func Together(count int, work func(number int)) {
	errors := make(chan error, count)
	var all sync.WaitGroup
	for number := 0; number < count; number++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := try(func() { work(number) }); err != nil {
				errors <- err
			}
		}()
	}
	all.Wait()
	close(errors)
	for err := range errors {
		panic(err)
	}
}
