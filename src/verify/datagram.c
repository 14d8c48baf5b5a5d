/*
 * Serialisation of questions and answers (base/bytes.h).
 *
 * question = ticket method user (pam / ldap / scram) password
 * pam      = service remote
 * ldap     = timeout port scope ldaps starttls servers prefix suffix base_dn bind_dn bind_password
 *          search_attribute search_filter
 * scram    = iterations salt
 * answer   = ticket verdict has_key [salted] why
 *
 * The password is last, because a growing buffer leaves copies of its old contents.
 */
#include "verify/datagram.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const verify_method_names[] = {
	[VERIFY_PAM] = "PAM", [VERIFY_LDAP] = "LDAP", [VERIFY_SCRAM] = "SCRAM"
};

void verify_answer_set(struct verify_answer *answer, enum verify_verdict verdict,
		       const char *format, ...)
{
	va_list args;

	*answer = (struct verify_answer){ .verdict = verdict };
	va_start(args, format);
	vsnprintf(answer->why, sizeof(answer->why), format, args);
	va_end(args);
}

/* ---- writing ---- */

bool verify_question_write(struct bytes *to, uint64_t ticket, const struct verify_question *q)
{
	const struct ldap_options *o = q->ldap;

	pack_u64(to, ticket);
	bytes_append_u8(to, (uint8_t)q->method);
	pack_text(to, q->user);
	switch (q->method) {
	case VERIFY_PAM:
		pack_text(to, q->service);
		pack_text(to, q->remote);
		break;
	case VERIFY_LDAP:
		pack_i64(to, q->ldap_timeout);
		bytes_append_u16(to, (uint16_t)o->port);
		bytes_append_u8(to, (uint8_t)o->scope);
		pack_bool(to, o->ldaps);
		pack_bool(to, o->starttls);
		pack_text(to, o->servers);
		pack_text(to, o->prefix);
		pack_text(to, o->suffix);
		pack_text(to, o->base_dn);
		pack_text(to, o->bind_dn);
		pack_text(to, o->bind_password);
		pack_text(to, o->search_attribute);
		pack_text(to, o->search_filter);
		break;
	case VERIFY_SCRAM:
		bytes_append_u32(to, q->iterations);
		pack_blob(to, q->salt, q->salt_size);
		break;
	}
	pack_text(to, q->password);
	return bytes_size(to) <= VERIFY_QUESTION_MOST;
}

void verify_answer_write(struct bytes *to, uint64_t ticket, const struct verify_answer *answer)
{
	pack_u64(to, ticket);
	bytes_append_u8(to, (uint8_t)answer->verdict);
	pack_bool(to, answer->has_key);
	if (answer->has_key)
		pack_blob(to, answer->salted, sizeof(answer->salted));
	pack_text(to, answer->why);
}

/* ---- reading ---- */

bool verify_question_read(const uint8_t *data, size_t size, uint64_t *ticket,
			  struct verify_question *q, struct ldap_options *ldap)
{
	struct unpack in = unpack_of(data, size);
	uint8_t method, scope;

	*q = (struct verify_question){ .method = VERIFY_PAM };
	*ticket = unpack_u64(&in);
	method = unpack_u8(&in);
	q->user = unpack_text(&in);
	switch (method) {
	case VERIFY_PAM:
		q->service = unpack_text(&in);
		q->remote = unpack_text(&in);
		in.bad |= !q->service;
		break;
	case VERIFY_LDAP:
		*ldap = (struct ldap_options){ .port = 0 };
		q->ldap = ldap;
		q->ldap_timeout = unpack_i64(&in);
		ldap->port = unpack_u16(&in);
		scope = unpack_u8(&in);
		ldap->ldaps = unpack_bool(&in);
		ldap->starttls = unpack_bool(&in);
		ldap->servers = unpack_text(&in);
		ldap->prefix = unpack_text(&in);
		ldap->suffix = unpack_text(&in);
		ldap->base_dn = unpack_text(&in);
		ldap->bind_dn = unpack_text(&in);
		ldap->bind_password = unpack_text(&in);
		ldap->search_attribute = unpack_text(&in);
		ldap->search_filter = unpack_text(&in);
		in.bad |= scope > LDAP_SEARCH_ONE || q->ldap_timeout < 0 || !ldap->servers;
		ldap->scope = (enum ldap_search_scope)scope;
		break;
	case VERIFY_SCRAM:
		q->iterations = unpack_u32(&in);
		q->salt = unpack_blob(&in, &q->salt_size);
		in.bad |= q->iterations < 1 || q->iterations > SCRAM_ITERATIONS_MAX ||
			  q->salt_size < 1 || q->salt_size > SCRAM_SALT_MAX;
		break;
	default:
		return false;
	}
	q->method = (enum verify_method)method;
	q->password = unpack_text(&in);
	return unpack_is_done(&in) && q->user && *q->user && q->password && *q->password;
}

bool verify_answer_read(const uint8_t *data, size_t size, uint64_t *ticket,
			struct verify_answer *answer)
{
	struct unpack in = unpack_of(data, size);
	uint8_t salted[SCRAM_KEY] = { 0 }, verdict;
	const char *why;
	bool has_key;

	*ticket = unpack_u64(&in);
	verdict = unpack_u8(&in);
	has_key = unpack_bool(&in);
	if (has_key)
		unpack_exactly(&in, salted, sizeof(salted));
	why = unpack_text(&in);
	if (!unpack_is_done(&in) || verdict > VERIFIED_UNKNOWN ||
	    (has_key && verdict != VERIFIED_YES) || !why)
		return false;
	verify_answer_set(answer, (enum verify_verdict)verdict, "%s", why);
	answer->has_key = has_key;
	memcpy(answer->salted, salted, sizeof(salted));
	mem_wipe(salted, sizeof(salted));
	return true;
}
