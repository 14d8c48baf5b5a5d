#!/bin/sh
# Writes the page of the HTTP endpoint as C: etc/embed.sh DIRECTORY. A line /*@FILE@*/ of page.html is replaced with that file.
set -eu
cd "$1"
echo '/* Written by etc/embed.sh. */'
echo '#include <stddef.h>'
echo 'extern const char web_page[];'
echo 'extern const size_t web_page_size;'
echo 'const char web_page[] = {'
while IFS= read -r line; do
	case $line in
	'/*@'*'@*/')
		file=${line#'/*@'}
		cat "${file%'@*/'}"
		;;
	*)
		printf '%s\n' "$line"
		;;
	esac
done < page.html | od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g'
echo '};'
echo 'const size_t web_page_size = sizeof(web_page);'
