#ifndef CONF_CONNSTR_H
#define CONF_CONNSTR_H

/*
 * The value of a database, user or peer: `key=value key='a b' key='it''s'`, blanks around = allowed.
 */
enum connstr_verdict { CONNSTR_PAIR, CONNSTR_END, CONNSTR_BAD };

/* Cuts the next pair off *cursor in place: *key and *value point into the text. CONNSTR_BAD: *why says which syntax was
   expected, without the text, which may contain a password; nothing more can be read. */
enum connstr_verdict connstr_next(char **cursor, char **key, char **value, const char **why);

#endif
