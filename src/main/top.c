/*
 * pgweir top: the pools of a running pgweir, in a terminal.
 *
 * Each round asks the console (SHOW POOLS, STATS_TOTALS, REASONS, ALARMS), and draws lines of text
 * into one buffer, which is written at once. Rates are differences between two rounds; the first
 * round has the averages of SHOW STATS_AVERAGES. All texts come from another process: they are made
 * printable before they are shown.
 */
#include "main/top.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/text.h"
#include "main/top_connection.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define DEFAULT_FILE "/etc/pgweir/pgweir.ini"
#define REASONS_MOST 4			/* shown in the line `ended` */
#define ALARMS_MOST 5			/* alarms with lines of their own */
#define WIDE 100			/* columns; a narrower screen has fewer figures of a pool */

enum sort_key { SORT_WAITING, SORT_SERVERS, SORT_QUERIES, SORT_NAME };
static const char *const sort_names[] = { "waiting", "servers", "queries/s", "name" };

/* The answers of a round. */
struct round {
	usec_t at;
	struct console_rows pools, stats, reasons, alarms;
};

/* A line of the table. */
struct line {
	size_t row;			/* in round.pools */
	double waiting, servers, queries;
	const char *database, *user;
};

struct top {
	struct console_address address;
	struct console_connection *connection;
	struct round now, before;
	struct console_rows averages;	/* of the first round */
	struct bytes screen;
	char why[512];			/* the last error; "": none */
	enum sort_key sort;
	bool is_live, has_colour, is_paused;
	int columns, rows;
	double seconds;			/* between two rounds */
};

static volatile sig_atomic_t has_stopped, has_resized;
static struct termios saved_terminal;

static void on_top_signal(int number)
{
	if (number == SIGWINCH)
		has_resized = 1;
	else
		has_stopped = 1;
}

/* ---- samples ---- */

static bool has_column(const struct console_rows *rows, const char *name)
{
	for (size_t i = 0; i < rows->columns; i++)
		if (strcmp(rows->names[i], name) == 0)
			return true;
	return false;
}

/* Returns the cell of the row in the column of this name; "": no such column. */
static const char *cell(const struct console_rows *rows, size_t row, const char *name)
{
	for (size_t i = 0; i < rows->columns; i++)
		if (strcmp(rows->names[i], name) == 0)
			return rows->cells[row * rows->columns + i];
	return "";
}

static void rows_free(struct console_rows *rows)
{
	for (size_t i = 0; i < rows->columns; i++)
		mem_free(rows->names[i]);
	for (size_t i = 0; i < rows->count * rows->columns; i++)
		mem_free(rows->cells[i]);
	mem_free(rows->names);
	mem_free(rows->cells);
	*rows = (struct console_rows){ NULL, NULL, 0, 0 };
}

static void sample_free(struct round *s)
{
	rows_free(&s->pools);
	rows_free(&s->stats);
	rows_free(&s->reasons);
	rows_free(&s->alarms);
}

static double number(const struct console_rows *rows, size_t row, const char *column)
{
	return strtod(cell(rows, row, column), NULL);
}

/* The console has a row, too, with the commands of this program. */
static bool top_is_console(const struct console_rows *rows, size_t row)
{
	return strcmp(cell(rows, row, "database"), "pgbouncer") == 0;
}

static bool top_ask(struct top *t, const char *command, struct console_rows *rows)
{
	return console_ask(&t->connection, &t->address, command, rows, t->why, sizeof(t->why));
}

/* Asks the console. False: t->why has the reason. */
static bool take_sample(struct top *t)
{
	struct round s = { .at = 0 };

	if (!top_ask(t, "SHOW POOLS", &s.pools) || !top_ask(t, "SHOW STATS_TOTALS", &s.stats) ||
	    !top_ask(t, "SHOW REASONS", &s.reasons) || !top_ask(t, "SHOW ALARMS", &s.alarms) ||
	    (t->averages.count == 0 && !top_ask(t, "SHOW STATS_AVERAGES", &t->averages))) {
		sample_free(&s);
		/* another process may answer next */
		sample_free(&t->now);
		sample_free(&t->before);
		return false;
	}
	s.at = clock_monotonic();
	sample_free(&t->before);
	t->before = t->now;
	t->now = s;
	t->why[0] = '\0';
	return true;
}

