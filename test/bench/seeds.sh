#!/bin/sh
#
# The usual comparisons of poolers, with pgbench against a real PostgreSQL: direct, through pgweir, through
# Debian's PgBouncer, and through Pgpool-II where a published comparison includes it. One table each; `published` has the
# published results of other machines, so only ratios can be compared.
#
# The columns of a row are measured in turns: each round begins with a different column, so that a noisy minute affects all columns. A cell is
# the median of the rounds, and a ratio is computed from two such cells.
#
#	sh test/bench/seeds.sh [--rounds N] [--seconds N] [--scale N] [--megabytes N] [--only LIST]
#
#	--rounds N	measurements of each cell (3)
#	--seconds N	length of each measurement (2)
#	--scale N	size of pgbench's tables (10)
#	--megabytes N	size of the large result of table 6 (512)
#	--only LIST	only these tables, for example 1,4
#
# Every client authenticates with SCRAM; poolers know only its SCRAM secret (Pgpool-II can't, and has the password).
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/etc/setup.sh"

rounds=3 seconds=2 scale=10 megabytes=512 only=1,2,3,4,5,6,7
while [ $# -gt 0 ]; do
	case $1 in
	--rounds | --seconds | --scale | --megabytes | --only) [ $# -gt 1 ] || fail "$1 wants a value" "sh $0 --help" ;;
	esac
	case $1 in
	--rounds) rounds=$2 ;;
	--seconds) seconds=$2 ;;
	--scale) scale=$2 ;;
	--megabytes) megabytes=$2 ;;
	--only) only=$2 ;;
	-h | --help)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	*) fail "\"$1\" is no option" "sh $0 --help" ;;
	esac
	shift 2
done

# ---- Servers

# NAME LOG TEXT: returns when the log, which may not be there yet, has a line with this text
wait_line() {
	mkfifo "$room/lines"
	timeout 20 tail -n +1 -F "$2" >"$room/lines" 2>/dev/null &
	follower=$!
	grep -q -m 1 "$3" <"$room/lines" || {
		tail -n 10 "$2" >&2
		fail "$1 is not ready after 20 seconds" "read the lines above"
	}
	kill "$follower" 2>/dev/null || :
	wait "$follower" 2>/dev/null || :
	rm "$room/lines"
}

# MODE POOL-SIZE [MORE LINES]: the configuration of pgweir and PgBouncer, the same file for both, for the next rows
configure() {
	pool_mode=$1 pool_size=$2 more=${3:-}
}

pooler_start() { # NAME PORT PROGRAM
	as_account mkdir -p "$room/$1"
	rm -f "$room/$1/log"
	as_account sh -c 'cat > "$1"' sh "$room/$1/ini" <<-INI
		[databases]
		* = host=127.0.0.1 port=$direct_port
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $2
		unix_socket_dir =
		auth_type = scram-sha-256
		auth_file = $room/userlist.txt
		logfile = $room/$1/log
		pidfile = $room/$1/pid
		max_client_conn = 1000
		log_connections = 0
		log_disconnections = 0
		pool_mode = $pool_mode
		default_pool_size = $pool_size
		$more
	INI
	as_account "$3" -d -q "$room/$1/ini" >"$room/$1/start" 2>&1 || {
		tail -n 10 "$room/$1/start" "$room/$1/log" >&2
		fail "$1 did not start" "read the lines above"
	}
	wait_line "$1" "$room/$1/log" "process up"
}

# NAME SIGNAL: ends it, if it runs
pooler_stop() {
	if [ -s "$room/$1/pid" ]; then
		pid=$(head -n 1 "$room/$1/pid")
		kill "-$2" "$pid" 2>/dev/null || :
		timeout 20 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || :
		rm -f "$room/$1/pid"
	fi
}

