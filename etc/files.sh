#!/bin/sh
# Writes the lists of files that Makefile.am needs, read off the tree: etc/files.sh OUTPUT. Run by autoreconf from the
# top of the source tree. An unchanged list is left alone, so that nothing is rebuilt for it.
set -eu

list() { # NAME find-expression...: one make variable
	name=$1
	shift
	printf '%s =' "$name"
	find "$@" -type f | LC_ALL=C sort | while read -r file; do printf ' \\\n\t%s' "$file"; done
	printf '\n\n'
}

link_with() { # PROGRAM KIND
	name=$(printf %s "$1" | tr / _)
	printf '%s_LDADD = $(%s_LINK_WITH)\n%s_LDFLAGS = $(%s_LINK)\n\n' "$name" "$2" "$name" "$2"
}

kind_of() { # FILE...: what unit tests of these files are linked with
	if grep -qF '#include "whole.h"' "$@"; then echo WHOLE; else echo UNIT; fi
}

# The files of a room are one program, test/unit/ROOM/tests. The name of a file is a link to it, which runs this file only. A file that ends with
# UNIT_ALONE is a program of its own.
unit_programs() {
	programs=
	links=
	for room in $(find test/unit -mindepth 1 -maxdepth 1 -type d | LC_ALL=C sort); do
		parts=
		here=
		for file in $(find "$room" -name '*.c' | LC_ALL=C sort); do
			if grep -qx UNIT_ALONE "$file"; then
				programs="$programs ${file%.c}"
				link_with "${file%.c}" "$(kind_of "$file")"
				continue
			fi
			parts="$parts $file"
			[ "${file#"$room/test_"}" = "$file" ] || here="$here ${file%.c}"
		done
		printf '%s_SOURCES =%s\n' "$(printf %s "$room/tests" | tr / _)" "$parts"
		# shellcheck disable=SC2086
		link_with "$room/tests" "$(kind_of $parts)"
		printf '%s: %s/tests$(EXEEXT)\n\t$(AM_V_at)ln -sf tests $@\n\n' "${here# }" "$room"
		programs="$programs $room/tests"
		links="$links$here"
	done
	printf 'files_unit =%s\n\nfiles_unit_links =%s\n\n' "$programs" "$links"
}

output=$1
mkdir -p "$(dirname "$output")"
{
	echo "# Made by etc/files.sh."
	list files_library src ! -path 'src/main/main.c' ! -path 'src/web/page_data.c' -name '*.c'
	list files_headers include src '(' -name '*.h' -o -name '*.tbl' ')'
	unit_programs
	list files_sim test/sim -name '*.[ch]'
	list files_fuzz test/fuzz -name 'fuzz_*.c' | sed 's/\.c\( \\\)*$/\1/'
	for file in $(find test/fuzz -name 'fuzz_*.c' | LC_ALL=C sort); do link_with "${file%.c}" FUZZ; done
	list files_man doc -name '*.[1-9]'
	list files_doc doc -name '*.md'
	list files_example etc -maxdepth 1 -name '*.ini'
	list files_rest test .ci etc '(' -name '*.[ch]' -o -name '*.py' -o -name '*.sh' -o -name '*.txt' -o -name '*.tsv' -o -name '*.dict' -o -path 'test/*.ini' -o -path 'etc/fail2ban/*' -o -path 'etc/chart/*' -o -path 'test/chart/*' -o -path 'etc/debian/*' -o -path 'etc/rpm/*' \
		-o -name '*.in' -o -name '*.json' -o -name '*.yml' -o -name Containerfile -o -name '*.socket' -o -name '*.md' -o -name run -o -path 'test/drivers/*' -o -path 'test/analysis/*' -o -path 'test/oracle/*.sql' ')' ! -name '*.pyc' ! -path 'test/unit/*/test_*.c'
} > "$output.new"
if cmp -s "$output.new" "$output"; then
	rm "$output.new"
else
	mv "$output.new" "$output"
fi
