#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/*
 * ASSERT checks a condition that only a bug of pgweir can violate. It is active in production: a
 * pooler that has lost track of the owner of a connection must end rather than send one client's
 * rows to another client. Input of a peer must never violate an ASSERT.
 */
#define ASSERT(cond) \
	((cond) ? (void)0 : assert_failed(__FILE__, __LINE__, __func__, #cond))

/* Logs the location and the condition at level FATAL and aborts. */
_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond);

#endif