pgpool_start() {
	as_account mkdir -p "$room/pgpool"
	as_account sh -c 'umask 077; cat > "$1"' sh "$room/pgpool/passwd" <<-PASSWD
		app:TEXT$PGPASSWORD
	PASSWD
	as_account sh -c 'echo "host all all 127.0.0.1/32 scram-sha-256" > "$1"' sh "$room/pgpool/hba"
	as_account sh -c 'cat > "$1"' sh "$room/pgpool/conf" <<-CONF
		backend_clustering_mode = 'raw'
		backend_hostname0 = '127.0.0.1'
		backend_port0 = $direct_port
		listen_addresses = '127.0.0.1'
		port = $pgpool_port
		pcp_port = $pcp_port
		socket_dir = '$room/pgpool'
		pcp_socket_dir = '$room/pgpool'
		pid_file_name = '$room/pgpool/pid'
		logdir = '$room/pgpool'
		enable_pool_hba = on
		pool_passwd = '$room/pgpool/passwd'
		num_init_children = 97
		max_pool = 1
		sr_check_period = 0
	CONF
	: >"$room/pgpool.key"
	as_account "$(command -v pgpool || echo /usr/sbin/pgpool)" -n -f "$room/pgpool/conf" -a "$room/pgpool/hba" \
		-k "$room/pgpool.key" >"$room/pgpool.log" 2>&1 &
	wait_line pgpool "$room/pgpool.log" "successfully started"
}

forwarder_start() {
	as_account mkdir -p "$room/forwarder"
	as_account sh -c 'echo $$ >"$1/pid"; exec "$2" "$3" "$4"' sh \
		"$room/forwarder" "$build/test/bench/blind" "$pgweir_port" "$direct_port" 2>"$room/forwarder/log" &
	tries=0
	until port_is_taken "$pgweir_port"; do
		tries=$((tries + 1))
		[ "$tries" -lt 10000 ] || fail "the forwarder does not listen" "read $room/forwarder/log"
	done
}

# In each cell only one of them runs: idle connections of another would take part of max_connections.
place_start() {
	case $where in
	pgweir) pooler_start pgweir "$pgweir_port" "$build/pgweir" ;;
	sleeping)
		used=$more more="$more
busy_poll = off"
		pooler_start pgweir "$pgweir_port" "$build/pgweir"
		more=$used
		;;
	forwarder) forwarder_start ;;
	PgBouncer) pooler_start pgbouncer "$pgbouncer_port" "$(command -v pgbouncer || echo /usr/sbin/pgbouncer)" ;;
	Pgpool-II) pgpool_start ;;
	esac
}
place_stop() {
	pooler_stop pgweir QUIT
	pooler_stop pgbouncer QUIT
	pooler_stop forwarder TERM
	pooler_stop pgpool INT
	# their connections are closed, but the backends take a moment to notice: returns when they are gone
	superuser -c "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE usename = 'app'" >/dev/null
}

port_of() {
	case $1 in
	direct) echo "$direct_port" ;;
	pgweir | sleeping | forwarder) echo "$pgweir_port" ;;
	PgBouncer) echo "$pgbouncer_port" ;;
	Pgpool-II) echo "$pgpool_port" ;;
	esac
}

# ---- Tables

table() { # TITLE COLUMN...
	printf '\n%s\n\n' "$1"
	shift
	columns=$*
	notes=
	row_print "" "$@" "pgweir to the others" published
}

row_print() {
	printf '%-26s' "$1"
	shift
	for cell in "$@"; do printf ' | %-28s' "$cell"; done
	echo
}

# TEXT: why a cell has no number, in full under the table
note() {
	case $notes in
	*"$1"*) ;;
	*) notes="$notes  $1
" ;;
	esac
}
table_end() {
	[ -z "$notes" ] || printf '\n%s' "$notes"
}

# ROUND: the columns, with a different first column in each round
columns_in_round() {
	echo "$columns" | awk -v first="$1" '{ for (i = 0; i < NF; i++) print $((i + first) % NF + 1) }'
}

# PLACE: the median of its measurements, with the text after the number
median_of() {
	awk -F '\t' -v place="$1" '$1 == place { print $2 }' "$room/cells" | sort -n |
		awk '{ line[NR] = $0 } END { print line[int((NR + 1) / 2)] }'
}