/* Returns the row with the same text in the column, or rows->count. */
static size_t row_like(const struct console_rows *rows, const char *column, const char *text)
{
	size_t i = 0;

	while (i < rows->count && strcmp(cell(rows, i, column), text) != 0)
		i++;
	return i;
}

/* Returns how much a counter of the database has grown since the last round. */
static double growth(const struct top *t, size_t row, const char *column)
{
	size_t old = row_like(&t->before.stats, "database", cell(&t->now.stats, row, "database"));
	double value = number(&t->now.stats, row, column) -
		       (old < t->before.stats.count ? number(&t->before.stats, old, column) : 0);

	return value > 0 ? value : 0;
}

/* Returns a counter of a database by second. */
static double top_rate(const struct top *t, size_t row, const char *column)
{
	size_t average;

	if (t->before.at > 0 && t->now.at > t->before.at)
		return growth(t, row, column) * USEC / (double)(t->now.at - t->before.at);
	average = row_like(&t->averages, "database", cell(&t->now.stats, row, "database"));
	return average < t->averages.count ? number(&t->averages, average, column) : 0;
}

/* ---- the screen ---- */

/* Appends a line, cut to t->columns characters. */
__attribute__((format(printf, 3, 4)))
static void put_line(struct top *t, const char *style, const char *format, ...)
{
	char text[1024];
	size_t size = 0;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (int shown = 0; text[size]; size++) {
		bool begins = ((unsigned char)text[size] & 0xc0) != 0x80;

		if (t->columns > 0 && begins && shown == t->columns)
			break;
		shown += begins;
	}
	if (t->has_colour && *style)
		bytes_append_format(&t->screen, "\033[%sm", style);
	bytes_append(&t->screen, text, size);
	if (t->has_colour && *style)
		bytes_append_text(&t->screen, "\033[0m");
	bytes_append_text(&t->screen, t->is_live ? "\033[K\r\n" : "\n");
}

static int top_compare(const void *left, const void *right)
{
	const struct line *a = left, *b = right;
	int by_database = strcmp(a->database, b->database);

	return by_database != 0 ? by_database : strcmp(a->user, b->user);
}

static int compare_waiting(const void *left, const void *right)
{
	const struct line *a = left, *b = right;

	return a->waiting != b->waiting	  ? (a->waiting < b->waiting ? 1 : -1)
	       : a->servers != b->servers ? (a->servers < b->servers ? 1 : -1)
					  : top_compare(left, right);
}

static int compare_servers(const void *left, const void *right)
{
	const struct line *a = left, *b = right;

	return a->servers != b->servers ? (a->servers < b->servers ? 1 : -1)
					: top_compare(left, right);
}

static int compare_queries(const void *left, const void *right)
{
	const struct line *a = left, *b = right;

	return a->queries != b->queries ? (a->queries < b->queries ? 1 : -1)
					: top_compare(left, right);
}

/* Returns the *count lines of the table in the order of t->sort; the caller frees them. */
static struct line *make_lines(const struct top *t, size_t *count)
{
	static int (*const orders[])(const void *, const void *) = {
		[SORT_WAITING] = compare_waiting,
		[SORT_SERVERS] = compare_servers,
		[SORT_QUERIES] = compare_queries,
		[SORT_NAME] = top_compare,
	};
	struct line *lines = mem_must((t->now.pools.count + 1) * sizeof(*lines));

