#!/bin/sh
#
# Drivers of PostgreSQL through pgweir: sh test/drivers.sh [OPTION...] [PYTEST ARGUMENT...]
#
#	--build-dir DIR	build there and keep it: the next run with it downloads and compiles only what changed
#	--oracle	with the pgweir that asks each server for its state (test/oracle/oracle.c)
#	anything else	goes to pytest: -k pgx, -k "tls and transaction", -n 0 -x ...
#
# One program for each driver (test/drivers), in session and transaction mode, with and without TLS, with the driver's
# defaults and with its prepared statements. Python is always used; Go, Java (with Maven), Node.js (with npm) and
# Rust (cargo) are used if installed, and the lines before the last list the missing ones. The drivers are downloaded by name
# from the registries that these tools are configured for. Nothing is built in the source tree. The last line counts the
# tests; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

program=pgweir
take_option() {
	case $1 in
	--oracle) program=test/oracle/pgweir taken=1 ;;
	esac
}
. "$top/test/options.sh"

# WHAT COMMAND...: runs it as the caller, because the toolchains may be installed for this user only. Reports a failure.
try() {
	what=$1
	shift
	"$@" >"$room/step.log" 2>&1 && return 0
	tail -n 30 "$room/step.log"
	say "FAILED: $what"
	broken=$((broken + 1))
	return 1
}

# PROGRAM...: whether all of them are installed.
have() {
	for program in "$@"; do
		command -v "$program" >/dev/null || {
			missing="$missing $program"
			return 1
		}
	done
}

drivers_go() {
	have go || return 0
	mkdir -p "$builds/go"
	cp -R "$top/test/drivers/go/." "$builds/go"
	try "go mod tidy" sh -c 'cd "$1" && go mod tidy' sh "$builds/go" || return 0
	for program in with_pgx with_pq types_pgx pool_pgx; do
		try "go build $program" sh -c 'cd "$1" && rm -f "bin/$2" && go build -o "bin/$2" "./$2"' sh "$builds/go" $program || :
	done
}

drivers_java() {
	have java javac mvn || return 0
	mkdir -p "$builds/java"
	for artifact in org.postgresql:postgresql:42.7.8 com.zaxxer:HikariCP:7.0.2 org.slf4j:slf4j-api:2.0.17; do
		jar=${artifact#*:}
		[ -e "$builds/java/${jar%:*}.jar" ] || try "mvn dependency:copy" mvn -q -B dependency:copy \
			-Dartifact=$artifact -DoutputDirectory="$builds/java" -Dmdep.stripVersion=true || return 0
	done
	try "javac" javac -encoding UTF-8 -cp "$builds/java/postgresql.jar:$builds/java/HikariCP.jar" -d "$builds/java" \
		"$top"/test/drivers/java/*.java || :
}

drivers_node() {
	have node npm || return 0
	mkdir -p "$builds/node"
	cp "$top"/test/drivers/node/* "$builds/node"
	[ -d "$builds/node/node_modules" ] ||
		try "npm install" npm install --prefix "$builds/node" --no-audit --no-fund --no-package-lock --ignore-scripts || :
}

drivers_rust() {
	have cargo || return 0
	mkdir -p "$builds/rust"
	cp -R "$top/test/drivers/rust/." "$builds/rust"
	try "cargo build" cargo build --quiet --manifest-path "$builds/rust/Cargo.toml" --target-dir "$builds/rust/target" || :
}

drivers_python() {
	cmp -s "$top/test/drivers/requirements.txt" "$builds/venv/requirements.txt" && return
	try "python3 -m venv" /usr/bin/python3 -m venv --clear "$builds/venv" &&
		try "pip install" "$builds/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir \
			-r "$top/test/requirements.txt" -r "$top/test/drivers/requirements.txt" &&
		cp "$top/test/drivers/requirements.txt" "$builds/venv/requirements.txt"
}

# ---- Requirements

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES postgresql openssl python3-venv ca-certificates
postgres_find
setup_room
if [ -z "$builds" ]; then
	builds=$room/drivers
fi
mkdir -p "$builds"
builds=$(cd "$builds" && pwd)
chmod 755 "$builds"

say "Building pgweir"
setup_copy source
step_build() {
	as_account mkdir -p "$room/pgweir"
	as_account sh -c 'cd "$1" && autoreconf -fi && cd ../pgweir && ../source/configure -q --enable-sanitizers &&
		make -s -j"$(nproc)" "$2"' sh "$room/source" "$program"
}
step_build >"$room/build.log" 2>&1 || {
	tail -n 30 "$room/build.log" >&2
	fail "pgweir cannot be built" "read the lines above"
}

missing=
broken=0
say "Fetching and building the drivers"
drivers_python || fail "the Python drivers cannot be installed" "check the network"
drivers_go
drivers_java
drivers_node
drivers_rust

# ---- The programs, through pgweir

chmod -R a+rX "$builds"
as_account mkdir -p "$room/tmp"
say "Driving"
ran=0
as_account sh -c 'cd "$1" && shift && exec "$@"' sh "$room/source/test" \
	env TMPDIR="$room/tmp" PGWEIR="$room/pgweir/$program" PGWEIR_DRIVERS="$builds" PGWEIR_COUNTS="$room/counts" \
	PYTHONDONTWRITEBYTECODE=1 "$builds/venv/bin/python" -m pytest -q --tb=short -n 2 drivers "$@" || ran=$?
passed=0 failed=0 skipped=0
if [ -s "$room/counts" ]; then
	read -r passed failed skipped <"$room/counts"
fi
if [ "$ran" != 0 ] && [ "$failed" = 0 ]; then
	failed=1
fi
failed=$((failed + broken))
[ -z "$missing" ] || say "Not here, so their drivers were not tried ($skipped skipped):$missing"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