# The medians of pgweir divided by the medians of each other place.
ratios() {
	for where in $columns; do
		[ "$where" != pgweir ] || continue
		printf '%s\t%s\t%s\n' "$where" "$(median_of pgweir)" "$(median_of "$where")"
	done | awk -F '\t' '$2 + 0 > 0 && $3 + 0 > 0 { printf "%s%s %.2f", sep, $1, $2 / $3; sep = ", " }'
}

# NAME PUBLISHED MEASURE ARGUMENT...: one row; MEASURE sets `cell` for the place in $where
row() {
	name=$1 published=$2
	shift 2
	: >"$room/cells"
	round=0
	while [ "$round" -lt "$rounds" ]; do
		for where in $(columns_in_round "$round"); do
			place_start
			"$@"
			place_stop
			printf '%s\t%s\n' "$where" "$cell" >>"$room/cells"
		done
		round=$((round + 1))
	done
	cells=
	for where in $columns; do
		cells="$cells$(median_of "$where")	"
	done
	cells="$cells$(ratios)	"
	old_ifs=$IFS
	IFS='	'
	# shellcheck disable=SC2086
	row_print "$name" $cells "$published"
	IFS=$old_ifs
}

# PGBENCH-OPTION...: sets `cell` to the transactions per second, and `output`
tps() {
	output=$room/pgbench.log
	if as_account pgbench -n -h 127.0.0.1 -p "$(port_of "$where")" -U app -T "$seconds" "$@" app >"$output" 2>&1; then
		cell="$(sed -n 's/^tps = \([0-9]*\)\(\.[0-9]\).*/\1\2/p' "$output") tps"
	else
		cell='fails (below)'
		note "$where: $(grep -oE '(FATAL|ERROR):.*|server closed.*|Connection refused' "$output" | sort | uniq -c |
			sort -rn | sed -n '1s/^ *[0-9]* *//p')"
	fi
}

# As tps, with the milliseconds of each statement of the script.
tps_statements() {
	tps "$@" -r
	cell="$cell $(sed -n 's/^ *\([0-9.]*\) .*\(BEGIN\|SELECT\|COMMIT\).*/\1/p' "$output" | tr '\n' ' ')"
}

# FILE: sets `cell` to the output rate of psql with this SQL file, in MB/s
megabytes_per_second() {
	begin=$(date +%s%N)
	bytes=$(as_account psql -X -q -A -t -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$(port_of "$where")" -U app -f "$1" app |
		wc -c)
	if [ "$bytes" -lt 1000000 ]; then
		cell='fails (above)'
		return
	fi
	cell=$(awk -v b="$bytes" -v ns="$(($(date +%s%N) - begin))" 'BEGIN { printf "%.0f MB/s", b * 1000 / ns }')
}

wanted() {
	case ",$only," in
	*",$1,"*) true ;;
	*) false ;;
	esac
}

# ---- All of it

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES postgresql pgbouncer pgpool2 openssl
setup_room
postgres_find
PATH=$pgbin:$PATH
say "Building pgweir"
setup_build build
as_account make -s -C "$build" test/bench/blind
direct_port=$(free_port)
pgweir_port=$((direct_port + 1)) pgbouncer_port=$((direct_port + 2))
pgpool_port=$((direct_port + 3)) pcp_port=$((direct_port + 4))

as_account openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
	-keyout "$room/key.pem" -out "$room/cert.pem" 2>/dev/null
as_account chmod 600 "$room/key.pem"
postgres_start "$room/data" "$direct_port" "-c max_connections=100 -c fsync=on -c shared_buffers=256MB -c max_wal_size=4GB" \
	"-c ssl=on -c ssl_cert_file=$room/cert.pem -c ssl_key_file=$room/key.pem"
PGPASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
export PGPASSWORD
PGSSLMODE=disable
export PGSSLMODE
superuser() {
	PGPASSWORD=$postgres_password as_account psql -X -q -A -t -h 127.0.0.1 -p "$direct_port" -U postgres "$@"
}
superuser -c "CREATE ROLE app LOGIN PASSWORD '$PGPASSWORD'" -c "CREATE DATABASE app OWNER app"
superuser -c "SELECT format('\"%s\" \"%s\"', rolname, rolpassword) FROM pg_authid WHERE rolname = 'app'" |
	as_account sh -c 'umask 077; cat > "$1"' sh "$room/userlist.txt"