	*count = 0;
	for (size_t i = 0; i < t->now.pools.count; i++) {
		const char *database = cell(&t->now.pools, i, "database");
		size_t stats = row_like(&t->now.stats, "database", database);

		if (top_is_console(&t->now.pools, i))
			continue;
		lines[(*count)++] = (struct line){
			.row = i,
			.database = database,
			.user = cell(&t->now.pools, i, "user"),
			.waiting = number(&t->now.pools, i, "cl_waiting"),
			.servers = number(&t->now.pools, i, "sv_active"),
			.queries = stats < t->now.stats.count ? top_rate(t, stats, "query_count")
							      : 0,
		};
	}
	qsort(lines, *count, sizeof(*lines), orders[t->sort]);
	return lines;
}

static void put_totals(struct top *t)
{
	static const char *const columns[] = { "cl_active",
					       "cl_waiting",
					       "sv_active",
					       "sv_idle",
					       "sv_used",
					       "sv_login",
					       "sv_tested",
					       "cl_active_cancel_req",
					       "cl_waiting_cancel_req" };
	double sums[sizeof(columns) / sizeof(columns[0])] = { 0 }, queries = 0, transactions = 0,
				      query_time = 0, wait_time = 0, logins = 0, assigned = 0;
	bool has_rates = t->before.at > 0;

	for (size_t i = 0; i < t->now.pools.count; i++)
		for (size_t k = 0;
		     !top_is_console(&t->now.pools, i) && k < sizeof(columns) / sizeof(columns[0]);
		     k++)
			sums[k] += number(&t->now.pools, i, columns[k]);
	for (size_t i = 0; i < t->now.stats.count; i++) {
		double each = top_rate(t, i, "query_count"),
		       lent = top_rate(t, i, "server_assignment_count");

		if (top_is_console(&t->now.stats, i))
			continue;
		queries += each;
		assigned += lent;
		transactions += top_rate(t, i, "xact_count");
		logins += top_rate(t, i, "client_login_count") +
			  (has_rates ? 0 : top_rate(t, i, "avg_client_login_count"));
		/* the averages are times of one query and one assignment */
		query_time += top_rate(t, i, "query_time") * (has_rates ? 1 : each);
		wait_time += top_rate(t, i, "wait_time") * (has_rates ? 1 : lent);
	}
	put_line(t, "",
		 "clients: %.0f active, %.0f waiting, %.0f cancel requests    servers: %.0f "
		 "active, %.0f idle, %.0f used, %.0f testing, %.0f in login",
		 sums[0], sums[1], sums[7] + sums[8], sums[2], sums[3], sums[4], sums[6], sums[5]);
	put_line(t, "",
		 "%.1f queries/s of %.3f ms, %.1f transactions/s, %.1f logins/s, wait %.3f ms for "
		 "each of %.1f assignments/s",
		 queries, queries > 0 ? query_time / queries / 1000 : 0, transactions, logins,
		 assigned > 0 ? wait_time / assigned / 1000 : 0, assigned);
}

/* The reasons with the most ended connections: since the last round, or since the start. */
static void put_reasons(struct top *t)
{
	const struct console_rows *rows = &t->now.reasons;
	char text[1024] = "", shown[PRINTABLE_NAME * 2];
	double last = 1e300;
	size_t last_row = 0, used = 0;

	for (int place = 0; place < REASONS_MOST; place++) {
		size_t best = rows->count;
		double most = 0;

		for (size_t i = 0; i < rows->count; i++) {
			size_t old = row_like(&t->before.reasons, "reason",
					      cell(rows, i, "reason"));
			double count = number(rows, i, "count") -
				       (old < t->before.reasons.count
						? number(&t->before.reasons, old, "count")
						: 0);

			if (count > most && (count < last || (count == last && i > last_row))) {
				most = count;
				best = i;
			}
		}
		if (best == rows->count)
			break;
		used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "%s%.0f %s", used > 0 ? ", " : "", most,
			 printable_text(cell(rows, best, "reason"), shown, sizeof(shown)));
		last = most;
		last_row = best;
	}
	put_line(t, "", "ended%s: %s", t->before.at > 0 ? "" : " since the start",
		 *text ? text : "none");
}

