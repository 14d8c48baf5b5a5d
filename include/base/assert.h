#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/*
 * ASSERT states what only a bug of pgweir's own could break. It stays on in
 * production: a pooler that has lost track of a connection's owner must end
 * rather than hand one client's rows to another. Nothing that a peer sends may
 * ever make one fail.
 */
#define ASSERT(cond) \
	((cond) ? (void)0 : assert_failed(__FILE__, __LINE__, __func__, #cond))

/* Logs the place and the condition at level FATAL and aborts. Never returns. */
_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond);

#endif
