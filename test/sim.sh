#!/bin/sh
#
# Many simulated worlds (test/sim/sim.c describes them): sh test/sim.sh [OPTION...]
#
#	--minutes N	simulated minutes in all (default: 20000, some minutes of two cores)
#	--from SEED	the first world's seed (default: random; it is printed)
#	--jobs N	processes at a time (default: as many as there are processors)
#	--limit S	stop after S seconds, whatever the number of simulated minutes
#	--sanitizers	with ASan and UBSan: five times slower
#	--shrink SEED	searches for a smaller world that fails as the world of SEED does (with --minutes: of that length)
#	--build-dir DIR	build there and keep it (default: a temporary directory)
#
# Builds outside the source tree, optimised but with every assertion. Prints a line for each process, and at the end the totals:
# worlds, simulated minutes and turns, queries, faults played. The status is 0 only if no world failed; a failed world prints
# how to play it again: the same seed gives the same world, byte for byte. --shrink takes some minutes, and prints how to play the smallest
# world that it has found.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
minutes=
shrink=
from=
jobs=$(nproc)
limit=
flags=--disable-hardening
build=
while [ $# -gt 0 ]; do
	case $1 in
	--minutes) minutes=$2 && shift ;;
	--from) from=$2 && shift ;;
	--jobs) jobs=$2 && shift ;;
	--limit) limit=$2 && shift ;;
	--shrink) shrink=$2 && shift ;;
	--build-dir) build=$2 && shift ;;
	--sanitizers) flags=--enable-sanitizers ;;
	--help | -h)
		sed -n '3,/^set/s/^#[[:space:]]\{0,1\}//p' "$0"
		exit 0
		;;
	*)
		echo "sim.sh: what is $1?" >&2
		exit 2
		;;
	esac
	shift
done

room=$(mktemp -d "${TMPDIR:-/tmp}/pgweir-sim.XXXXXX")
trap 'rm -rf "$room"' EXIT
trap 'exit 1' HUP INT TERM
build=${build:-$room/build}
mkdir -p "$build"
[ -e "$top/configure" ] || (cd "$top" && autoreconf -fi >/dev/null 2>&1)
[ -e "$build/config.status" ] || (cd "$build" && "$top/configure" -q --disable-lto $flags CFLAGS='-O2 -g' >"$room/configure.log" 2>&1) || {
	cat "$room/configure.log"
	exit 1
}
make -s -C "$build" -j"$(nproc)" test/sim/sim >"$room/make.log" 2>&1 || {
	tail -n 40 "$room/make.log"
	exit 1
}

if [ -n "$shrink" ]; then
	"$build/test/sim/sim" --shrink "$shrink" ${minutes:+--minutes "$minutes"}
	exit
fi

# without --from, the first seed is drawn: 40 bits
[ -n "$from" ] || from=$(od -An -N5 -tu8 /dev/urandom | tr -d ' ')
minutes=${minutes:-20000}
echo "From seed $from, $jobs processes"
job=0
pids=
while [ "$job" -lt "$jobs" ]; do
	nice "$build/test/sim/sim" --from $((from + job * 1000000)) --total $(((minutes + jobs - 1) / jobs)) ${limit:+--limit "$limit"} \
		>"$room/$job.out" 2>&1 &
	pids="$pids $!"
	job=$((job + 1))
done
status=0
job=0
for pid in $pids; do
	wait "$pid" || status=1
	cat "$room/$job.out"
	job=$((job + 1))
done
awk '/ worlds, / { worlds += $1; minutes += $3; turns += $6; cpu += $9 }
	/ logins, / { queries += $14 }
	/ server logins, / { faults += $4 + $8 + $11 }
	END { printf "%d worlds, %.0f simulated minutes, %.0f turns, %.0f queries, %.0f faults played, %.0f s of CPU\n",
		worlds, minutes, turns, queries, faults, cpu }' "$room"/*.out
exit "$status"