/* A line for each of the first alarms that last: the critical ones come first. Returns the number
   of lines. */
static int put_alarms(struct top *t)
{
	const struct console_rows *rows = &t->now.alarms;
	char name[PRINTABLE_NAME], subject[PRINTABLE_TEXT], text[PRINTABLE_TEXT];
	int lines = 0;
	size_t left = 0;

	for (size_t i = 0; i < rows->count; i++) {
		bool is_critical = strcmp(cell(rows, i, "level"), "critical") == 0;

		if (number(rows, i, "active") == 0)
			continue;
		if (lines == ALARMS_MOST) {
			left++;
			continue;
		}
		lines++;
		put_line(t, is_critical ? "1;31" : "33", "alarm %s %s: %s",
			 printable_text(cell(rows, i, "alarm"), name, sizeof(name)),
			 printable_text(cell(rows, i, "subject"), subject, sizeof(subject)),
			 printable_text(cell(rows, i, "text"), text, sizeof(text)));
	}
	if (left > 0)
		put_line(t, "1;31", "... and %zu more alarms: SHOW ALARMS", left);
	return lines + (left > 0);
}

/* A line of the table. */
static void put_pool(struct top *t, const struct line *line, bool is_narrow)
{
	const struct console_rows *p = &t->now.pools;
	size_t row = line->row;
	char database[PRINTABLE_NAME], user[PRINTABLE_NAME], mode[PRINTABLE_NAME],
		held_by[PRINTABLE_NAME];
	double clients = number(p, row, "cl_active"),
	       longest = number(p, row, "maxwait") + number(p, row, "maxwait_us") / USEC,
	       idle = number(p, row, "sv_idle") + number(p, row, "sv_used");
	const char *style = line->waiting > 0 ? "1;31" : "";

	printable_name(line->database, database, sizeof(database));
	printable_name(line->user, user, sizeof(user));
	if (is_narrow)
		put_line(t, style, "%-16.16s %-12.12s %7.0f %7.0f %8.1f %6.0f %5.0f %9.1f",
			 database, user, clients, line->waiting, longest, line->servers, idle,
			 line->queries);
	else
		put_line(t, style,
			 "%-20s %-16s %-11s %7.0f %7.0f %9.1f %7.0f %7.0f %7.0f %9.1f  %s",
			 database, user, printable_text(cell(p, row, "pool_mode"), mode, 16),
			 clients, line->waiting, longest, line->servers, idle,
			 number(p, row, "sv_login"), line->queries,
			 printable_text(cell(p, row, "held_by"), held_by, sizeof(held_by)));
}

static void top_draw(struct top *t)
{
	size_t count;
	struct line *lines = make_lines(t, &count);
	/* without the lines above and below the table, and "... and more pools" */
	int room = t->rows > 0 ? t->rows - 8 : INT32_MAX, drawn = 0;
	char when[64], host[PRINTABLE_NAME];
	bool has_cause = has_column(&t->now.pools, "held_by"),
	     is_narrow = t->columns > 0 && t->columns < WIDE;

	if (t->is_live)
		bytes_append_text(&t->screen, "\033[H");
	/* the address is last: a long name of a directory must not push the rest out of the line */
	put_line(t, "1", "pgweir top  %s%s%s  %s:%s",
		 clock_format(clock_wall(), 0, when, sizeof(when)), t->is_paused ? "  PAUSED" : "",
		 *t->why ? "  NO CONNECTION" : "",
		 printable_text(t->address.host, host, sizeof(host)), t->address.port);
	if (*t->why) {
		char why[PRINTABLE_TEXT];

		put_line(t, "31", "%s", printable_text(t->why, why, sizeof(why)));
	} else {
		put_totals(t);
		put_reasons(t);
		room -= put_alarms(t);
		put_line(t, "", "%s", "");
		if (is_narrow)
			put_line(t, "7", "%-16.16s %-12.12s %7s %7s %8s %6s %5s %9s", "DATABASE",
				 "USER", "CLIENTS", "WAITING", "MAXWAIT", "ACTIVE", "IDLE",
				 "QUERIES/S");
		else
			put_line(t, "7", "%-20s %-16s %-11s %7s %7s %9s %7s %7s %7s %9s  %s",
				 "DATABASE", "USER", "MODE", "CLIENTS", "WAITING", "MAXWAIT",
				 "ACTIVE", "IDLE", "LOGIN", "QUERIES/S",
				 has_cause ? "HELD BY" : "");
	}
	for (size_t i = 0; !*t->why && i < count; i++, drawn++) {
		if (drawn >= room) {
			put_line(t, "", "... and %zu more pools", count - i);
			break;
		}
		put_pool(t, &lines[i], is_narrow);
	}
	if (t->is_live) {
		bytes_append_format(&t->screen, "\033[J\033[%d;1H", t->rows);
		put_line(t, "",
			 "sorted by %s. Keys: w waiting, s servers, r queries/s, n name, p pause, "
			 "q quit",
			 sort_names[t->sort]);
		/* without a line feed at the end, which would scroll */
		t->screen.end -= 2;
	}
	mem_free(lines);
}

