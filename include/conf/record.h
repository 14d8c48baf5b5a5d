#ifndef CONF_RECORD_H
#define CONF_RECORD_H

#include "conf/conf.h"

/*
 * The lines of pg_hba.conf and pg_ident.conf: what both grammars have in common. See record.c for it.
 */

/* A word; in a list of them. Quotes are taken off. */
struct record_word {
	const char *text;
	bool is_quoted;			/* it began with a quote: then it is a name and no keyword */
	bool is_unknown;		/* @file that cannot be read: it may stand for any words; the record is faulty */
	struct record_word *next;
};

/* Reads files and what they include. The owner fills the first part. */
struct record;
struct record_reader {
	struct arena *arena;		/* words, and names of files, live here */
	struct conf_problems *problems;
	void (*visit)(void *context, struct record *record);	/* each record, faulty ones too, in order */
	void *context;
	/* the reader's own; zero */
	int files;			/* read so far */
	size_t bytes;			/* in them */
	size_t faults;			/* records that cannot be used */
	uint64_t fingerprint;		/* of them: the same for the same records, whatever stands around them */
	struct conf_file *sources;	/* files read so far, the last one first; in the arena */
	bool is_out_of_memory;
};

/* One record: a line, with those that a backslash at the end joins to it. */
struct record {
	struct record_reader *reader;
	const char *file;		/* path, in the arena */
	int line;			/* the first of its lines, from 1 */
	char *at;			/* what has not been read of it */
	const char *text;		/* a copy of the whole, for the fingerprint; may hold a password */
	int depth;			/* of files within files */
	bool is_faulty;			/* it cannot be used; the problem is said */
	bool is_unreadable;		/* nor can its next field be read, nor any behind that */
	bool is_cut;			/* the field that was read last ended with a comma that nothing followed */
};

/* Reads a file. False: it cannot be read at all, or there is no memory; a problem (an error) says so. */
bool record_read_file(struct record_reader *reader, const char *path);

/* The next field: words with commas directly behind them, @file replaced by the words of the file. NULL at the end of the
   line, or where the field cannot be read (then the record is faulty). The other fields of a faulty
   record can be read. */
struct record_word *record_field(struct record *record);
/* The same, where blanks may stand on either side of the commas. */
struct record_word *record_list(struct record *record);
/* The next word of those that blanks and commas separate, as options are. NULL at the end of the line, or when the record
   is faulty. */
struct record_word *record_option(struct record *record);
/* The record cannot be used: adds a problem, an error, once for each record, and counts it. What has been read of it stays
   right, and the next fields can be read. */
void record_fault(struct record *record, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* There was no memory for something of it: nothing of the reading can be used. */
void record_no_memory(struct record *record);
/* Something about it was hardly meant; it holds all the same. */
void record_warn(struct record *record, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True when the word is this keyword: not quoted, the same case. */
bool record_is_keyword(const struct record_word *word, const char *keyword);

#endif
