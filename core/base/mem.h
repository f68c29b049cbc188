/* mem -- memory: an arena that is planned once, and checked growth for the rest.
 *
 * A run's tensors come from one arena, so a training step allocates nothing.
 * Everything else uses mem_alloc and mem_grow, which report failure in a
 * struct lab_err instead of ending the process; free() releases what they return.
 */
#ifndef LAB_BASE_MEM_H
#define LAB_BASE_MEM_H
#include <stddef.h>
#include "abi/lab_plugin.h"

#define MEM_ALIGN 64                 /* a cache line, and an AVX-512 register */

/* Zeroed bytes (at least one), or NULL with the size in err. */
void *mem_alloc(size_t bytes, struct lab_err *err);

/* Makes room for `need` elements of `size` bytes in *array, whose capacity *cap
 * is kept in elements.  0 or -1; on failure *array stays as it was. */
int mem_grow(void *array_ptr, size_t *cap, size_t need, size_t size, struct lab_err *err);

char *mem_strdup(const char *text, struct lab_err *err);

/* Tests: the n-th mem_ allocation from now fails (1 = the next); 0 = none does. */
void mem_fail_at(long n);

/* An arena hands out aligned, zeroed pieces of one block.  With base NULL it
 * only counts: call the same planning function twice, first to measure, then
 * after arena_commit to place. */
struct arena { char *base; size_t used, size; };
void *arena_take(struct arena *, size_t bytes);      /* NULL while measuring */
int   arena_commit(struct arena *, struct lab_err *); /* allocates what was measured and starts again at 0 */
void  arena_free(struct arena *);
#endif