/* Writes the screen. False: the output has been closed. */
static bool show(struct top *t)
{
	ssize_t n = 0;

	top_draw(t);
	for (size_t at = 0; n >= 0 && at < bytes_size(&t->screen); at += n > 0 ? (size_t)n : 0) {
		n = write(STDOUT_FILENO, bytes_front(&t->screen) + at, bytes_size(&t->screen) - at);
		if (n < 0 && errno == EINTR)
			n = 0;
	}
	bytes_consume(&t->screen, bytes_size(&t->screen));
	return n >= 0;
}

/* ---- the terminal ---- */

static void measure(struct top *t)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
		t->columns = size.ws_col;
		t->rows = size.ws_row;
	} else {
		t->columns = 80;
		t->rows = 24;
	}
}

static void terminal_begin(void)
{
	struct sigaction action = { .sa_handler = on_top_signal };
	static const int numbers[] = { SIGWINCH, SIGINT, SIGTERM, SIGHUP };
	static const char begin[] = "\033[?1049h\033[?25l\033[2J";
	struct termios raw;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
	if (tcgetattr(STDIN_FILENO, &saved_terminal) == 0) {
		raw = saved_terminal;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	if (write(STDOUT_FILENO, begin, sizeof(begin) - 1) < 0)
		has_stopped = 1;
}

static void terminal_end(void)
{
	static const char end[] = "\033[?25h\033[?1049l";

	tcsetattr(STDIN_FILENO, TCSANOW, &saved_terminal);
	if (write(STDOUT_FILENO, end, sizeof(end) - 1) < 0)
		return;
}

static void take_key(struct top *t, char key)
{
	static const char keys[] = "wsrn";
	const char *at = key ? strchr(keys, key) : NULL;

	if (at)
		t->sort = (enum sort_key)(at - keys);
	else if (key == 'p' || key == ' ')
		t->is_paused = !t->is_paused;
	else if (key == 'q' || key == 3 || key == 4)
		has_stopped = 1;
}

static int live(struct top *t)
{
	usec_t due = clock_monotonic();

	terminal_begin();
	measure(t);
	while (!has_stopped) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
		usec_t now = clock_monotonic();
		char keys[32];
		ssize_t n;

		if (has_resized) {
			has_resized = 0;
			measure(t);
		}
		if (now >= due) {
			if (!t->is_paused)
				take_sample(t);
			due = now + (usec_t)(t->seconds * USEC);
		}
		if (!show(t))
			break;
		now = clock_monotonic();
		if (poll(&input, 1, now < due ? (int)((due - now) / 1000) + 1 : 0) <= 0)
			continue;
		n = read(STDIN_FILENO, keys, sizeof(keys));
		/* the terminal has gone */
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		for (ssize_t i = 0; i < n; i++)
			take_key(t, keys[i]);
	}
	terminal_end();
	return 0;
}

