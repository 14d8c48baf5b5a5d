#ifndef CONF_RECORD_H
#define CONF_RECORD_H

#include "conf/conf.h"

/*
 * The common syntax of pg_hba.conf and pg_ident.conf: see record.c.
 */

/* A word of a list, without quotes. */
struct record_word {
	const char *text;
	/* the text, or "" if it began with a quote: then it is a name, never a keyword */
	const char *keyword;
	/* @file that cannot be read, so it may mean any words; the record is faulty */
	bool is_unknown;
	struct record_word *next;
};

/* Reads files and the files that they include. The caller sets the first part. */
struct hba_record;
struct record_reader {
	struct arena *arena;		/* for words and file names */
	struct conf_problems *problems;
	/* called for each record in order, including faulty records */
	void (*visit)(void *context, struct hba_record *record);
	void *context;
	/* internal; must be zero */
	int files;			/* read so far */
	size_t bytes;			/* total size */
	size_t faults;			/* records that cannot be used */
	/* of the faulty records: a sum of hashes, independent of the other records */
	uint64_t fingerprint;
	struct conf_file *sources;	/* files read so far, the last one first; in the arena */
	bool is_out_of_memory;
};

/* A record: a line, with the lines that a backslash at the end joins to it. */
struct hba_record {
	struct record_reader *reader;
	const char *file;		/* path, in the arena */
	int line;			/* the first line of the record, from 1 */
	char *at;			/* the rest of the text that is not read yet */
	/* a copy of the whole text for the fingerprint; may contain a password */
	const char *text;
	int depth;			/* nesting depth of include files */
	bool is_faulty;			/* it cannot be used; a problem was added */
	bool is_unreadable;		/* the following fields cannot be read */
	/* the last field ended with a comma without a word after it */
	bool is_cut;
};

/* Reads a file. False: the file cannot be read at all, or no memory; an error was added. */
bool record_read_file(struct record_reader *reader, const char *path);

/* How commas join words to fields. */
enum record_comma {
	/* a comma ends the word and is skipped: each word is a field */
	COMMA_ENDS,
	COMMA_CONTINUES,		/* a comma directly after a word continues the field */
	COMMA_ANYWHERE,			/* a comma after blanks continues the field too */
	COMMA_IS_TEXT			/* a comma is part of the word */
};
/* Returns the next field, which is a list of words: @file is replaced by the words of the file.
   NULL at the end of the line, or if the field cannot be read (then the record is faulty). The
   other fields of a faulty record can be read. */
struct record_word *record_field(struct hba_record *record, enum record_comma comma);
/* Returns the next word as a field, for options. NULL at the end of the line, or if the record is
   faulty. */
struct record_word *record_word(struct hba_record *record, enum record_comma comma);
/* Marks the record as faulty: adds an error once for each record, and counts it. Words that were
   read before stay valid, and the next fields can be read. */
void record_fault(struct hba_record *record, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* No memory for this record: the result of the whole reading cannot be used. */
void record_no_memory(struct hba_record *record);

#endif
