/*
 * Names of character sets ("Character Set Support", table of supported character sets and aliases).
 *
 * PostgreSQL compares letters and digits only, without regard to case, and reports its own spelling. A client that asks for "utf-8" in its
 * start-up message is told "UTF8" before any server has been asked.
 */
#include "pg/encoding.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CLEAN_MOST 64			/* longer than any name */

struct alias {
	const char *clean;		/* lower case, letters and digits only */
	const char *spelled;
};

/* in order of `clean` */
static const struct alias aliases[] = {
	{ "abc", "WIN1258" }, { "alt", "WIN866" }, { "big5", "BIG5" }, { "euccn", "EUC_CN" },
	{ "eucjis2004", "EUC_JIS_2004" }, { "eucjp", "EUC_JP" }, { "euckr", "EUC_KR" }, { "euctw", "EUC_TW" },
	{ "gb18030", "GB18030" }, { "gbk", "GBK" }, { "iso88591", "LATIN1" }, { "iso885910", "LATIN6" },
	{ "iso885913", "LATIN7" }, { "iso885914", "LATIN8" }, { "iso885915", "LATIN9" }, { "iso885916", "LATIN10" },
	{ "iso88592", "LATIN2" }, { "iso88593", "LATIN3" }, { "iso88594", "LATIN4" }, { "iso88595", "ISO_8859_5" },
	{ "iso88596", "ISO_8859_6" }, { "iso88597", "ISO_8859_7" }, { "iso88598", "ISO_8859_8" }, { "iso88599", "LATIN5" },
	{ "johab", "JOHAB" }, { "koi8", "KOI8R" }, { "koi8r", "KOI8R" }, { "koi8u", "KOI8U" },
	{ "latin1", "LATIN1" }, { "latin10", "LATIN10" }, { "latin2", "LATIN2" }, { "latin3", "LATIN3" },
	{ "latin4", "LATIN4" }, { "latin5", "LATIN5" }, { "latin6", "LATIN6" }, { "latin7", "LATIN7" },
	{ "latin8", "LATIN8" }, { "latin9", "LATIN9" }, { "mskanji", "SJIS" }, { "muleinternal", "MULE_INTERNAL" },
	{ "shiftjis", "SJIS" }, { "shiftjis2004", "SHIFT_JIS_2004" }, { "sjis", "SJIS" }, { "sqlascii", "SQL_ASCII" },
	{ "tcvn", "WIN1258" }, { "tcvn5712", "WIN1258" }, { "uhc", "UHC" }, { "unicode", "UTF8" },
	{ "utf8", "UTF8" }, { "vscii", "WIN1258" }, { "win", "WIN1251" }, { "win1250", "WIN1250" },
	{ "win1251", "WIN1251" }, { "win1252", "WIN1252" }, { "win1253", "WIN1253" }, { "win1254", "WIN1254" },
	{ "win1255", "WIN1255" }, { "win1256", "WIN1256" }, { "win1257", "WIN1257" }, { "win1258", "WIN1258" },
	{ "win866", "WIN866" }, { "win874", "WIN874" }, { "win932", "SJIS" }, { "win936", "GBK" },
	{ "win949", "UHC" }, { "win950", "BIG5" }, { "windows1250", "WIN1250" }, { "windows1251", "WIN1251" },
	{ "windows1252", "WIN1252" }, { "windows1253", "WIN1253" }, { "windows1254", "WIN1254" }, { "windows1255", "WIN1255" },
	{ "windows1256", "WIN1256" }, { "windows1257", "WIN1257" }, { "windows1258", "WIN1258" }, { "windows866", "WIN866" },
	{ "windows874", "WIN874" }, { "windows932", "SJIS" }, { "windows936", "GBK" }, { "windows949", "UHC" },
	{ "windows950", "BIG5" },
};

static int compare(const void *clean, const void *alias)
{
	return strcmp(clean, ((const struct alias *)alias)->clean);
}

const char *pg_encoding_spelled(const char *name)
{
	char clean[CLEAN_MOST];
	const struct alias *found;
	size_t size = 0;

	if (strcmp(name, "UNICODE") == 0)
		return name;
	for (const char *at = name; *at; at++) {
		if (!isalnum((unsigned char)*at))
			continue;
		if (size == sizeof(clean) - 1)
			return name;
		clean[size++] = (char)tolower((unsigned char)*at);
	}
	clean[size] = 0;
	found = bsearch(clean, aliases, sizeof(aliases) / sizeof(aliases[0]), sizeof(aliases[0]), compare);
	return found ? found->spelled : name;
}