/* ---- the command ---- */

/* Sends a command of the console, and prints its rows: the names of the columns first, with a bar
   between two columns, as psql -A does. Returns the exit status; 1: t->why has the reason. */
static int top_run_command(struct top *t, const char *command)
{
	struct console_rows rows;
	int status = top_ask(t, command, &rows) ? 0 : 1;

	for (size_t i = 0; status == 0 && i < rows.columns; i++)
		printf("%s%c", rows.names[i], i + 1 < rows.columns ? '|' : '\n');
	for (size_t i = 0; status == 0 && i < rows.count * rows.columns; i++)
		printf("%s%c", rows.cells[i], (i + 1) % rows.columns != 0 ? '|' : '\n');
	rows_free(&rows);
	return status;
}

static int usage(FILE *to, int status)
{
	fputs("Usage:\n"
	      "  pgweir top [OPTION]... [FILE.ini | CONNECTION STRING]\n"
	      "\n"
	      "Options:\n"
	      "      --once             print one screen of plain text and end; so it is if the "
	      "output is no terminal\n"
	      "      --interval=SECONDS time between two rounds, from 0.1 to 3600; default: 1\n"
	      "      --sort=KEY         waiting (the default), servers, queries or name\n"
	      "      --command=COMMAND  send one command of the console, print its rows and end; "
	      "at most 5 seconds\n"
	      "  -h, --help             print this\n"
	      "\n"
	      "Keys: w, s, r, n sort by waiting clients, active servers, queries/s, name; p "
	      "pauses; q ends.\n"
	      "The default is " DEFAULT_FILE ".\n",
	      to);
	return status;
}

/* False: invalid. */
static bool read_sort(struct top *t, const char *word)
{
	static const char *const words[] = { "waiting", "servers", "queries", "name" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i]) == 0) {
			t->sort = (enum sort_key)i;
			return true;
		}
	}
	return false;
}

int top_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "once", no_argument, NULL, '1' },
		{ "interval", required_argument, NULL, 'i' },
		{ "sort", required_argument, NULL, 's' },
		{ "command", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *command = NULL, *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");
	struct top t = { .seconds = 1, .is_live = true };
	int option, status = 0;
	char *end;

	optind = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout, 0);
		if (option == 'c')
			command = optarg;
		if (option == '1' || option == 'c')
			t.is_live = false;
		else if (option == 'i' && (t.seconds = strtod(optarg, &end),
					   *end || !(t.seconds >= 0.1 && t.seconds <= 3600)))
			return usage(stderr, 2);
		else if ((option == 's' && !read_sort(&t, optarg)) || option == '?')
			return usage(stderr, 2);
	}
	if (optind + 1 < argc)
		return usage(stderr, 2);
	t.is_live &= isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	t.has_colour = t.is_live && !(no_colour && *no_colour) &&
		       !(terminal && strcmp(terminal, "dumb") == 0);
	if (!console_address_read(&t.address, optind < argc ? argv[optind] : DEFAULT_FILE, t.why,
			      sizeof(t.why)) ||
	    (command ? top_run_command(&t, command) != 0 : !t.is_live && !take_sample(&t))) {
		fprintf(stderr, "pgweir top: %s\n", t.why);
		if (strstr(t.why, "authentication failed") || strstr(t.why, "not allowed"))
			fprintf(stderr,
				"Run it as the account of the pooler (sudo -u pgweir pgweir top), "
				"or as one of stats_users: pgweir top \"host=%s port=%s "
				"user=...\"\n",
				t.address.host, t.address.port);
		status = 1;
	} else if (t.is_live) {
		status = live(&t);
	} else if (!command) {
		status = show(&t) ? 0 : 1;
	}
	console_disconnect(&t.connection);
	sample_free(&t.now);
	sample_free(&t.before);
	rows_free(&t.averages);
	bytes_free(&t.screen);
	mem_wipe(&t.address, sizeof(t.address));
	return status;
}
