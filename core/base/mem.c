/* mem -- see mem.h.  Never exits, never prints. */
#include "base/mem.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static long fail_countdown;

void mem_fail_at(long n) { fail_countdown = n; }

static int must_fail(void) { return fail_countdown > 0 && --fail_countdown == 0; }

void *mem_alloc(size_t bytes, struct lab_err *err)
{
    void *p = must_fail() ? NULL : calloc(1, bytes ? bytes : 1);
    if (!p) lab_fail(err, "out of memory: could not get %zu bytes", bytes);
    return p;
}

int mem_grow(void *array_ptr, size_t *cap, size_t need, size_t size, struct lab_err *err)
{
    void **array = array_ptr;
    size_t want = *cap ? *cap : 8;
    if (need <= *cap) return 0;
    while (want < need) want = want > SIZE_MAX / 2 ? need : want * 2;
    void *p = want > SIZE_MAX / size || must_fail() ? NULL : realloc(*array, want * size);
    if (!p) return lab_fail(err, "out of memory: could not get %zu elements of %zu bytes", want, size);
    memset((char *)p + *cap * size, 0, (want - *cap) * size);
    *array = p;
    *cap = want;
    return 0;
}

char *mem_strdup(const char *text, struct lab_err *err)
{
    size_t n = strlen(text) + 1;
    char *p = mem_alloc(n, err);
    return p ? memcpy(p, text, n) : NULL;
}

void *arena_take(struct arena *a, size_t bytes)
{
    void *p = a->base ? a->base + a->used : NULL;
    a->used += (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
    return p;
}

int arena_commit(struct arena *a, struct lab_err *err)
{
    a->size = a->used ? a->used : MEM_ALIGN;
    a->used = 0;
    size_t align = a->size >= HUGE_PAGE ? HUGE_PAGE : MEM_ALIGN, whole = (a->size + align - 1) / align * align;     /* as C wants it */
    a->base = must_fail() ? NULL : aligned_alloc(align, whole);
    if (!a->base) return lab_fail(err, "out of memory: a run of this size needs %zu MB", a->size >> 20);
    if (a->size >= HUGE_PAGE) madvise(a->base, a->size, MADV_HUGEPAGE);      /* a wish: a training step is 5 % faster for it */
    memset(a->base, 0, a->size);
    return 0;
}

void arena_free(struct arena *a)
{
    free(a->base);
    *a = (struct arena){ 0 };
}
