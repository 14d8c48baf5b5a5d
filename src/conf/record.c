/*
 * The lines of HBA and ident files in the syntax of PostgreSQL 16:
 *
 * record = field *( blanks field ) [ comment ] field = word *( "," [blanks] word ) list = word *(
 * [blanks] "," [blanks] word ) ; databases, users and addresses, as PgBouncer has them word = 1*(
 * any but blanks, ",", "#" and DQUOTE / DQUOTE *( any but DQUOTE / 2DQUOTE ) DQUOTE ) comment = "#"
 * anything ; anywhere outside of quotes include = ( "include" / "include_if_exists" / "include_dir"
 * ) blanks word
 *
 * A backslash at the end of a line, even of a comment, joins the next line to it. A quoted word is
 * never a keyword, but it may be a regular expression. A word @file is replaced by the words of
 * that file. Paths are relative to the directory of the file that contains them; include_dir reads
 * the files that end in .conf, in byte order.
 *
 * PostgreSQL does not allow blanks before the commas of a list: it reads "a ,b" as two fields, and
 * refuses the line.
 *
 * A fault of a record is reported once, and reading continues with the next field if its beginning
 * is clear, otherwise with the next record. The visitor gets faulty records too, because a faulty
 * line of an HBA file refuses logins; the visitor checks is_faulty before it uses the fields. A
 * failed include is visited as a faulty record without fields.
 *
 * The texts may contain passwords (ldapbindpasswd): all texts are in the arena, which is wiped, and
 * no problem repeats a line.
 */
#include "conf/record.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES_MOST (16 << 20)		/* in all files together */
#define DEPTH_MOST 10			/* nesting of files, as PostgreSQL's CONF_FILE_MAX_DEPTH */
#define FILES_MOST 1000			/* total: bounds includes that fan out */

static const char blanks[] = " \t\r\v\f";

/* ---- problems ---- */

/* FNV-1a. The fingerprints of records are added up, so their order does not matter. */
static uint64_t record_hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
	return hash;
}

void record_fault(struct hba_record *record, const char *format, ...)
{
	struct record_reader *r = record->reader;
	char why[512];
	va_list args;

	if (record->is_faulty)
		return;
	record->is_faulty = true;
	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	conf_problem_add(r->problems, false, record->file, record->line, "%s", why);
	r->faults++;
	r->fingerprint += record_hash_of(record->text) ^ record_hash_of(why);
}

/* Reports a fault after which the rest of the record cannot be read. */
#define FAULT_AND_STOP(record, ...) \
	(record_fault(record, __VA_ARGS__), (record)->is_unreadable = true)

void record_no_memory(struct hba_record *record)
{
	record->reader->is_out_of_memory = true;
	record->is_faulty = record->is_unreadable = true;
}

/* ---- a file's text, record by record ---- */

struct source {
	const char *path;
	char *at, *end;
	int line;			/* the number of the last line */
	int depth;
};

/* Resolves `name` relative to the directory of the file `beside`; NULL: to the current directory.
   NULL: no memory. */
static const char *path_of(struct arena *arena, const char *name, const char *beside)
{
	const char *slash = beside ? strrchr(beside, '/') : NULL;
	size_t directory = slash && *name != '/' ? (size_t)(slash + 1 - beside) : 0,
	       size = strlen(name);
	char *path = arena_take(arena, directory + size + 1);

	if (!path)
		return NULL;
	if (directory > 0)
		memcpy(path, beside, directory);
	memcpy(path + directory, name, size);
	return path;
}

/* Reads a file into the arena. Returns NULL, or why this failed; missing memory is recorded in the
   reader. *is_absent: the file does not exist. */
static const char *open_source(struct record_reader *r, const char *path, int depth,
			       struct source *source, bool *is_absent)
{
	struct stat st;
	char *text, *copy;
	size_t size;

	*is_absent = false;
	if (depth > DEPTH_MOST)
		return "files include each other too deeply";
	if (++r->files > FILES_MOST)
		return "too many files are included";
	if (stat(path, &st) != 0) {
		*is_absent = errno == ENOENT;
		return strerror(errno);
	}
	/* reading a pipe could block */
	if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		return "it is no regular file";
	text = text_read_file(path, BYTES_MOST - r->bytes, &size);
	if (!text)
		return errno == EFBIG ? "the files are longer than 16 MiB together"
				      : strerror(errno);
	r->bytes += size;
	if (!access_note_file(&r->sources, &(struct conf_file){ .path = path, .file = path },
			      r->arena))
		r->is_out_of_memory = true;
	copy = arena_copy(r->arena, text, size);
	mem_wipe(text, size);
	mem_free(text);
	if (!copy) {
		r->is_out_of_memory = true;
		return "out of memory";
	}
	*source = (struct source){ .path = path, .at = copy, .end = copy + size, .depth = depth };
	/* Some editors write a byte order mark at the beginning of a file. */
	if (text_starts(copy, "\xef\xbb\xbf"))
		source->at += 3;
	return NULL;
}

