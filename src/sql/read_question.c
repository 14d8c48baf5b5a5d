/*
 * The question to the catalogue about the names in a text that only reads (read_text.c): none of
 * them may lead to code or to data that the text does not show.
 *
 *	functions	a function of a user may replace a built-in one: by its schema in
 *			search_path, or by the types of its arguments
 *	attributes	if the table has no column f, then t.f means f(t); (x).f means f(x) for a
 *			value of any type
 *	types		a cast to a domain checks the constraint of the domain
 *	operators	may be replaced like functions; IN, LIKE and other keywords call operators,
 *			too
 *	casts		may be implicit
 *	relations	views and policies call functions; foreign tables are elsewhere; a standby
 *			has no unlogged tables, and old values of sequences
 *	columns		domains, composite types and ranges may call functions of users
 *
 * Code in C that is not volatile is trusted: only superusers create such functions, and nearly all
 * of them belong to extensions. A name counts in every schema, unless the text names the schema of
 * a relation. Temporary relations of other sessions are ignored.
 *
 * Everything is qualified, because the session of the question has the search_path of a client.
 */
#include "sql/read_text.h"

#define EQUALS " OPERATOR(pg_catalog.=) "
#define EQUALS_NOT " OPERATOR(pg_catalog.<>) "
#define NO(rows) "NOT EXISTS(SELECT 1 FROM " rows ")"
#define IS_ONE(value, list) value EQUALS "ANY('{" list "}'::pg_catalog.\"char\"[])"
#define IS_NONE(value, list) value EQUALS_NOT "ALL('{" list "}'::pg_catalog.\"char\"[])"
#define OF_USER(row) row ".oid OPERATOR(pg_catalog.>=) '16384'::pg_catalog.oid"
/* SQL: true if the language of the function is neither internal nor C, or the function is volatile;
   or if this is true of a function of the aggregate. */
#define UNKNOWN(function) \
	function ".provolatile" EQUALS "'v' OR " function ".prolang" EQUALS_NOT \
		 "ALL('{12,13}'::pg_catalog.oid[])"
#define UNTRUSTED(function) \
	"(" UNKNOWN(function) " OR (" function ".prokind" EQUALS \
			      "'a' AND EXISTS(SELECT 1 FROM pg_catalog.pg_aggregate g JOIN " \
			      "pg_catalog.pg_proc f ON f.oid" EQUALS \
			      "ANY(ARRAY[g.aggtransfn,g.aggfinalfn,g.aggcombinefn,g.aggserialfn," \
			      "g.aggdeserialfn,g.aggmtransfn,g.aggminvtransfn,g.aggmfinalfn]::pg_" \
			      "catalog.oid[]) " \
			      "" \
			      "WHERE g.aggfnoid" EQUALS function ".oid AND (" UNKNOWN("f") "))))"
#define NAMED(name, list) name EQUALS "ANY((SELECT " list " FROM n)::pg_catalog.name[])"

static const char *const operators[] = {
#define READ_OPERATOR(text) text,
#define READ_OPERATOR_IMPLIED(text) READ_OPERATOR(text)
#include "tbl/read_operators.tbl"
#undef READ_OPERATOR
#undef READ_OPERATOR_IMPLIED
};
static const bool is_implied[] = {
#define READ_OPERATOR(text) false,
#define READ_OPERATOR_IMPLIED(text) true,
#include "tbl/read_operators.tbl"
#undef READ_OPERATOR
#undef READ_OPERATOR_IMPLIED
};

/* An attribute may be a function of a row, of a value (also of an alias of a function in FROM), or
   a cast to a domain of a row. PostgreSQL's own functions may be volatile or answer for the server:
   setseed, ts_stat, current_setting. */
