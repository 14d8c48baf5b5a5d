/*
 * The grammar of the configuration file, line by line:
 *
 * line = blanks / comment / include / section / pair
 * comment = [blanks] ( ";" / "#" ) anything ; only at the beginning of a line, and after a section
 * include = [blanks] "%include" blanks path
 * section = [blanks] "[" name "]" [comment]
 * pair = [blanks] key [blanks] "=" value
 * key = 1*( any but blanks and "=" ) / DQUOTE *( any but DQUOTE / 2DQUOTE ) DQUOTE
 *
 * If the path is a directory, its files with names that end in .conf or .ini are included, in the
 * order of the names' bytes.
 *
 * A value is the rest of its line without surrounding blanks. An included file starts in the
 * section of the %include line, and its last section applies to the lines after the %include. A
 * file may contain passwords, so its text is wiped before it is freed, and problems name keys,
 * never values.
 */
#include "conf/ini.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MOST   (64 << 20)
#define DEPTH_MOST  16			/* nesting of %include */
#define FILES_MOST  10000		/* total: bounds includes that fan out */
#define SECTION_MOST 64

static const char blanks[] = " \t\r\v\f";

/* The file being read; the chain of parents reveals a loop. */
struct ini_source {
	const struct ini_source *parent;
	const char *path;
	dev_t device;
	ino_t inode;
	int line;
};

struct ini_reader {
	struct conf_problems *problems;
	ini_visit *visit;
	ini_opened *opened;
	void *context;
	char section[SECTION_MOST];
	bool in_section;
	int files;
};

static bool ini_read_file(struct ini_reader *r, const char *path, const struct ini_source *parent);

static void ini_complain(struct ini_reader *r, const struct ini_source *at, const char *text)
{
	conf_problem_add(r->problems, false, at->path, at->line, "%s", text);
}

/* Removes the blanks at the end of the text at p. Returns the position after the blanks at its
   beginning. */
static char *trim(char *p)
{
	size_t size;

	p += strspn(p, blanks);
	size = strlen(p);
	while (size > 0 && strchr(blanks, p[size - 1]))
		size--;
	p[size] = '\0';
	return p;
}

/* Unquotes the "quoted" key at *p in place and moves *p after it. NULL: no closing quote. */
static char *read_quoted_key(char **p)
{
	char *key = *p, *to = key;
	char *from = key + 1;

	for (;; from++) {
		if (*from == '\0')
			return NULL;
		if (*from == '"' && *++from != '"')
			break;
		*to++ = *from;
	}
	*to = '\0';
	*p = from;
	return key;
}

static void read_pair(struct ini_reader *r, const struct ini_source *at, char *p)
{
	struct ini_line line = { at->path, at->line, r->in_section ? r->section : NULL, p, NULL };
	char *key_end = NULL;
	bool is_pair;

	if (*p == '"') {
		line.key = read_quoted_key(&p);
		if (!line.key) {
			ini_complain(r, at,
				     "a name begins with a double quote that nothing closes");
			return;
		}
	} else {
		p += strcspn(p, " \t\r\v\f=");
		key_end = p;
	}
	p += strspn(p, blanks);
	is_pair = *p == '=';
	/* Only now, because *key_end may be the "=". */
	if (key_end)
		*key_end = '\0';
	if (!is_pair) {
		conf_problem_add(r->problems, false, at->path, at->line,
				 "expected name = value, but found no \"=\" behind \"%.64s\"",
				 line.key);
		return;
	}
	if (*line.key == '\0') {
		ini_complain(r, at, "expected name = value, but found no name in front of \"=\"");
		return;
	}
	line.value = trim(p + 1);
	r->visit(r->context, &line);
}

static void read_section(struct ini_reader *r, const struct ini_source *at, char *p)
{
	struct ini_line line = { at->path, at->line, r->section, NULL, NULL };
	char *end = strchr(p, ']'), *behind = end ? trim(end + 1) : NULL;

	if (!end || (*behind != '\0' && *behind != ';' && *behind != '#')) {
		ini_complain(r, at, "expected [section] and nothing behind it but a comment");
		return;
	}
	*end = '\0';
	p = trim(p + 1);
	/* A truncated name is unknown, and the visitor reports that. */
	text_copy(r->section, sizeof(r->section), p);
	r->in_section = true;
	r->visit(r->context, &line);
}

