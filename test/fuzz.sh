#!/bin/sh
#
# Fuzzing: sh test/fuzz.sh [OPTION...] [TARGET...]
#
#	--seconds N	time for each target (default 600; an hour is 3600)
#	--engine ENGINE	libfuzzer (default) or afl, which is AFL++
#	--seed N	seed of libFuzzer (default: random): the same seed gives the same first inputs
#	--jobs N	targets at a time (default: one for each processor, at most 4)
#	--coverage	afterwards prints the lines that the corpus reaches, for each target by source file and for all by room
#	--build-dir DIR	builds, corpora, crashers and logs are kept there, and the next run continues with them
#	--merge		new inputs are written to test/fuzz/corpus, minimized and limited, to be reviewed and committed (libfuzzer; includes
#			the results of AFL++ in a run with the same --build-dir)
#	--list		names the targets
#
# The targets are test/fuzz/fuzz_TARGET.c; without a name all of them run. As root, or with sudo for the packages: it installs
# missing packages (clang, libclang-rt-dev; afl++ and llvm only if needed), and builds outside of the source tree.
#
# A failing input is kept in DIR/crashes (without --build-dir: in the directory that the last lines name), and the last lines show how to
# play it again. Add the input, with a remark, to test/fuzz/corpus/TARGET.txt (test/fuzz/corpus.py pack), so that `make check` plays it from
# then on. The last line counts targets: "N passed, M failed"; the status is 0 only if none failed.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/etc/setup.sh"

seconds=600
seed=0
engine=libfuzzer
jobs=
coverage=no
merge=no
corpus_most=15000	# bytes of what fuzzing has found in a corpus in the tree
inputs_most=400		# and how many inputs: `make check` plays them all

take_option() {
	taken=2
	case $1 in
	--seconds | --engine | --seed | --jobs)
		[ $# -gt 1 ] || fail "$1 wants a value" "sh $0 --help"
		;;
	esac
	case $1 in
	--seconds) seconds=$2 ;;
	--engine) engine=$2 ;;
	--seed) seed=$2 ;;
	--jobs) jobs=$2 ;;
	--coverage) coverage=yes taken=1 ;;
	--merge) merge=yes taken=1 ;;
	--list)
		list_targets
		exit 0
		;;
	-*) fail "unknown option $1" "sh $0 --help" ;;
	*) taken=0 ;;
	esac
}
list_targets() {
	(cd "$top/test/fuzz" && ls fuzz_*.c | sed 's/^fuzz_\(.*\)\.c$/\1/')
}
. "$top/test/options.sh"
[ "$seconds" -gt 0 ] 2>/dev/null || fail "--seconds wants a number"
[ "$engine" = libfuzzer ] || [ "$engine" = afl ] || fail "--engine is libfuzzer or afl"
[ "$merge" = no ] || [ "$engine" = libfuzzer ] || fail "--merge is libFuzzer's" "the same again with --seconds 1 and without --engine"
if [ -z "$jobs" ]; then
	jobs=$(nproc)
	[ "$jobs" -le 4 ] || jobs=4
fi
targets=${*:-$(list_targets)}
for target in $targets; do
	[ -e "$top/test/fuzz/fuzz_$target.c" ] || fail "there is no target $target" "one of: $(echo $(list_targets))"
done

# ---- Requirements

more=
[ "$engine" != afl ] || more="afl++"
[ "$coverage" = no ] || more="$more llvm"
# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES libpam0g-dev libldap-dev clang libclang-rt-dev python3-minimal $more
setup_room
setup_builds
place=$builds
as_account mkdir -p "$place/corpus" "$place/crashes" "$place/logs"

rm -rf "$place/source"
(
	room=$place
	setup_copy source
)

# WHAT COMMAND...: runs the command as the account; its output is shown only on failure.
step() {
	what=$1
	shift
	as_account "$@" >"$room/step.log" 2>&1 || {
		tail -n 40 "$room/step.log" >&2
		fail "$what"
	}
}

