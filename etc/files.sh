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

link_with() { # NAME: programs of the sources that are listed on standard input
	LC_ALL=C sort | while read -r file; do
		name=$(printf %s "${file%.c}" | tr / _)
		printf '%s_LDADD = $(%s_LINK_WITH)\n%s_LDFLAGS = $(%s_LINK)\n' "$name" "$1" "$name" "$1"
	done
	printf '\n'
}

output=$1
mkdir -p "$(dirname "$output")"
{
	echo "# Made by etc/files.sh."
	list files_library src ! -path 'src/main/main.c' ! -path 'src/web/page_data.c' -name '*.c'
	list files_headers include src '(' -name '*.h' -o -name '*.tbl' ')'
	list files_unit test/unit -name 'test_*.c' | sed 's/\.c\( \\\)*$/\1/'
	list files_sim test/sim -name '*.[ch]'
	list files_fuzz test/fuzz -name 'fuzz_*.c' | sed 's/\.c\( \\\)*$/\1/'
	find test/fuzz -name 'fuzz_*.c' | link_with FUZZ
	grep -rlF '#include "whole.h"' test/unit --include='test_*.c' | link_with WHOLE
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
