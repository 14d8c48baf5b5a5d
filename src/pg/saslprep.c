/*
 * SASLprep (RFC 4013), the stringprep profile (RFC 3454) that makes equal what people see as one password.
 *
 * A password hashed here must hash the same inside PostgreSQL and libpq, so what counts is what PostgreSQL does:
 *
 *  - A password of ASCII alone is used as it is, control characters included.
 *  - Non-ASCII blanks become a blank; what is "commonly mapped to nothing" goes away.
 *  - Then, on the characters before normalisation, prohibited ones, those that Unicode 3.2 had not assigned, and
 *    text that mixes directions are looked for. (The RFC looks behind normalisation. It makes a difference for a
 *    few characters such as U+0340, which is prohibited itself but normalised to one that is not.)
 *  - Then normalisation form KC.
 *  - When a step refuses, when nothing is left, or when the bytes are not UTF-8, the password is used unprepared:
 *    a role may have been given such a password under another encoding.
 *
 * The tables are those of GNU libidn. Its profile of RFC 4013 has the normalisation in the middle, so the profile
 * is taken without that step, and the step is done behind it.
 */
#include "pg/password.h"

#include <string.h>

#include <idn-free.h>
#include <stringprep.h>

#define PROFILE_STEPS 32

/*
 * libidn sorts combining characters by exchanging neighbours, in a time that grows with the square of their
 * number: a hostile password of 100 kB would stop the loop for half a second. No password typed has 4 kB.
 */
#define PREPARED_MAX 4096

static bool is_ascii(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			return false;
	return true;
}

/* libidn's profile without its normalisation. False when it has more steps than there is room for. */
static bool profile_without_nfkc(Stringprep_profile to[PROFILE_STEPS])
{
	size_t count = 0;

	for (const Stringprep_profile *step = stringprep_saslprep; step->operation; step++) {
		if (step->operation == STRINGPREP_NFKC)
			continue;
		if (count == PROFILE_STEPS - 1)
			return false;
		to[count++] = *step;
	}
	memset(&to[count], 0, sizeof(to[count]));
	return true;
}

/* The prepared form, or NULL: what cannot be prepared. */
static struct secret *prepare(const char *password, size_t length)
{
	Stringprep_profile profile[PROFILE_STEPS];
	/* Mapping replaces or drops characters and never lengthens: the result fits where the password did. */
	struct secret *mapped = secret_new(password, length), *prepared = NULL;
	char *normal = NULL;

	if (!mapped || !profile_without_nfkc(profile))
		goto out;
	if (stringprep(mapped->bytes, length + 1, STRINGPREP_NO_UNASSIGNED, profile) != STRINGPREP_OK)
		goto out;
	if (mapped->bytes[0] == '\0')
		goto out;
	normal = stringprep_utf8_nfkc_normalize(mapped->bytes, -1);
	if (!normal)
		goto out;
	prepared = secret_new(normal, strlen(normal));
	mem_wipe(normal, strlen(normal));
out:
	idn_free(normal);
	secret_free(&mapped);
	return prepared;
}

struct secret *saslprep(const char *password)
{
	size_t length = strlen(password);
	struct secret *prepared = NULL;

	if (length <= PREPARED_MAX && !is_ascii(password))
		prepared = prepare(password, length);
	return prepared ? prepared : secret_new(password, length);
}