/* Reports the including line, or the file itself if no file includes it. */
static void complain_of_file(struct ini_reader *r, const char *path,
			     const struct ini_source *parent, const char *why)
{
	if (parent)
		conf_problem_add(r->problems, false, parent->path, parent->line,
				 "cannot include \"%s\": %s", path, why);
	else
		conf_problem_add(r->problems, false, path, 0, "cannot read the file: %s", why);
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_included(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && entry->d_name[0] != '.' &&
	       (strcmp(dot, ".conf") == 0 || strcmp(dot, ".ini") == 0);
}

/* Includes the files of a directory. Directories in it are not read. */
static void read_directory(struct ini_reader *r, const char *path, const struct ini_source *at)
{
	struct dirent **entries;
	int count = scandir(path, &entries, is_included, alphasort);
	char *file;

	if (count < 0) {
		complain_of_file(r, path, at, strerror(errno));
		return;
	}
	for (int i = 0; i < count; i++) {
		size_t size = strlen(path) + 1 + strlen(entries[i]->d_name) + 1;

		file = mem_try(size);
		if (file) {
			snprintf(file, size, "%s/%s", path, entries[i]->d_name);
			if (!is_directory(file))
				ini_read_file(r, file, at);
		} else {
			complain_of_file(r, path, at, "out of memory");
		}
		mem_free(file);
		free(entries[i]);
	}
	free(entries);
}

static void read_directive(struct ini_reader *r, const struct ini_source *at, char *p)
{
	static const char include[] = "%include";
	size_t size = strcspn(p, blanks);

	if (size != sizeof(include) - 1 || strncmp(p, include, size) != 0) {
		ini_complain(r, at,
			     "expected %include FILE: there is no other line that begins with %");
		return;
	}
	p = trim(p + size);
	if (*p == '\0')
		ini_complain(r, at, "expected the name of a file behind %include");
	else if (is_directory(p))
		read_directory(r, p, at);
	else
		ini_read_file(r, p, at);
}

/* The text has one byte more than `size`. */
static void ini_read_lines(struct ini_reader *r, struct ini_source *at, char *text, size_t size)
{
	char *end = text + size, *line_end, *p;

	/* Some editors write a byte order mark at the beginning of a file. */
	if (text_starts(text, "\xef\xbb\xbf"))
		text += 3;
	for (; text < end; text = line_end + 1) {
		line_end = memchr(text, '\n', (size_t)(end - text));
		if (!line_end)
			line_end = end;
		at->line++;
		if (memchr(text, '\0', (size_t)(line_end - text))) {
			ini_complain(r, at, "found a NUL byte: is this a text file?");
			continue;
		}
		*line_end = '\0';
		p = trim(text);
		switch (*p) {
		case '\0':
		case ';':
		case '#':
			break;
		case '%':
			read_directive(r, at, p);
			break;
		case '[':
			read_section(r, at, p);
			break;
		default:
			read_pair(r, at, p);
		}
	}
}

/* False: the file could not be read; a problem was added. */
static bool ini_read_file(struct ini_reader *r, const char *path, const struct ini_source *parent)
{
	struct ini_source file = { .parent = parent, .path = path };
	const char *why = NULL;
	char *text = NULL;
	int depth = 0;
	struct stat st;
	size_t size;

	if (stat(path, &st) != 0) {
		why = strerror(errno);
	} else {
		file.device = st.st_dev;
		file.inode = st.st_ino;
		for (const struct ini_source *s = parent; s && !why; s = s->parent) {
			if (s->device == file.device && s->inode == file.inode)
				why = "the file includes itself";
			else if (++depth > DEPTH_MOST)
				why = "files include each other too deeply";
		}
		if (!why && ++r->files > FILES_MOST)
			why = "too many files are included";
	}
	if (!why) {
		text = text_read_file(path, FILE_MOST, &size);
		if (!text)
			why = errno == EFBIG ? "it is longer than 64 MiB" : strerror(errno);
	}
	if (!text) {
		complain_of_file(r, path, parent, why);
		return false;
	}
	r->opened(r->context, path);
	ini_read_lines(r, &file, text, size);
	mem_wipe(text, size);
	mem_free(text);
	return true;
}

bool ini_read(const char *path, struct conf_problems *problems, ini_visit *visit,
	      ini_opened *opened, void *context)
{
	struct ini_reader reader = {
		.problems = problems, .visit = visit, .opened = opened, .context = context
	};

	return ini_read_file(&reader, path, NULL);
}

/* ---- key=value lists ---- */

/*
 * key=value lists in libpq's syntax, with one difference that configurations rely on: a quote
 * within single quotes is doubled, and a backslash is an ordinary character.
 *
 * list = [ pair *( blanks pair ) ]
 * pair = word [blanks] "=" [blanks] value
 * value = "'" *( any but "'" / "''" ) "'" / *( any but blanks )
 *
 * The text is modified in place: a value only becomes shorter.
 */

static const char pair_blanks[] = " \t\r\n\v\f";

/* Parses the quoted value at `text`. Returns the position after it, or NULL if the closing quote is
   missing. */
static char *ini_read_quoted(char *text, char **value)
{
	char *to = text;
	char *from = text + 1;

	*value = to;
	for (;;) {
		if (*from == '\0')
			return NULL;
		if (*from == '\'') {
			if (from[1] != '\'')
				break;
			from++;
		}
		*to++ = *from++;
	}
	*to = '\0';
	return from + 1;
}

enum connstr_verdict connstr_next(char **cursor, char **key, char **value, const char **why)
{
	char *p = *cursor + strspn(*cursor, pair_blanks);
	char *key_end;

	if (*p == '\0')
		return CONNSTR_END;
	*why = "expected key=value (a value with blanks in it must stand in 'single quotes')";
	*key = p;
	p += strcspn(p, " \t\r\n\v\f=");
	key_end = p;
	p += strspn(p, pair_blanks);
	if (key_end == *key || *p != '=')
		return CONNSTR_BAD;
	*key_end = '\0';
	p++;
	p += strspn(p, pair_blanks);
	if (*p == '\'') {
		p = ini_read_quoted(p, value);
		if (!p) {
			*why = "a value begins with a single quote that nothing closes (a quote "
			       "inside is doubled)";
			return CONNSTR_BAD;
		}
		if (*p && !strchr(pair_blanks, *p)) {
			*why = "expected a blank behind a closing single quote (a quote inside is "
			       "doubled)";
			return CONNSTR_BAD;
		}
	} else {
		*value = p;
		p += strcspn(p, pair_blanks);
	}
	if (*p)
		*p++ = '\0';
	*cursor = p;
	return CONNSTR_PAIR;
}
