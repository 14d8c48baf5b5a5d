#ifndef BASE_INLINE_H
#define BASE_INLINE_H

/*
 * For code that runs for every query: ALWAYS_INLINE functions are inlined into each caller;
 * NEVER_INLINE functions are rare cases that must not cost their callers saved registers.
 */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NEVER_INLINE __attribute__((noinline))

#endif
