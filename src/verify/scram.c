/*
 * SCRAM: derives SaltedPassword from a password, a salt and an iteration count (RFC 5802, 3), which is slow by design. This
 * runs in a verifier so that it does not block the event loop.
 *
 * pgweir compares the result with the secret, which is not sent to the verifier.
 */
#include "verify/method.h"

#include <sys/resource.h>

#define BEHIND_OTHERS 10		/* nice value */

void verify_scram(const struct verify_question *q, struct verify_answer *answer)
{
	/* an attack that keeps this process busy gets only CPU time that other processes do not use */
	setpriority(PRIO_PROCESS, 0, BEHIND_OTHERS);
	verify_answer_set(answer, VERIFIED_YES, "%s", "");
	answer->has_key = scram_salted_derive(q->password, q->salt, q->salt_size, q->iterations, answer->salted);
	if (!answer->has_key)
		verify_answer_set(answer, VERIFIED_UNKNOWN, "no memory, or OpenSSL derives no such key");
}
