/*
 * A line of an HBA file in the syntax of PostgreSQL 16:
 *
 * local databases users method [options]
 * host databases users ip/length method [options]
 * host databases users ip mask method [options]
 *
 * and hostssl, hostnossl, hostgssenc and hostnogssenc like host. GSSAPI encryption is not
 * supported: a hostgssenc line is checked and matches no client, and hostnogssenc is the same as
 * host.
 *
 * A faulty line refuses every login that it could concern. If it were skipped, its clients would
 * get the next line, and a mistake in a `reject` line would admit them. The parts that could be
 * parsed (type of connection, databases, users, address) restrict the line; the other parts match
 * everything. "host shop bob 10.0.0.0/33 reject" refuses bob in shop from any address, and no other
 * user, because with any correct address the line concerns only bob.
 *
 * A missing or extra field shifts the other fields: in "local all reject" the user seems to be
 * called reject. Therefore databases and users are used only if the next field, an address or a
 * method, is valid; otherwise the line refuses every connection of its type. The same holds for a
 * line with an unclosed quote, because an earlier quote may be the wrong one. If the type cannot be
 * parsed, the line may be the rest of another line, and it refuses all connections.
 *
 * Valid lines that pgweir does not support refuse in the same way: keywords that need PostgreSQL's
 * roles (+group, samerole, samegroup), host names, and other methods. A supported line that can
 * never admit a client (peer over TCP, cert without TLS) is used with a warning.
 */
#include "conf/hba_parts.h"

#include "base/text.h"
#include "conf/pattern.h"

#include <arpa/inet.h>
#include <string.h>

/* The record is used. */
#define WARN(record, ...) \
	conf_problem_add((record)->reader->problems, true, (record)->file, (record)->line, \
			 __VA_ARGS__)

/* ---- the first field ---- */

static bool read_type(struct hba_line *l, struct hba_record *record, enum hba_tls tls)
{
	static const struct {
		const char *word;
		unsigned transports;
	} types[] = {
		{ "local", TRANSPORT_LOCAL },
		{ "host", TRANSPORT_TLS | TRANSPORT_CLEAR },
		{ "hostssl", TRANSPORT_TLS },
		{ "hostnossl", TRANSPORT_CLEAR },
		{ "hostnogssenc", TRANSPORT_TLS | TRANSPORT_CLEAR },
		{ "hostgssenc", 0 },
	};
	const struct record_word *word = record_field(record, COMMA_CONTINUES);
	size_t i = 0;

	if (!word)
		return false;
	while (i < sizeof(types) / sizeof(types[0]) && strcmp(types[i].word, word->text) != 0)
		i++;
	if (word->next || i == sizeof(types) / sizeof(types[0])) {
		record_fault(record,
			     "\"%.64s\" is no kind of connection; expected local, host, hostssl, "
			     "hostnossl, "
			     "hostgssenc or hostnogssenc",
			     word->text);
		return false;
	}
	l->transports = types[i].transports;
	if (l->transports == TRANSPORT_TLS && tls == HBA_TLS_OFF)
		WARN(record, "hostssl fits nobody while \"client_tls_sslmode\" is disable");
	return true;
}

/* ---- methods ---- */

static const char foreign_methods[] = "gss, sspi, ident, radius, bsd, oauth, krb5, crypt";

/* Returns the method with this keyword; AUTH_METHODS: none. The word of auth_type is accepted too
   ("plain" for password). */
static enum auth_type find_method(const char *word)
{
	enum auth_type i = 0;

	while (i < AUTH_METHODS &&
	       (!auth_methods[i].keyword || (strcmp(auth_methods[i].keyword, word) != 0 &&
					     strcmp(auth_methods[i].word, word) != 0)))
		i++;
	return i;
}

/* Whether PostgreSQL or pgweir has such a method. */
static bool is_method(const char *word)
{
	return find_method(word) < AUTH_METHODS || text_list_has(foreign_methods, word, false);
}

/* ---- addresses ---- */

/*
 * An address has a prefix length (10.0.0.0/8) or a mask (10.0.0.0 255.0.0.0). As in PostgreSQL,
 * bits of the address outside of the mask are ignored, and a mask may have holes. Host names are
 * not supported: a name server would decide which client is admitted, and the login would wait for
 * it.
 */