as_account pgbench -h 127.0.0.1 -p "$direct_port" -U app -i -q -s "$scale" app >"$room/pgbench.log" 2>&1
as_account sh -c 'printf "BEGIN;\nSELECT 1;\nCOMMIT;\n" > "$1"' sh "$room/one.sql"
at_exit place_stop

if wanted 1; then
	configure transaction 97
	table "1. TPC-B, max_connections = 100, pool of 97, transaction mode" direct pgweir PgBouncer
	row "50 clients" "175 direct, 171" tps -c 50 -j 2
	row "150 clients" "258 direct, 344" tps -c 150 -j 2
	table_end
fi

if wanted 2; then
	one="-f $room/one.sql"
	configure transaction 4
	table "2. BEGIN; SELECT 1; COMMIT; on a pool of 4, transaction mode (and the milliseconds of each of the three)" \
		direct pgweir PgBouncer
	# shellcheck disable=SC2086
	{
		row "1 client, reconnecting" "257 direct, 796" tps $one -c 1 -C
		row "1 client" "7922 direct, 3216" tps_statements $one -c 1
		row "4 clients" "" tps $one -c 4 -j 2
		row "64 clients" "" tps $one -c 64 -j 2
		configure transaction 4 "client_tls_sslmode = require
client_tls_key_file = $room/key.pem
client_tls_cert_file = $room/cert.pem
server_tls_sslmode = require"
		PGSSLMODE=require
		row "1 client, TLS both sides" "5611 direct, 2238" tps_statements $one -c 1
		PGSSLMODE=disable
	}
	table_end
fi

if wanted 3; then
	configure session 97
	table "3. TPC-B, a new connection for each transaction, session mode" direct pgweir PgBouncer Pgpool-II
	for clients in 10 20 40 80 100 200; do
		row "$clients clients" "16.5-17, -, 26.6-27.2, 15.3-15.7" tps -c "$clients" -j 2 -C
	done
	table_end
	echo "  (published with 200: direct and Pgpool-II abort)"
fi

if wanted 4; then
	configure transaction 20
	table "4. TPC-B, 20 clients" direct pgweir PgBouncer
	row "reconnecting" "8.2" tps -c 20 -j 2 -C
	row "connected once" "156" tps -c 20 -j 2
	table_end
fi

if wanted 5; then
	configure transaction 20
	table "5. TPC-B, 5 clients" direct pgweir PgBouncer
	row "5 clients" "902 direct, 651-756" tps -c 5 -j 2
	table_end
fi

if wanted 6; then
	configure session 20
	table "6. Large results" direct pgweir PgBouncer
	line="repeat('x', 990)"
	rows=$((megabytes * 1048576 / 1000))
	# repeated in one session, so that the start of psql is not measured
	as_account sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "$1"; done > "$2"' sh \
		"SELECT g, $line FROM generate_series(1, 10000) g;" "$room/small.sql"
	as_account sh -c 'printf "%s\n" "\set FETCH_COUNT 10000" "$1" > "$2"' sh \
		"SELECT g, $line FROM generate_series(1, $rows) g;" "$room/large.sql"
	as_account sh -c 'echo "$1" > "$2"' sh \
		"COPY (SELECT g, $line FROM generate_series(1, $rows) g) TO STDOUT;" "$room/copy.sql"
	row "SELECT, 10,000 rows" "" megabytes_per_second "$room/small.sql"
	row "SELECT, $megabytes MB" "" megabytes_per_second "$room/large.sql"
	row "COPY TO, $megabytes MB" "" megabytes_per_second "$room/copy.sql"
	table_end
fi

if wanted 7; then
	configure transaction 64
	table "7. SELECT 1 (\"sleeping\": pgweir with busy_poll = off; the forwarder copies bytes and looks at none)" \
		direct pgweir sleeping forwarder PgBouncer
	as_account sh -c 'echo "SELECT 1;" > "$1"' sh "$room/select.sql"
	for clients in 1 2 8 64; do
		row "$clients clients" "" tps -f "$room/select.sql" -c "$clients" -j 1
	done
	table_end
fi
