#ifndef BASE_INLINE_H
#define BASE_INLINE_H

/*
 * For what runs with every query: into each caller, whatever the compiler thinks of it; and never, so
 * that a caller does not pay in saved registers for what hardly ever happens.
 */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NEVER_INLINE __attribute__((noinline))

#endif