static const char functions[] =
	"SELECT " NO("pg_catalog.pg_proc p WHERE " OF_USER("p") " AND " UNTRUSTED("p") " AND "
	NAMED("p.proname", "functions"))
	" AND " NO("pg_catalog.pg_type t WHERE " OF_USER("t") " AND " IS_NONE("t.typtype", "b,e,c")
	" AND " NAMED("t.typname", "functions"))
	" AND " NO("pg_catalog.pg_proc p WHERE " NAMED("p.proname", "attributes")
	" AND p.pronargs OPERATOR(pg_catalog.>) 0"
		   " AND (p.provolatile" EQUALS "'v' OR p.proname" EQUALS "'current_setting' OR ("
		   OF_USER("p") " AND " UNTRUSTED("p") "))")
	" AND " NO("pg_catalog.pg_type t JOIN pg_catalog.pg_type b ON b.oid"
	EQUALS "t.typbasetype WHERE " IS_ONE("b.typtype", "c,d")
		   " AND " NAMED("t.typname", "attributes"))
	" AND " NO("pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid"
	EQUALS "o.oprcode WHERE " OF_USER("o") " AND (" UNKNOWN("p") ")"
		   " AND " NAMED("o.oprname", "operators"))
	" AND " NO("pg_catalog.pg_cast s JOIN pg_catalog.pg_proc p ON p.oid"
	EQUALS "s.castfunc WHERE " OF_USER("s") " AND (" UNKNOWN("p") ")");

/* After a row t of pg_type: y is the type, or the type of the elements of an array. Enums and base
   types are in C. Domains of such types are harmless if their constraints call only trusted
   functions. */
#define ELEMENT_OF_T \
	" JOIN pg_catalog.pg_type y ON y.oid" EQUALS "CASE WHEN t.typcategory" EQUALS \
	"'A' AND t.typelem" EQUALS_NOT "'0'::pg_catalog.oid THEN t.typelem ELSE t.oid END "
#define RUNS_CODE \
	OF_USER("y") \
	" AND " IS_NONE( \
		"y.typtype", \
		"b,e") " AND NOT (y.typtype" EQUALS "'d' AND " \
		       "EXISTS(SELECT 1 FROM pg_catalog.pg_type b WHERE b.oid" EQUALS \
		       "y.typbasetype " \
		       "AND (b.oid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid OR " IS_ONE( \
			       "b.typtype", \
			       "b,e") " AND b.typcategory" EQUALS_NOT \
				      "'A')) AND " NO("pg_catalog.pg_constraint k JOIN " \
						      "pg_catalog.pg_depend d ON d.classid" EQUALS \
						      "'2606'::pg_catalog.oid AND d.objid" EQUALS \
						      "k.oid " \
						      "LEFT JOIN pg_catalog.pg_operator o ON " \
						      "d.refclassid" EQUALS \
						      "'2617'::pg_catalog.oid AND o.oid" EQUALS \
						      "d.refobjid " \
						      "JOIN pg_catalog.pg_proc p ON p.oid" EQUALS \
						      "CASE WHEN d.refclassid" EQUALS \
						      "'1255'::pg_catalog.oid THEN d.refobjid " \
						      "ELSE o.oprcode::pg_catalog.oid END " \
						      "WHERE k.contypid" EQUALS \
						      "y.oid AND (" UNKNOWN("p") ")") ")"

static const char types[] = " AND " NO("pg_catalog.pg_type t" ELEMENT_OF_T "WHERE " NAMED(
	"t.typname",
	"types") " AND " RUNS_CODE) " AND " NO("rel JOIN pg_catalog.pg_attribute a ON "
					       "a.attrelid" EQUALS
					       "rel.oid AND a.attnum OPERATOR(pg_catalog.>) 0 AND "
					       "NOT a.attisdropped "
					       "JOIN pg_catalog.pg_type t ON t.oid" EQUALS
					       "a.atttypid" ELEMENT_OF_T "WHERE " RUNS_CODE);

static const char relations[] = " AND " NO(
	"rel JOIN pg_catalog.pg_class c ON c.oid" EQUALS
	"rel.oid WHERE " IS_NONE("c.relkind", "r,p,m") " OR c.relpersistence" EQUALS_NOT
						       "'p' OR c.relrowsecurity");