/* Parses an address. Returns its size, 4 or 16, or 0 if it is not an address. The zone of a
   link-local address ("%eth0") is ignored. */
static uint8_t read_ip(const char *text, size_t size, uint8_t ip[16])
{
	char copy[INET6_ADDRSTRLEN], *zone;

	if (size >= sizeof(copy))
		return 0;
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (inet_pton(AF_INET, copy, ip) == 1)
		return 4;
	zone = strchr(copy, '%');
	if (zone)
		*zone = '\0';
	return inet_pton(AF_INET6, copy, ip) == 1 ? 16 : 0;
}

/* Parses "10.0.0.0/8", or an address with the mask `mask` (may be NULL). An IPv4-mapped IPv6
   address becomes an IPv4 address if the mask allows that: ::ffff:10.0.0.0/104 is 10.0.0.0/8.
   Returns NULL, or a description of the fault. */
static const char *parse_address(struct hba_address *a, const char *text, const char *mask)
{
	static const uint8_t ones[HBA_MAPPED_SIZE] = { 255, 255, 255, 255, 255, 255,
						       255, 255, 255, 255, 255, 255 };
	size_t size = strcspn(text, "/");
	int64_t bits;

	a->kind = HBA_ADDRESS_MASK;
	a->size = read_ip(text, size, a->ip);
	if (a->size == 0)
		return "is no IPv4 or IPv6 address (host names are not supported)";
	if (text[size] == '/') {
		if (strspn(text + size + 1, "0123456789") != strlen(text + size + 1) ||
		    !text_to_int64(text + size + 1, &bits) || bits > a->size * 8)
			return "has no valid length behind the \"/\"";
		memset(a->mask, 0, sizeof(a->mask));
		for (unsigned i = 0; i < (unsigned)bits; i++)
			a->mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
	} else if (!mask) {
		return "has no mask: expected \"/LENGTH\", or a mask behind it";
	} else if (read_ip(mask, strlen(mask), a->mask) != a->size) {
		return "is not followed by a mask of the same kind";
	}
	if (a->size == 16 && memcmp(a->ip, HBA_MAPPED_PREFIX, HBA_MAPPED_SIZE) == 0 &&
	    memcmp(a->mask, ones, HBA_MAPPED_SIZE) == 0) {
		memmove(a->ip, a->ip + HBA_MAPPED_SIZE, 4);
		memmove(a->mask, a->mask + HBA_MAPPED_SIZE, 4);
		a->size = 4;
	}
	return NULL;
}

/* Whether an address, 4 or 16 bytes, looks like a mask. */
static bool may_be_mask(const struct hba_address *a)
{
	size_t i = 0;
	uint8_t rest;

	while (i < a->size && a->ip[i] == 0xff)
		i++;
	/* a mask with holes usually begins with a byte 0xff too */
	if (i > 0)
		return true;
	/* the byte must be ones followed by zeros: its complement plus one is a power of two */
	rest = (uint8_t)~a->ip[0];
	if (rest & (uint8_t)(rest + 1))
		return false;
	for (i = 1; i < a->size; i++)
		if (a->ip[i])
			return false;
	return true;
}

/* ---- databases and users ---- */

/* Matches any database or user, and physical replication. */
static void fit_every_name(struct hba_names *names)
{
	names->all = names->replication = true;
}

/* An unsupported word makes the record faulty and matches every name, but not physical replication:
   only the keyword `replication` matches that. */
