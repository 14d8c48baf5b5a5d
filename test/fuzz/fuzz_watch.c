/*
 * The answer to a watcher's question for the role of a host: watch_read_row.
 *
 * Input: the body of a DataRow. Properties: an accepted row has a role; a row that lacks its last byte, or has one more, is refused; the reading is
 * the same again.
 */
#include "fuzz.h"
#include "watch/watcher.h"

#include <stdlib.h>
#include <string.h>

static bool reads(const uint8_t *data, size_t size, struct host_evidence *answer)
{
	uint8_t *copy = fuzz_copy(data, size);
	bool is_read;

	*answer = (struct host_evidence){ .at = 1 };
	is_read = watch_read_row(copy, size, answer);
	FUZZ_CHECK(answer->at == 1);
	free(copy);
	return is_read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct host_evidence answer, again;
	uint8_t *longer;

	if (!reads(data, size, &answer))
		return 0;
	FUZZ_CHECK(answer.claim == CLAIM_PRIMARY || answer.claim == CLAIM_STANDBY);
	FUZZ_CHECK(reads(data, size, &again) && again.claim == answer.claim && again.timeline == answer.timeline &&
		   again.position == answer.position && again.system_id == answer.system_id && again.is_read_only == answer.is_read_only);
	FUZZ_CHECK(!reads(data, size - 1, &again));
	longer = malloc(size + 1);
	FUZZ_CHECK(longer);
	memcpy(longer, data, size);
	longer[size] = 0;
	FUZZ_CHECK(!reads(longer, size + 1, &again));
	free(longer);
	return 0;
}