/* The relations with the names, and their partitions and children. A text cannot select from
   indexes, composite types and TOAST tables. */
static const char tree[] =
	",rel(oid) AS (SELECT c.oid FROM r JOIN pg_catalog.pg_class c ON c.relname" EQUALS
	"r.name AND " IS_NONE("c.relkind",
			      "i,I,c,t") " AND c.relpersistence" EQUALS_NOT "'t' "
					 "JOIN pg_catalog.pg_namespace s ON s.oid" EQUALS
					 "c.relnamespace AND (r.schema" EQUALS
					 "'' OR r.schema" EQUALS "s.nspname) "
					 "UNION SELECT i.inhrelid FROM rel JOIN "
					 "pg_catalog.pg_inherits i ON i.inhparent" EQUALS
					 "rel.oid) ";

/* Appends the name as PostgreSQL reads it. The recogniser has excluded quotes and backslashes. */
static void append_name(struct bytes *sql, const uint8_t *text, const struct read_name *n)
{
	bool is_quoted = n->at > 0 && text[n->at - 1] == '"';

	bytes_append_u8(sql, '\'');
	for (size_t i = n->at; i < (size_t)n->at + n->size; i++)
		bytes_append_u8(sql, !is_quoted && text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20
										    : text[i]);
	bytes_append_u8(sql, '\'');
}

/* Appends an array of the names of this kind. */
static void append_names(struct bytes *sql, const uint8_t *text, const struct read_name *list,
			 unsigned count, enum read_name_kind kind)
{
	bytes_append_text(sql, "ARRAY[''");
	for (unsigned i = 0; i < count; i++)
		if (list[i].kind == kind) {
			bytes_append_u8(sql, ',');
			append_name(sql, text, &list[i]);
		}
	bytes_append_text(sql, "]::pg_catalog.name[],");
}

static void append_operators(struct bytes *sql, uint64_t bits)
{
	bytes_append_text(sql, "ARRAY[''");
	for (unsigned i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (is_implied[i] || bits >> i & 1) {
			bytes_append_text(sql, ",'");
			bytes_append_text(sql, operators[i]);
			bytes_append_u8(sql, '\'');
		}
	bytes_append_text(sql, "]::pg_catalog.name[]");
}

static void append_relations(struct bytes *sql, const uint8_t *text, const struct read_name *list,
			     unsigned count)
{
	bytes_append_text(sql, "(VALUES (''::pg_catalog.name,''::pg_catalog.name)");
	for (unsigned i = 0; i < count; i++) {
		if (list[i].kind != READ_NAME_RELATION)
			continue;
		bytes_append_text(sql, ",(");
		if (i > 0 && list[i - 1].kind == READ_NAME_SCHEMA)
			append_name(sql, text, &list[i - 1]);
		else
			bytes_append_text(sql, "''");
		bytes_append_u8(sql, ',');
		append_name(sql, text, &list[i]);
		bytes_append_u8(sql, ')');
	}
	bytes_append_u8(sql, ')');
}

void read_names_ask(const uint8_t *text, const struct read_name *list, unsigned count,
		    uint64_t operator_bits, struct bytes *sql)
{
	bytes_append_text(sql,
			  "WITH RECURSIVE n(functions,attributes,types,operators) AS (SELECT ");
	append_names(sql, text, list, count, READ_NAME_FUNCTION);
	append_names(sql, text, list, count, READ_NAME_ATTRIBUTE);
	append_names(sql, text, list, count, READ_NAME_TYPE);
	append_operators(sql, operator_bits);
	bytes_append_text(sql, "),r(schema,name) AS ");
	append_relations(sql, text, list, count);
	bytes_append_text(sql, tree);
	bytes_append_text(sql, functions);
	bytes_append_text(sql, types);
	bytes_append_text(sql, relations);
}

void read_text_ask(const uint8_t *text, const struct read_names *names, struct bytes *sql)
{
	read_names_ask(text, names->list, names->count, names->operators, sql);
}