static void hba_line_add_name(struct hba_names *names, struct hba_record *record,
			      const struct record_word *word, bool is_database)
{
	const char *keyword = word->keyword;
	struct hba_pattern *node;
	char why[160];

	if (word->is_unknown) {
		fit_every_name(names);
	} else if (strcmp(keyword, "all") == 0) {
		names->all = true;
	} else if (is_database && strcmp(keyword, "sameuser") == 0) {
		names->same_user = true;
	} else if (is_database && strcmp(keyword, "replication") == 0) {
		names->replication = true;
	} else if (is_database &&
		   (strcmp(keyword, "samerole") == 0 || strcmp(keyword, "samegroup") == 0)) {
		record_fault(
			record,
			"\"%s\" is not supported: the pooler does not know the roles of a server",
			word->text);
		names->all = true;
	} else if (!is_database && keyword[0] == '+') {
		record_fault(record,
			     "\"%.64s\" is not supported: the pooler does not know who is a member "
			     "of a role; list "
			     "the users, or put them into a file and write @FILE",
			     word->text);
		names->all = true;
	} else if (word->text[0] == '/') {
		node = arena_take(record->reader->arena, sizeof(*node));
		if (!node) {
			record_no_memory(record);
			return;
		}
		node->pattern = pattern_new(word->text + 1, why, sizeof(why));
		if (!node->pattern) {
			record_fault(record, "the regular expression \"/%.64s\" cannot be used: %s",
				     word->text + 1, why);
			names->all = true;
			return;
		}
		node->next = names->patterns;
		names->patterns = node;
	} else if (!index_put(&names->exact, record->reader->arena, word->text, names)) {
		record_no_memory(record);
	}
}

/* Returns false if one of the names may belong to another field, because it looks like an address
   or a method. If the line is faulty, it may. */
static bool read_names(struct hba_names *names, struct hba_record *record, bool is_database)
{
	const struct record_word *word = record_field(record, COMMA_ANYWHERE);
	bool are_names = true;

	if (!word)
		record_fault(record, "the line ends before the %s",
			     is_database ? "databases" : "users");
	/* after a trailing comma, names are missing */
	if (!word || record->is_cut)
		fit_every_name(names);
	for (; word; word = word->next) {
		struct hba_address address = { .size = 0 };

		hba_line_add_name(names, record, word, is_database);
		parse_address(&address, word->text, NULL);
		if (address.size > 0 || is_method(word->text) ||
		    strcmp(word->keyword, "samehost") == 0 || strcmp(word->keyword, "samenet") == 0)
			are_names = false;
	}
	return are_names;
}

/* ---- fields with one word ---- */

/* Returns the only word of a field. NULL: the record is faulty. */
static const struct record_word *hba_line_single(struct hba_record *record,
						 const struct record_word *word, const char *what)
{
	if (!word)
		record_fault(record, "the line ends before the %s", what);
	else if (word->next)
		record_fault(record,
			     "\"%.64s\" is followed by a comma, but only one %s is accepted",
			     word->text, what);
	return word && !word->next && !word->is_unknown ? word : NULL;
}

/* ---- the address ---- */

/* Parses the address. False: it matches every address, because the record is faulty. *is_word: the
   field is one word. */
static bool hba_line_read_address(struct hba_address *address, struct hba_record *record,
				  bool *is_word)
{
	const struct record_word *first = record_field(record, COMMA_ANYWHERE),
				 *word = hba_line_single(record, first, "address"), *mask;
	const char *why;

	*is_word = first && !first->next && !record->is_cut;
	if (word && !record->is_cut) {
		if (strcmp(word->keyword, "all") == 0)
			return true;
		if (strcmp(word->keyword, "samehost") == 0 ||
		    strcmp(word->keyword, "samenet") == 0) {
			address->kind = strcmp(word->text, "samehost") == 0 ? HBA_ADDRESS_SAME_HOST
									    : HBA_ADDRESS_SAME_NET;
			return true;
		}
		/* without a mask first: the field after a host name is a method, not a mask */
		why = parse_address(address, word->text, NULL);
		if (why && address->size > 0 && !strchr(word->text, '/')) {
			mask = hba_line_single(record, record_field(record, COMMA_CONTINUES),
					       "mask");
			if (mask)
				why = parse_address(address, word->text, mask->text);
		}
		if (!why)
			return true;
		/* reports the first fault of a record only */
		record_fault(record, "\"%.64s\" %s", word->text, why);
	} else if (first) {
		parse_address(address, first->text, NULL);
	}
	address->kind = HBA_ADDRESS_ALL;
	return false;
}

/* ---- the method ---- */