/* Reads the next record; false at the end. Its lines are joined in place, which only makes them
   shorter. */
static bool next_record(struct record_reader *r, struct source *s, struct hba_record *record)
{
	char *start = s->at, *to = start;
	bool is_open = true;

	if (s->at >= s->end || r->is_out_of_memory)
		return false;
	*record = (struct hba_record){
		.reader = r, .file = s->path, .line = s->line + 1, .at = start, .depth = s->depth
	};
	while (is_open && s->at < s->end) {
		char *from = s->at, *newline = memchr(from, '\n', (size_t)(s->end - from));
		size_t size = (size_t)((newline ? newline : s->end) - from);

		s->line++;
		s->at = newline ? newline + 1 : s->end;
		if (size > 0 && from[size - 1] == '\r')
			size--;
		/* a backslash at the end joins the next line */
		is_open = size > 0 && from[size - 1] == '\\';
		if (is_open)
			size--;
		memmove(to, from, size);
		to += size;
	}
	*to = '\0';
	record->text = arena_copy(r->arena, start, (size_t)(to - start));
	if (!record->text)
		record_no_memory(record);
	else if (memchr(start, '\0', (size_t)(to - start)))
		FAULT_AND_STOP(record, "found a NUL byte: is this a text file?");
	return true;
}

/* ---- words ---- */


/* Cuts the next word off in place. False: the record has no more words, or cannot be read.
   *is_open: the field continues. */
static bool cut_word(struct hba_record *record, enum record_comma comma, struct record_word *word,
		     bool *is_open)
{
	bool in_quotes = false, was_quoted = false, splits = comma != COMMA_IS_TEXT;
	char *at = record->at, *to, *ahead;

	while (*at && (strchr(blanks, *at) || (splits && *at == ',')))
		at++;
	*word = (struct record_word){ .text = at, .keyword = *at == '"' ? "" : at };
	for (to = at; *at; at++) {
		if (*at == '"') {
			/* two quotes within quotes are one */
			if (in_quotes && at[1] == '"')
				*to++ = *at++;
			else
				in_quotes = !in_quotes;
			was_quoted = true;
			continue;
		}
		if (!in_quotes && (strchr(blanks, *at) || *at == '#' || (splits && *at == ',')))
			break;
		*to++ = *at;
	}
	if (in_quotes)
		FAULT_AND_STOP(record, "a double quote is not closed");
	/* Set the position after the word, and see whether the field continues there. */
	ahead = comma == COMMA_ANYWHERE ? at + strspn(at, blanks) : at;
	*is_open = *ahead == ',' && comma != COMMA_ENDS;
	if (*ahead == ',')
		record->at = ahead + 1;
	else
		record->at = *at == '#' ? at + strlen(at) : at + (*at != '\0');
	/* last, because this may overwrite the byte after the word */
	*to = '\0';
	return !record->is_unreadable && (was_quoted || *word->text);
}

static struct record_word *keep_word(struct hba_record *record, const struct record_word *word)
{
	struct record_word *kept = arena_take(record->reader->arena, sizeof(*kept));

	if (!kept) {
		record_no_memory(record);
		return NULL;
	}
	*kept = *word;
	kept->next = NULL;
	return kept;
}

static bool add_file(struct hba_record *record, const char *name, struct record_word ***end);

/* Appends the words of one field at **end, with a file replaced by its words, and moves *end.
   False: there is no field, or it cannot be read. */
static bool add_field(struct hba_record *record, enum record_comma comma, struct record_word ***end)
{
	bool found = false, is_open = true, goes_on;
	struct record_word word;

	while (is_open && cut_word(record, comma, &word, &goes_on)) {
		bool is_file = word.keyword[0] == '@' && word.keyword[1];

		found = true;
		is_open = goes_on;
		if (is_file && add_file(record, word.text + 1, end))
			continue;
		word.is_unknown = is_file;
		**end = keep_word(record, &word);
		if (**end)
			*end = &(**end)->next;
	}
	record->is_cut = found && is_open;
	return found && !record->is_unreadable;
}

/* Appends all words of a file. False: not all of them could be read; this is a fault of the record
   that names the file. */
static bool add_file(struct hba_record *record, const char *name, struct record_word ***end)
{
	struct record_reader *r = record->reader;
	const char *path = path_of(r->arena, name, record->file), *why;
	struct hba_record inner;
	struct source source;
	bool is_absent;

	if (!path) {
		record_no_memory(record);
		return false;
	}
	why = open_source(r, path, record->depth + 1, &source, &is_absent);
	if (why) {
		record_fault(record, "cannot read \"%.200s\": %s", path, why);
		return false;
	}
	while (next_record(r, &source, &inner)) {
		while (add_field(&inner, COMMA_CONTINUES, end))
			;
		if (!inner.is_faulty)
			continue;
		/* the fault itself has been counted and reported */
		if (!r->is_out_of_memory)
			record_fault(record, "\"%.200s\" has a fault in line %d", path, inner.line);
		return false;
	}
	return !r->is_out_of_memory;
}

