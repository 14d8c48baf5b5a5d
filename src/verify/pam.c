/*
 * PAM: whether the modules of the service accept the user and its password, and whether the account is valid.
 *
 * The conversation function answers every prompt without echo with the password. Messages of modules to the user are logged,
 * because PostgreSQL's protocol cannot deliver them. An account that is locked, has expired, or requires a new password is
 * refused, even with the correct password.
 */
#include "verify/method.h"

#ifdef HAVE_PAM
#include <security/pam_appl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conversation {
	const char *password;
	char said[160];			/* the last error message of a module */
};

static void forget_replies(struct pam_response *replies, int count)
{
	for (int i = 0; i < count; i++) {
		if (replies[i].resp)
			mem_wipe(replies[i].resp, strlen(replies[i].resp));
		free(replies[i].resp);
	}
	free(replies);
}

/* The replies are allocated with malloc, because PAM frees (and wipes) them. */
static int converse(int count, const struct pam_message **messages, struct pam_response **out, void *context)
{
	struct conversation *talk = context;
	struct pam_response *replies;

	if (count <= 0 || count > PAM_MAX_NUM_MSG)
		return PAM_CONV_ERR;
	replies = calloc((size_t)count, sizeof(*replies));
	if (!replies)
		return PAM_BUF_ERR;
	for (int i = 0; i < count; i++) {
		switch (messages[i]->msg_style) {
		case PAM_PROMPT_ECHO_OFF:
			replies[i].resp = strdup(talk->password);
			if (replies[i].resp)
				continue;
			forget_replies(replies, count);
			return PAM_BUF_ERR;
		case PAM_ERROR_MSG:
			snprintf(talk->said, sizeof(talk->said), "%s", messages[i]->msg ? messages[i]->msg : "");
			continue;
		case PAM_TEXT_INFO:
			continue;
		default:
			snprintf(talk->said, sizeof(talk->said), "a module asks for more than a password: %s",
				 messages[i]->msg ? messages[i]->msg : "");
			forget_replies(replies, count);
			return PAM_CONV_ERR;
		}
	}
	*out = replies;
	return PAM_SUCCESS;
}

static int start(const struct verify_question *q, const struct pam_conv *conv, pam_handle_t **handle)
{
#ifdef PGWEIR_TEST_BUILD
	/* tests use their own services, and do not run as root */
	const char *directory = getenv("PGWEIR_PAM_CONFDIR");

	if (directory)
		return pam_start_confdir(q->service, q->user, conv, directory, handle);
#endif
	return pam_start(q->service, q->user, conv, handle);
}

/* Tells failures of the user from failures of the system. */
static enum verify_verdict verdict_of(int status)
{
	switch (status) {
	case PAM_AUTH_ERR: case PAM_USER_UNKNOWN: case PAM_MAXTRIES: case PAM_PERM_DENIED: case PAM_ACCT_EXPIRED:
	case PAM_NEW_AUTHTOK_REQD: case PAM_CRED_EXPIRED: case PAM_AUTHTOK_EXPIRED:
		return VERIFIED_NO;
	default:
		return VERIFIED_UNKNOWN;
	}
}

void verify_pam(const struct verify_question *q, struct verify_answer *answer)
{
	struct conversation talk = { .password = q->password };
	const struct pam_conv conv = { converse, &talk };
	pam_handle_t *handle = NULL;
	const char *step = "pam_start";
	int status = start(q, &conv, &handle);

	if (status == PAM_SUCCESS && q->remote) {
		step = "pam_set_item";
		status = pam_set_item(handle, PAM_RHOST, q->remote);
	}
	if (status == PAM_SUCCESS) {
		step = "pam_authenticate";
		status = pam_authenticate(handle, 0);
	}
	if (status == PAM_SUCCESS) {
		step = "pam_acct_mgmt";
		status = pam_acct_mgmt(handle, 0);
	}
	if (status == PAM_SUCCESS)
		verify_answer_set(answer, VERIFIED_YES, "%s", "");
	else
		verify_answer_set(answer, verdict_of(status), "%s: %s%s%s%s", step, pam_strerror(handle, status),
				  *talk.said ? " (" : "", talk.said, *talk.said ? ")" : "");
	if (handle)
		pam_end(handle, status);
}
#else
void verify_pam(const struct verify_question *q, struct verify_answer *answer)
{
	(void)q;
	verify_answer_set(answer, VERIFIED_UNKNOWN, "this pgweir was built without PAM");
}
#endif