/* Parses the method. False: `word` is NULL or not a supported method, and the record is faulty. */
static bool read_method(struct hba_line *l, struct hba_record *record,
			const struct record_word *word)
{
	enum auth_type method;

	if (!word)
		return false;
	method = find_method(word->text);
	if (method < AUTH_METHODS) {
		l->rule.method = method;
		return true;
	}
	/* since 9.1 PostgreSQL treats `ident` on a local line as peer */
	if (l->transports == TRANSPORT_LOCAL && strcmp(word->text, "ident") == 0) {
		l->rule.method = AUTH_PEER;
		return true;
	}
	if (!l->transports && text_list_has(foreign_methods, word->text, false)) {
		l->rule.method = AUTH_REJECT;
		return true;
	}
	if (text_list_has(foreign_methods, word->text, false))
		record_fault(record, "the method \"%s\" is not supported", word->text);
	else
		record_fault(record,
			     "\"%.64s\" is no method; expected trust, reject, md5, scram-sha-256, "
			     "password, cert, peer, "
			     "ldap or pam",
			     word->text);
	return false;
}

/* ---- options ---- */

static void take_option(struct hba_line *l, struct hba_record *record, struct ldap_options *ldap,
			const char *text)
{
	enum auth_type method = l->rule.method;
	size_t size = strcspn(text, "=");
	char *name = arena_copy(record->reader->arena, text, size), why[256];
	const char *value = text + size + 1;

	if (!name) {
		record_no_memory(record);
		return;
	}
	if (text[size] == '\0') {
		record_fault(record,
			     "an option behind the method has no \"=\"; expected NAME=VALUE");
	} else if (strcmp(name, "map") == 0 &&
		   auth_methods[method].needs & (AUTH_NEEDS_CERTIFICATE | AUTH_NEEDS_UNIX_SOCKET)) {
		l->rule.map = *value ? value : NULL;
	} else if (strcmp(name, "clientname") == 0 && strcmp(value, "CN") == 0) {
		return;
	} else if (strcmp(name, "clientcert") == 0) {
		if (l->transports & ~(unsigned)TRANSPORT_TLS)
			record_fault(record, "\"clientcert\" can only stand on a hostssl line");
		else if (strcmp(value, "verify-ca") == 0 || strcmp(value, "1") == 0)
			l->rule.certificate = HBA_CERTIFICATE_VALID;
		else if (strcmp(value, "verify-full") == 0)
			l->rule.certificate = HBA_CERTIFICATE_OF_USER;
		else if (strcmp(value, "no-verify") != 0 && strcmp(value, "0") != 0)
			record_fault(record, "\"clientcert\" must be verify-ca or verify-full");
	} else if (method == AUTH_PAM && strcmp(name, "pamservice") == 0) {
		l->rule.pam_service = value;
	} else if (method == AUTH_PAM && strcmp(name, "pam_use_hostname") == 0) {
		if (strcmp(value, "1") == 0)
			WARN(record, "\"pam_use_hostname\" has no effect: PAM gets the address");
	} else if (!ldap) {
		record_fault(record, "\"%.64s\" is no option of %s", name,
			     auth_methods[method].keyword);
	} else if (!ldap_options_take(ldap, name, value, record->reader->arena, why, sizeof(why))) {
		record_fault(record, "%s", why);
	}
}

static void read_options(struct hba_line *l, struct hba_record *record)
{
	struct ldap_options *ldap = NULL;
	const struct record_word *word;
	char why[256];

	if (l->rule.method == AUTH_LDAP) {
		ldap = arena_take(record->reader->arena, sizeof(*ldap));
		if (!ldap) {
			record_no_memory(record);
			return;
		}
	}
	while ((word = record_word(record, COMMA_ENDS)))
		take_option(l, record, ldap, word->text);
	if (!record->is_faulty && ldap && !ldap_options_check(ldap, why, sizeof(why)))
		record_fault(record, "%s", why);
	if (!record->is_faulty && ldap && ldap_options_lack(ldap))
		WARN(record, "ldap lets nobody in: %s", ldap_options_lack(ldap));
	l->rule.ldap = ldap;
}

/* ---- the line ---- */

/* Whether `word`, in the place of the method, is or looks like a method, with only options after
   it. */