# NAME CC CFLAGS ENGINE: builds the targets with this compiler in $place/NAME.
build() {
	as_account mkdir -p "$place/$1"
	step "configure" sh -c 'cd "$1" && [ -e config.status ] || ../source/configure -q CC="$2" CFLAGS="$3" CPPFLAGS=-DFUZZ_ENGINE --enable-sanitizers' \
		sh "$place/$1" "$2" "$3"
	step "make" make -s -C "$place/$1" -j"$(nproc)" FUZZ_ENGINE_LINK="$4" $(printf 'test/fuzz/fuzz_%s ' $targets)
}

say "Building for $engine"
step "autoreconf" sh -c 'cd "$1" && autoreconf -fi' sh "$place/source"
case $engine in
libfuzzer) build libfuzzer clang "-O1 -g -fsanitize=fuzzer-no-link" -fsanitize=fuzzer ;;
afl) build afl afl-clang-fast "-O1 -g" -fsanitize=fuzzer ;;
esac

# ---- The runs

# TARGET: dictionaries are named like their targets.
dictionary_of() {
	[ ! -e "$place/source/test/fuzz/$1.dict" ] || echo "$place/source/test/fuzz/$1.dict"
}

# TARGET: the fuzzer, as long as is wanted. The status is 0 when nothing failed.
run_libfuzzer() {
	dictionary=$(dictionary_of "$1")
	as_account nice -n 15 timeout $((seconds * 2 + 120)) "$place/libfuzzer/test/fuzz/fuzz_$1" -max_total_time="$seconds" -seed="$seed" -timeout=20 \
		-rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$place/crashes/$1-" ${dictionary:+-dict="$dictionary"} \
		"$place/corpus/$1" >"$place/logs/$1.log" 2>&1
}

run_afl() {
	dictionary=$(dictionary_of "$1")
	out=$place/afl-out/$1
	rm -rf "$out"
	as_account mkdir -p "$place/afl-out"
	as_account env AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_AFFINITY=1 nice -n 15 \
		timeout $((seconds * 2 + 120)) afl-fuzz -i "$place/corpus/$1" -o "$out" -V "$seconds" -t 20000 -m none \
		${dictionary:+-x "$dictionary"} -- "$place/afl/test/fuzz/fuzz_$1" >"$place/logs/$1.log" 2>&1 || return 1
	bad=0
	for input in "$out"/default/crashes/id* "$out"/default/hangs/id*; do
		[ -e "$input" ] || continue
		as_account cp "$input" "$place/crashes/$1-$(basename "$input" | tr -c 'a-zA-Z0-9\n' -)"
		bad=1
	done
	for input in "$out"/default/queue/id*; do
		# the inputs of the beginning of the run exist already
		kept=$place/corpus/$1/$(sha1sum <"$input" | cut -c 1-40)
		[ -e "$kept" ] || as_account cp "$input" "$kept"
	done
	return $bad
}

# TARGET: a summary of the run, in a line.
figures() {
	if [ "$engine" = libfuzzer ]; then
		sed -n 's/^stat::number_of_executed_units: */executions /p; s/^stat::new_units_added: */new inputs /p' "$place/logs/$1.log"
		sed -n 's/^#.* cov: \([0-9]*\) .*/edges \1/p' "$place/logs/$1.log" | tail -n 1
	else
		sed -n 's/^execs_done *: */executions /p; s/^corpus_found *: */new inputs /p; s/^edges_found *: */edges /p' \
			"$place/afl-out/$1/default/fuzzer_stats"
	fi 2>/dev/null | paste -sd, - | sed 's/,/, /g'
}

# TARGET: writes the result to a file.
run() {
	verdict=passed
	"run_$engine" "$1" || verdict=FAILED
	echo "$verdict" >"$place/logs/$1.verdict"
	say "$1: $verdict, $(figures "$1")"
}

for target in $targets; do
	step "unpacking the corpus" python3 "$place/source/test/fuzz/corpus.py" unpack "$place/source/test/fuzz/corpus/$target.txt" \
		"$place/corpus/$target"
	rm -f "$place/logs/$target.verdict"
done
say "Fuzzing for $seconds s each, $jobs at a time: $(echo $targets)"
running=0
for target in $targets; do
	run "$target" &
	# all take equally long
	running=$((running + 1))
	if [ "$running" -ge "$jobs" ]; then
		wait
		running=0
	fi
done
wait

