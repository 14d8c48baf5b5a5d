/*
 * SCRAM: SaltedPassword of a password, a salt and a count (RFC 5802, 3), which takes so many HMACs because it is to take time. No
 * service is asked; it is here so that the event loop does not stand still meanwhile.
 *
 * Whether it is that of a secret is for pgweir to see: the secret itself is not told.
 */
#include "verify/method.h"

#include <sys/resource.h>

#define BEHIND_OTHERS 10		/* as of nice */

void verify_scram(const struct verify_question *q, struct verify_answer *answer)
{
	/* an attacker that makes this process busy on purpose has what others leave of the processors */
	setpriority(PRIO_PROCESS, 0, BEHIND_OTHERS);
	verify_answer_set(answer, VERIFY_YES, "%s", "");
	answer->has_key = scram_salted_derive(q->password, q->salt, q->salt_size, q->iterations, answer->salted);
	if (!answer->has_key)
		verify_answer_set(answer, VERIFY_UNKNOWN, "no memory, or OpenSSL derives no such key");
}