static bool check_method_place(struct hba_record *record, const struct record_word *word)
{
	if (!word || strchr(word->text, '='))
		return false;
	if (is_method(word->text))
		return true;
	while ((word = record_field(record, COMMA_CONTINUES)))
		if (!strchr(word->text, '='))
			return false;
	return true;
}

/* Whether a comma has a blank or the end of the line beside it: a list may then have been parsed as
   two fields. */
static bool has_loose_comma(const char *text)
{
	static const char blanks[] = " \t\r\v\f";
	bool in_quotes = false;

	for (const char *at = text; *at; at++) {
		in_quotes ^= *at == '"';
		if (*at == ',' && !in_quotes &&
		    (at == text || strchr(blanks, at[-1]) || strchr(blanks, at[1])))
			return true;
	}
	return false;
}

/* Parses the fields after the type. False: the record is faulty, and its databases and users may be
   other fields. */
static bool read_fields(struct hba_line *l, struct hba_record *record, enum hba_tls tls)
{
	const struct record_word *method;
	bool has_address, is_word = true, are_names;

	are_names = read_names(&l->databases, record, true);
	are_names &= read_names(&l->users, record, false);
	has_address = l->transports == TRANSPORT_LOCAL ||
		      hba_line_read_address(&l->address, record, &is_word);
	method = hba_line_single(record, record_field(record, COMMA_CONTINUES), "method");
	if (read_method(l, record, method) && !record->is_faulty && l->transports)
		read_options(l, record);
	if (!record->is_faulty && l->transports) {
		const struct auth_method *row = &auth_methods[l->rule.method];

		/* the line stays in force: without it, a later line with a weaker method could
		   apply */
		if (row->lacks)
			WARN(record, "%s lets nobody in: this pgweir was built without %s",
			     row->keyword, row->lacks);
		if (row->needs & AUTH_NEEDS_UNIX_SOCKET && l->transports != TRANSPORT_LOCAL)
			WARN(record, "%s lets nobody in but over a Unix socket", row->keyword);
		if (row->needs & AUTH_NEEDS_CERTIFICATE && !(l->transports & TRANSPORT_TLS))
			WARN(record, "%s lets nobody in without TLS", row->keyword);
	}
	if (!record->is_faulty && tls == HBA_TLS_ON &&
	    (auth_methods[l->rule.method].needs & AUTH_NEEDS_CERTIFICATE ||
	     l->rule.certificate != HBA_CERTIFICATE_NONE))
		WARN(record, "lets nobody in: without \"client_tls_ca_file\", clients are not "
			     "asked for certificates");
	if (!record->is_faulty)
		return true;
	if (has_loose_comma(record->text))
		return false;
	/* A numeric address shows that the fields are in their places, unless it may be the mask of
	   a host name, or is cut off. A host name shows this only if a method follows; a list of
	   host names may be a list of users. */
	if (!are_names || l->address.size > 0)
		return are_names && (has_address ? check_method_place(record, method)
						 : !may_be_mask(&l->address));
	return has_address ? check_method_place(record, method)
			   : is_word && method && is_method(method->text);
}

static void fit_everything(struct hba_line *l, unsigned transports)
{
	l->transports = transports;
	l->address.kind = HBA_ADDRESS_ALL;
	fit_every_name(&l->databases);
	fit_every_name(&l->users);
}

bool hba_line_read(struct hba_line *l, struct hba_record *record, enum hba_tls tls)
{
	l->rule.file = record->file;
	l->rule.line = record->line;
	if (read_type(l, record, tls)) {
		if (!read_fields(l, record, tls) || record->is_unreadable)
			fit_everything(l, l->transports);
	} else if (record->is_faulty) {
		fit_everything(l, TRANSPORT_LOCAL | TRANSPORT_TLS | TRANSPORT_CLEAR);
	} else {
		return false;
	}
	l->rule.is_faulty = record->is_faulty;
	if (l->rule.is_faulty)
		l->rule.method = AUTH_REJECT;
	l->unknown = (struct hba_rule){
		.file = l->rule.file,
		.line = l->rule.line,
		.is_unknown = true,
		.is_faulty = l->rule.is_faulty,
		.method = AUTH_REJECT,
	};
	return true;
}
