/*
 * Writes the documentation of the settings and of SHOW from the tables of the program:
 *
 *	gendoc sample			etc/pgweir.ini on standard output
 *	gendoc manual TEMPLATE		doc/pgweir.5: the template with each line @SETTINGS@, @DATABASE_KEYS@,
 *					@USER_KEYS@ or @PEER_KEYS@ replaced by a list of the table
 *	gendoc show			doc/show.md, from the tables of SHOW
 *
 * The results are in the tree; `make docs` writes them, and `make check` fails if they differ from the tables.
 */
#include "base/mem.h"
#include "base/text.h"
#include "conf/value.h"
#include "show/show.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 100		/* of the sample's lines */
#define TEXT_MOST 2048		/* bytes of the description of one row */

/* Whether the description lists the accepted values: not for any text, any number and switches. */
static bool is_choosy(const struct value_row *row)
{
	switch (row->type) {
	case VALUE_ENUM:
	case VALUE_FRACTION:
	case VALUE_METHODS:
	case VALUE_OCTAL:
	case VALUE_POLLING:
		return true;
	case VALUE_COUNT:
	case VALUE_PORT:
	case VALUE_SECONDS:
	case VALUE_MILLIS:
		return row->row.least != 0 || row->row.most != INT32_MAX;
	default:
		return false;
	}
}

static void append(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf);

	text_copy(buf + used, size - used, text);
}

/* Writes the paragraph of the row, the accepted values, the other sections of the setting, and when a change applies. */
static void describe(const struct value_row *row, char *buf, size_t size)
{
	char accepted[256];
	bool in_database = row->row.scope & SCOPE_DATABASE, in_user = row->row.scope & SCOPE_USER;

	text_copy(buf, size, row->row.paragraph);
	if (is_choosy(row))
		snprintf(buf + strlen(buf), size - strlen(buf), " Accepted: %s.",
			 value_accepted(row, accepted, sizeof(accepted)));
	if (row->row.applies == APPLIES_SERVERS)
		append(buf, size, " A change replaces the server connections.");
	if (row->row.applies == APPLIES_TCP_SERVERS)
		append(buf, size, " A change replaces the server connections over TCP.");
	if (!(row->row.scope & SCOPE_GLOBAL))
		return;
	if (in_database || in_user)
		snprintf(buf + strlen(buf), size - strlen(buf), " Entries in %s%s%s may have their own.",
			 in_database ? "[databases]" : "", in_database && in_user ? " and " : "",
			 in_user ? "[users]" : "");
	if (row->row.applies == APPLIES_START)
		append(buf, size, " A change needs a restart.");
}

/* Writes the text in lines that begin with `first`, then `next`, broken between words. */
static void write_wrapped(const char *first, const char *next, const char *text)
{
	size_t column = strlen(first);
	bool is_fresh = true;

	fputs(first, stdout);
	while (*text) {
		size_t word = strcspn(text, " ");

		if (!is_fresh && column + 1 + word > WIDTH) {
			printf("\n%s", next);
			column = strlen(next);
			is_fresh = true;
		}
		printf("%s%.*s", is_fresh ? "" : " ", (int)word, text);
		column += word + !is_fresh;
		is_fresh = false;
		text += word;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void write_sample_keys(const struct value_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct value_row *row = &table->rows[i];
		char first[64], next[64], text[TEXT_MOST];

		snprintf(first, sizeof(first), ";;   %-28s", row->row.name);
		snprintf(next, sizeof(next), ";;   %-28s", "");
		describe(row, text, sizeof(text));
		write_wrapped(first, next, text);
	}
}

static void write_sample_settings(void)
{
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct value_row *row = &setting_table.rows[i];
		const char *value = row->row.default_text;
		char text[TEXT_MOST];

		describe(row, text, sizeof(text));
		putchar('\n');
		write_wrapped(";; ", ";; ", text);
		printf(";%s =%s%s\n", row->row.name, *value ? " " : "", value);
	}
}

static void write_sample(void)
{
	fputs(";; The configuration of pgweir: every section and every setting, with its default, commented out.\n"
	      ";; Lines that begin with ; or # are comments; a value has no comment. %include FILE reads\n"
	      ";; another file in this place. Times are in seconds, with a fraction if need be; switches are 1 and 0,\n"
	      ";; or yes and no, on and off, true and false. See pgweir(5), and try a changed file with:\n"
	      ";;     pgweir --check FILE\n"
	      "\n"
	      "[databases]\n"
	      "\n"
	      ";; One line for each database that clients may ask for: NAME = KEY=VALUE KEY=VALUE ...\n"
	      ";; Enclose a name that contains blanks or = in \"double quotes\", and a value that contains blanks in\n"
	      ";; 'single quotes'; double a quote inside. The name * defines every database that is not listed.\n"
	      ";;\n", stdout);
	write_sample_keys(&database_table);
	fputs("\n"
	      ";; All defaults: the database of the same name on this host's Unix socket.\n"
	      ";app =\n"
	      "\n"
	      ";; Another name on another host, with limits of its own.\n"
	      ";reports = host=db2.example.com port=5433 dbname=app pool_size=5 pool_mode=transaction\n"
	      "\n"
	      ";; Two hosts, one user for all clients.\n"
	      ";web = host=10.0.0.1,10.0.0.2 user=web password='it''s a secret' connect_query='SET jit = off'\n"
	      "\n"
	      ";; Everything else.\n"
	      ";* = host=db1.example.com\n"
	      "\n"
	      "[users]\n"
	      "\n"
	      ";; One line for each user with limits of its own: NAME = KEY=VALUE KEY=VALUE ...\n"
	      ";;\n", stdout);
	write_sample_keys(&user_table);
	fputs("\n"
	      ";batch = pool_mode=session max_user_connections=4 query_timeout=3600\n"
	      "\n"
	      "[peers]\n"
	      "\n"
	      ";; One line for each pooler of a group that shares an address: PEER_ID = KEY=VALUE KEY=VALUE ...\n"
	      ";;\n", stdout);
	write_sample_keys(&peer_table);
	fputs("\n"
	      ";1 = host=/run/pgweir1\n"
	      ";2 = host=pooler2.example.com port=6432\n"
	      "\n"
	      "[pgbouncer]\n"
	      "\n"
	      ";; The section may also be called [pgweir].\n", stdout);
	write_sample_settings();
}