# ---- Coverage of the inputs

# A build that counts lines plays all inputs; libFuzzer's main() does it with -runs=0.
show_coverage() {
	say "Coverage"
	build counted clang "-O1 -g -fprofile-instr-generate -fcoverage-mapping -fsanitize=fuzzer-no-link" -fsanitize=fuzzer
	objects=
	for target in $targets; do
		as_account env LLVM_PROFILE_FILE="$place/counted/$target.raw" "$place/counted/test/fuzz/fuzz_$target" -runs=0 "$place/corpus/$target" \
			>"$place/logs/$target.counted" 2>&1 || say "$target: an input of the corpus fails"
		step "llvm-profdata" llvm-profdata merge -sparse "$place/counted/$target.raw" -o "$place/counted/$target.data"
		as_account llvm-cov report "$place/counted/test/fuzz/fuzz_$target" -instr-profile="$place/counted/$target.data" \
			>"$place/logs/$target.coverage" 2>/dev/null
		say "$target: lines of the files that it reaches"
		awk '$1 ~ /\.[ch]$/ && $1 !~ /test\/fuzz/ && $8 > $9 { printf "  %6s of %5d  %s\n", $10, $8, $1 }' "$place/logs/$target.coverage"
		objects="$objects ${objects:+-object} $place/counted/test/fuzz/fuzz_$target"
	done
	step "llvm-profdata" sh -c 'llvm-profdata merge -sparse "$1"/*.data -o "$1/all"' sh "$place/counted"
	# shellcheck disable=SC2086
	as_account llvm-cov report $objects -instr-profile="$place/counted/all" >"$place/logs/all.coverage" 2>/dev/null
	say "All targets: lines by room"
	awk '$1 ~ /\.c$/ && $1 !~ /test\/fuzz/ {
		n = split($1, part, "/"); all[part[n - 1]] += $8; missed[part[n - 1]] += $9
	} END {
		for (room in all) printf "  %5.1f %% of %5d  %s\n", 100 * (all[room] - missed[room]) / all[room], all[room], room
	}' "$place/logs/all.coverage" | sort -k 5
	say "By source file: $place/logs/*.coverage"
}
[ "$coverage" = no ] || show_coverage

# ---- New inputs

# TARGET: the smallest inputs that reach all that is reached, into the tree.
merge_corpus() {
	rm -rf "$place/merged/$1"
	as_account mkdir -p "$place/merged/$1"
	step "merging" "$place/libfuzzer/test/fuzz/fuzz_$1" -merge=1 -timeout=20 -rss_limit_mb=2048 "$place/merged/$1" "$place/corpus/$1"
	python3 "$top/test/fuzz/corpus.py" pack "$place/merged/$1" "$top/test/fuzz/corpus/$1.txt" "$corpus_most" "$inputs_most"
}
if [ "$merge" = yes ]; then
	say "Merging what is new into test/fuzz/corpus"
	for target in $targets; do
		merge_corpus "$target"
	done
fi

# ---- The end

passed=0
failed=0
for target in $targets; do
	if [ "$(cat "$place/logs/$target.verdict" 2>/dev/null)" = passed ]; then
		passed=$((passed + 1))
		continue
	fi
	failed=$((failed + 1))
	say "FAILED: $target"
	grep -a -m 1 -E 'does not hold|ERROR:|runtime error|FATAL' "$place/logs/$target.log" || tail -n 5 "$place/logs/$target.log"
done
if [ "$failed" != 0 ]; then
	if [ "$place" = "$room" ]; then
		saved=$(mktemp -d "${TMPDIR:-/tmp}/pgweir-fuzz.XXXXXX")
		cp -R "$place/crashes" "$place/logs" "$saved"
		say "The inputs that failed are in $saved/crashes"
		say "To play one again: sh test/fuzz.sh --build-dir DIR --seconds 1 TARGET; DIR/$engine/test/fuzz/fuzz_TARGET FILE (FUZZ_LOG=1 shows the log)"
	else
		say "The inputs that failed are in $place/crashes"
		say "To play one again: $place/$engine/test/fuzz/fuzz_TARGET FILE (FUZZ_LOG=1 in the environment shows the log)"
	fi
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
