"""
Functions of every program here: the connection to pgweir, the list of checks, and the report.

The environment has the variables of libpq (PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGSSLMODE, PGSSLROOTCERT) and

- DRIVER_MODE: session or transaction, the pool mode of pgweir
- DRIVER_VARIANT: default: the driver's defaults; cache: with prepared statements as early and as often as possible

Each check prints one line, "ok NAME", "skip NAME: WHY" or "error NAME: SQLSTATE TEXT"; test_drivers.py compares them with the promises of
doc/drivers.md. The table drive (n int PRIMARY KEY, t text) exists and is empty.
"""
import os
import sys
import threading
import traceback

HOST = os.environ["PGHOST"]
PORT = int(os.environ["PGPORT"])
USER = os.environ["PGUSER"]
PASSWORD = os.environ["PGPASSWORD"]
DATABASE = os.environ["PGDATABASE"]
TLS = os.environ["PGSSLMODE"] != "disable"
ROOT = os.environ.get("PGSSLROOTCERT")
SESSION = os.environ["DRIVER_MODE"] == "session"
CACHE = os.environ["DRIVER_VARIANT"] == "cache"

WORKERS = 100
ROUNDS = 5
LARGE = 10 * 1000 * 1000
SLEEP = "SELECT pg_sleep(3600)"
RUNNING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND starts_with(query, 'SELECT pg_sleep(3600)')" \
          " AND state = 'active' AND wait_event = 'PgSleep'"
TERMINATE = "SELECT pg_terminate_backend(pg_backend_pid())"


class Skip(Exception):
    """The driver has no such thing."""


def sqlstate(error):
    """Returns the SQLSTATE of an error, under the name that each driver uses; for a wrapped error, the SQLSTATE of the inner error."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            if getattr(error, name, None):
                return getattr(error, name)
        if error.args and isinstance(error.args[0], dict) and "C" in error.args[0]:
            return error.args[0]["C"]
        error = getattr(error, "orig", None) or error.__cause__
    return "-----"


def expect(code, work):
    """Checks that the work fails, with this code if it is given."""
    try:
        work()
    except Exception as error:      # pylint: disable=broad-except
        got = sqlstate(error)
        assert code in (None, got), "%s instead of %s: %s" % (got, code, error)
    else:
        raise AssertionError("no error, where there should be %s" % code)


def said(error):
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def report(name, error):
    if error is None:
        print("ok " + name)
    elif isinstance(error, Skip):
        print("skip %s: %s" % (name, error))
    else:
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
        print("error %s: %s %s" % (name, sqlstate(error), said(error)))
    sys.stdout.flush()


def run(checks):
    """Runs functions in order; a check is named after its function."""
    for check in checks:
        error = None
        try:
            check()
        except Exception as fault:      # pylint: disable=broad-except
            error = fault
        report(check.__name__, error)


def wait_for(is_so):
    """Repeats a round trip until the condition holds. A timeout outside of the program ends an endless wait."""
    while not is_so():
        pass


def in_threads(count, work):
    """work(0) to work(count - 1), each in a thread of its own; the first error of any."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except Exception as error:      # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