/* A roff text line: a backslash is an escape, and a point or quote at the beginning would be a request. */
static void write_roff(const char *text, size_t size)
{
	if (size > 0 && (*text == '.' || *text == '\''))
		fputs("\\&", stdout);
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\\')
			fputs("\\e", stdout);
		else if (text[i] == '-')
			fputs("\\-", stdout);
		else
			putchar(text[i]);
	}
	putchar('\n');
}

/* Each sentence begins a line, as roff wants it to space them. */
static void write_roff_paragraph(const char *text)
{
	while (*text) {
		const char *end = strstr(text, ". ");
		size_t size = end ? (size_t)(end - text) + 1 : strlen(text);

		write_roff(text, size);
		text += size;
		text += strspn(text, " ");
	}
}

static void write_manual_list(const struct value_table *table)
{
	printf(".Bl -tag -width Ds\n");
	for (size_t i = 0; i < table->count; i++) {
		const struct value_row *row = &table->rows[i];
		char text[TEXT_MOST];

		describe(row, text, sizeof(text));
		printf(".It Ic %s\n", row->row.name);
		write_roff_paragraph(text);
		if (row->row.default_text[0]) {
			fputs("Default: ", stdout);
			write_roff(row->row.default_text, strlen(row->row.default_text));
		}
	}
	printf(".El\n");
}

static const struct value_table *table_of(const char *line)
{
	if (strcmp(line, "@SETTINGS@") == 0)
		return &setting_table;
	if (strcmp(line, "@DATABASE_KEYS@") == 0)
		return &database_table;
	if (strcmp(line, "@USER_KEYS@") == 0)
		return &user_table;
	if (strcmp(line, "@PEER_KEYS@") == 0)
		return &peer_table;
	return NULL;
}

static int write_manual(const char *template)
{
	char *text = text_read_file(template, 1 << 20, NULL), *rest = text, *line;

	if (!text) {
		perror(template);
		return 1;
	}
	while ((line = strsep(&rest, "\n")) && (rest || *line)) {
		const struct value_table *table = table_of(line);

		if (table)
			write_manual_list(table);
		else
			puts(line);
	}
	mem_free(text);
	return 0;
}

/* The columns of these groups as a list. The title comes first if there are any. */
static void write_columns(const struct show_item *item, uint64_t groups, const char *title)
{
	char first[64], text[TEXT_MOST];
	bool is_first = true;

	for (size_t i = 0; i < item->all_columns; i++) {
		const struct figure *f = item->figures[i];

		if (!(f->group & groups))
			continue;
		if (is_first)
			printf("\n%s", title);
		is_first = false;
		snprintf(first, sizeof(first), "- `%.*s`: ", (int)(strrchr(f->column, ':') - f->column), f->column);
		snprintf(text, sizeof(text), "%s%s%s%s", f->sentence, f->metric && *f->metric ? " `" : "", f->metric ? f->metric : "",
			 f->metric && *f->metric ? "`" : "");
		write_wrapped(first, "  ", text);
	}
}

/* doc/show.md. Groups of columns that an earlier item has are not repeated. */
static void write_show(void)
{
	const struct show_item *item;
	uint64_t written = 0;

	fputs("# Columns of SHOW\n"
	      "\n"
	      "The columns of each `SHOW` command, in the order of the console. `man 5 pgweir-console` describes the commands,\n"
	      "`doc/operating.md` their use. Extra columns follow the others with `show_extra_columns = 1`. Counters begin with the process.\n"
	      "A server is a server connection; a limit of 0 means no limit. A name in backquotes at the end is the metric in `/metrics`; the other\n"
	      "figures have metrics with names of SHOW and column, such as `pgweir_pools_pool_size`.\n"
	      "\n"
	      "This page is written from `include/tbl/figure.tbl` and `include/tbl/show.tbl`: `make docs`.\n", stdout);
	for (size_t i = 0; (item = show_at(i)) != NULL; i++) {
		printf("\n## SHOW %s\n", item->name);
		if (*item->sentence) {
			putchar('\n');
			write_wrapped("", "", item->sentence);
		}
		write_columns(item, item->standard & ~written, "");
		write_columns(item, item->extra & ~written, "Extra columns:\n\n");
		written |= item->standard | item->extra;
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "sample") == 0)
		write_sample();
	else if (argc == 2 && strcmp(argv[1], "show") == 0)
		write_show();
	else if (argc != 3 || strcmp(argv[1], "manual") != 0)
		return fprintf(stderr, "usage: gendoc sample | gendoc show | gendoc manual TEMPLATE\n"), 2;
	else if (write_manual(argv[2]) != 0)
		return 1;
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