struct record_word *record_field(struct hba_record *record, enum record_comma comma)
{
	struct record_word *first = NULL, **end = &first;

	if (record->is_unreadable || !add_field(record, comma, &end))
		return NULL;
	if (!first && !record->is_faulty)
		record_fault(record, "a list is empty");
	return first;
}

struct record_word *record_word(struct hba_record *record, enum record_comma comma)
{
	struct record_word word;
	bool is_open;

	if (record->is_faulty || !cut_word(record, comma, &word, &is_open))
		return NULL;
	return keep_word(record, &word);
}

/* ---- files within files ---- */

static void record_read_source(struct record_reader *r, struct source *source);

/* The include failed, or not all of it could be read. The visitor gets a faulty record in its
   place. */
static void fail_include(struct hba_record *record, const char *path, const char *why)
{
	if (record->is_faulty)
		return;
	FAULT_AND_STOP(record, "cannot include \"%.200s\": %s", path, why);
	record->reader->visit(record->reader->context, record);
}

static void include_file(struct hba_record *record, const char *path, bool must_exist)
{
	struct source source;
	bool is_absent;
	const char *why = open_source(record->reader, path, record->depth + 1, &source, &is_absent);

	if (!why)
		record_read_source(record->reader, &source);
	else if (must_exist || !is_absent)
		fail_include(record, path, why);
}

static int is_conf_file(const struct dirent *entry)
{
	size_t size = strlen(entry->d_name);

	return entry->d_name[0] != '.' && size > 5 &&
	       strcmp(entry->d_name + size - 5, ".conf") == 0;
}

static void include_directory(struct hba_record *record, const char *path)
{
	struct arena *arena = record->reader->arena;
	struct dirent **entries;
	int count = scandir(path, &entries, is_conf_file, alphasort);
	struct stat st;

	if (count < 0) {
		fail_include(record, path, strerror(errno));
		return;
	}
	for (int i = 0; i < count; i++) {
		char *directory = arena_take(arena, strlen(path) + 2);
		const char *file = directory ? path_of(arena, entries[i]->d_name,
						       strcat(strcpy(directory, path), "/"))
					     : NULL;

		if (!file)
			record_no_memory(record);
		else if (stat(file, &st) != 0 || !S_ISDIR(st.st_mode))
			include_file(record, file, true);
		free(entries[i]);
	}
	free(entries);
}

/* Processes the record if it is one of the three kinds of include. Returns whether it is. */
static bool take_include(struct hba_record *record)
{
	static const char *const keywords[] = { "include", "include_if_exists", "include_dir" };
	struct hba_record ahead = *record;
	size_t size, kind;
	struct record_word *name;
	const char *path;

	ahead.at += strspn(ahead.at, blanks);
	size = strcspn(ahead.at, " \t\r\v\f,#\"");
	for (kind = 0; kind < 3; kind++)
		if (strlen(keywords[kind]) == size && strncmp(ahead.at, keywords[kind], size) == 0)
			break;
	if (kind == 3)
		return false;
	record->at = ahead.at + size;
	name = record_word(record, COMMA_IS_TEXT);
	if (!name || !*name->text || record_word(record, COMMA_IS_TEXT))
		FAULT_AND_STOP(record, "expected the name of one file or directory behind \"%s\"",
			       keywords[kind]);
	if (record->is_faulty) {
		record->reader->visit(record->reader->context, record);
		return true;
	}
	path = path_of(record->reader->arena, name->text, record->file);
	if (!path)
		record_no_memory(record);
	else if (kind == 2)
		include_directory(record, path);
	else
		include_file(record, path, kind == 0);
	return true;
}

static void record_read_source(struct record_reader *r, struct source *source)
{
	struct hba_record record;

	while (next_record(r, source, &record)) {
		char first = record.at[strspn(record.at, blanks)];

		if (record.is_faulty || (first != '\0' && first != '#' && !take_include(&record)))
			r->visit(r->context, &record);
	}
}

bool record_read_file(struct record_reader *r, const char *path)
{
	const char *name = path_of(r->arena, path, NULL), *why = "out of memory";
	struct source source;
	bool is_absent;

	if (name)
		why = open_source(r, name, 0, &source, &is_absent);
	if (!why) {
		record_read_source(r, &source);
		why = r->is_out_of_memory ? "out of memory" : NULL;
	}
	if (why)
		conf_problem_add(r->problems, false, path, 0, "cannot read the file: %s", why);
	return !why;
}
