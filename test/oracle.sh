#!/bin/sh
#
# Two oracles of what SQL texts do, against pgweir with session_state = full: sh test/oracle.sh [OPTION...]
#
#	--minutes N	as long as this (default 1), besides building
#	--seed S	of the random texts and of the order of scripts (default: drawn, and printed)
#	--build-dir DIR	build there and keep it
#	--in DIR	build in this directory, which is configured with --enable-sanitizers
#	--all		first PostgreSQL's regression suite and the drivers' tests with the oracle of sessions (test/regress.sh
#			and test/drivers.sh, which download more)
#
# The oracle of texts (test/oracle/texts.c, with libpg_query) compares what the recogniser sees in a text with PostgreSQL's
# scanner and grammar: texts of PostgreSQL's regression suite (from Debian's source package), of sqlsmith, and of a fuzzer that
# changes them.
#
# The oracle of sessions (test/oracle/oracle.c) is a pgweir that asks each server that a client has left for all state, before the
# next client gets it, and ends if there is any that pgweir does not know. pgbench's clients run test/oracle/steps.sql in simple and
# extended protocol, two clients the scripts of the regression suite, in random order and with errors, and sqlsmith its queries.
#
# The last line counts; the status is 0 only if nothing failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"
. "$top/test/postgres_source.sh"

minutes=1
seed=
all=no
build=
take_option() {
	taken=2
	case $1 in
	--minutes) minutes=$2 ;;
	--seed) seed=$2 ;;
	--in) build=$2 ;;
	--all) all=yes taken=1 ;;
	*) fail "unknown option $1" "sh $0 --help" ;;
	esac
}
. "$top/test/options.sh"
[ "$minutes" -gt 0 ] 2>/dev/null || fail "--minutes wants a number" "sh $0 --help"
[ -n "$seed" ] || seed=$(($(date +%s) % 1000000))
say "Seed $seed"

passed=0
failed=0
# STATUS WHAT
count() {
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		say "FAILED: $2"
	fi
}

# ---- Requirements

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES postgresql sqlsmith libpg-query-dev bzip2 xz-utils
postgres_find
setup_room
setup_builds
suite=$builds/suite
if [ ! -e "$suite/src/test/regress/sql/test_setup.sql" ]; then
	fetch_postgres "$suite" '*/src/test/regress/sql' '*/src/test/regress/data' '*/src/pl/*/sql' '*/contrib/*/sql'
fi
say "Building"
if [ -z "$build" ]; then
	build=$builds/oracle
	rm -rf "$builds/oracle-source"
	(
		room=$builds
		setup_copy oracle-source
	)
	as_account mkdir -p "$build"
	as_account sh -c 'cd "$1" && autoreconf -fi' sh "$builds/oracle-source" >"$room/build.log" 2>&1 || fail "autoreconf failed"
	[ -e "$build/config.status" ] || build_step ../oracle-source/configure -q CC=gcc CFLAGS="-O1 -g1" --enable-sanitizers
fi
build_step make -s -j"$(nproc)" test/oracle/pgweir test/oracle/texts

if [ "$all" = yes ]; then
	say "PostgreSQL's regression suite with the oracle of sessions"
	sh "$top/test/regress.sh" --oracle && status=0 || status=1
	count "$status" "regress.sh --oracle"
	say "Drivers with the oracle of sessions"
	sh "$top/test/drivers.sh" --oracle --build-dir "$builds/drivers" drivers/test_drivers.py && status=0 || status=1
	count "$status" "drivers.sh --oracle"
fi

# ---- PostgreSQL, and pgweir in front of it

postgres_start "$room/data" "$(free_port)" -c max_connections=60 -c max_prepared_transactions=2 -c log_min_messages=fatal
port=$((pgport + 1))
while port_is_taken "$port"; do port=$((port + 1)); done
PGPASSWORD=$postgres_password
export PGPASSWORD
direct() {
	as_account "$pgbin/psql" -X -q -h 127.0.0.1 -p "$pgport" -U postgres "$@"
}
direct -c "CREATE DATABASE regression TEMPLATE template0" -c "CREATE ROLE app LOGIN PASSWORD '$postgres_password'" \
	-c "ALTER DATABASE regression SET bytea_output TO 'hex'" postgres
direct -c "CREATE SCHEMA app AUTHORIZATION app" -c "SET ROLE app" -c "CREATE TABLE app.a (n int, t text, j jsonb, d timestamptz)" \
	-c "CREATE TABLE app.b (n numeric, a int[], s tsvector)" -c "CREATE SEQUENCE app.s" -c "CREATE TABLE app.c (id serial, t text)" \
	-c "CREATE FUNCTION app.enter(v text) RETURNS text LANGUAGE sql AS 'SELECT set_config(''app.tenant'', v, false)'" \
	-c "RESET ROLE" -c "CREATE ROLE tenant" -c "GRANT tenant TO app" -c "GRANT ALL ON SCHEMA app TO tenant" postgres
as_account sh -c 'printf "\"%s\" \"%s\"\n" postgres "$2" app "$2" >"$1"' sh "$room/userlist.txt" "$postgres_password"
as_account sh -c 'cat > "$1"' sh "$room/pgweir.ini" <<-INI
	[databases]
	* = host=127.0.0.1 port=$pgport
	[pgweir]
	listen_addr = 127.0.0.1
	listen_port = $port
	unix_socket_dir =
	auth_type = scram-sha-256
	auth_file = $room/userlist.txt
	logfile = $room/pgweir.log
	pidfile = $room/pgweir.pid
	pool_mode = transaction
	session_state = full
	default_pool_size = 7
	server_round_robin = 1
	query_wait_timeout = 5
	max_client_conn = 100
