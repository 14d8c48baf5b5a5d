#ifndef SIM_PROVE_H
#define SIM_PROVE_H

#include "base/bytes.h"
#include "pg/scram.h"
#include "truth.h"

/* A fake client's side of a proof: a password in clear, MD5, SCRAM-SHA-256. */

struct prover {
	char user[32], password[TRUTH_PASSWORD];
	enum proof proof;		/* how it was asked */
	struct scram_prover scram;
	bool scram_begun, scram_done;
};

/* A message Authentication... that is not AuthenticationOk: the answer is appended to `out`. False: it makes no sense here; the
   connection is the pooler's fault. */
bool prove(struct prover *p, const uint8_t *body, uint32_t size, struct bytes *out);
/* AuthenticationOk may come. */
bool prove_may_end(const struct prover *p);
void prove_clear(struct prover *p);

#endif