INI
as_account "$build/test/oracle/pgweir" -d -q "$room/pgweir.ini" || {
	tail -n 10 "$room/pgweir.log" >&2
	fail "pgweir did not start"
}
pid=$(cat "$room/pgweir.pid")
at_exit 'kill -QUIT "$pid" 2>/dev/null || :'

# ---- The oracle of texts

say "The oracle of texts"
as_account sh -c 'timeout 60 sqlsmith --target="$1" --dry-run --dump-all-queries --max-queries=300 --seed="$2" >"$3" 2>/dev/null || :' \
	sh "host=127.0.0.1 port=$pgport user=app dbname=postgres" "$seed" "$room/sqlsmith.sql"
# a third of the time
as_account find "$suite" -name '*.sql' -print0 >"$room/scripts"
as_account sh -c 'ASAN_OPTIONS=detect_leaks=0 xargs -0 "$@" <"$0"' "$room/scripts" "$build/test/oracle/texts" --mutations 3 --seed "$seed" \
	--seconds $((minutes * 20)) "$room/sqlsmith.sql" >"$room/texts.log" 2>&1 && status=0 || status=1
[ "$status" = 0 ] || head -c 20000 "$room/texts.log"
tail -n 1 "$room/texts.log"
count "$status" "texts"

# ---- The oracle of sessions

# sqlsmith calls functions that may do anything: where these are, all texts are unproven for a while, and nothing is judged
direct -c "CREATE DATABASE smith TEMPLATE postgres" template1
end=$(($(date +%s) + minutes * 40))

# CLIENT: runs the scripts in an order of its own until the time is over. Errors of SQL are part of it.
run_scripts() {
	find "$suite/src/test/regress/sql" -name '*.sql' | sort | shuf --random-source="$room/random.$1" | while read -r script; do
		[ "$(date +%s)" -lt "$end" ] && kill -0 "$pid" 2>/dev/null || break
		as_account env PG_ABS_SRCDIR="$suite/src/test/regress" PG_LIBDIR=/nonexistent PG_DLSUFFIX=.so timeout 20 \
			"$pgbin/psql" -X -q -a -h 127.0.0.1 -p "$port" -U postgres -f "$script" regression >/dev/null 2>&1 || :
	done
}

say "The oracle of sessions"
as_account env PG_ABS_SRCDIR="$suite/src/test/regress" PG_LIBDIR=/nonexistent PG_DLSUFFIX=.so timeout 30 "$pgbin/psql" -X -q -h 127.0.0.1 \
	-p "$port" -U postgres -f "$suite/src/test/regress/sql/test_setup.sql" regression >/dev/null 2>&1 || :
as_account sh -c 'timeout "$1" sqlsmith --target="$2" --seed="$3" --exclude-catalog >/dev/null 2>&1 || :' sh $((minutes * 40)) \
	"host=127.0.0.1 port=$port user=app dbname=smith" "$seed" &
smith=$!
# each line of the steps is a script
awk -v to="$room/step." 'NF && !/^--/ { n += 1; file = to n ".sql"; print >file; close(file) }' "$top/test/oracle/steps.sql"
chmod a+r "$room"/step.*.sql
# After a table is created or dropped, functions are read again, at most once a second, and until then nothing is judged. Steps that
# do so have a rate of their own: at the speed of the others, a faster machine would ask fewer questions. There are more clients than
# servers in the pool: a client that has values of a sequence keeps its server until another client waits.
steps= rare=
for step in "$room"/step.*.sql; do
	if grep -q -e TEMP -e DISCARD "$step"; then
		rare="$rare -f $step"
	else
		steps="$steps -f $step"
	fi
done
runners=
# PROTOCOL NAME OPTION...
run_steps() {
	protocol=$1 name=$2
	shift 2
	as_account "$pgbin/pgbench" -n -h 127.0.0.1 -p "$port" -U app -M "$protocol" -T $((minutes * 35)) --random-seed="$seed" "$@" \
		postgres >"$room/pgbench.$protocol.$name.log" 2>&1 &
	runners="$runners $!"
}
for protocol in simple extended; do
	# shellcheck disable=SC2086
	run_steps "$protocol" often -c 5 $steps
	# shellcheck disable=SC2086
	run_steps "$protocol" rarely -c 1 --rate=0.3 $rare
done
for client in 1 2; do
	# enough random bytes for shuf
	yes "$seed $client" | head -c 100000 >"$room/random.$client"
	run_scripts "$client" &
	runners="$runners $!"
done
# shellcheck disable=SC2086
wait $runners $smith || :
asked=$(sed -n 's/.* oracle has asked //p' "$room/pgweir.log" | tail -n 1)
echo "at least ${asked:-0} questions, $(grep -c 'oracle has no answer' "$room/pgweir.log" || :) without an answer"
kill -0 "$pid" 2>/dev/null && ! grep -q -e ' oracle: ' -e 'FATAL bug' "$room/pgweir.log" && [ "${asked:-0}" -ge 512 ] && status=0 || status=1
[ "$status" = 0 ] || grep -a -e 'oracle: ' -e 'FATAL' -e 'oracle has' "$room/pgweir.log" | tail -n 20
count "$status" "sessions"
[ "$failed" = 0 ] || say "To repeat: sh test/oracle.sh --minutes $minutes --seed $seed"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
