/* object -- what a loaded shared object is made of, as the dynamic linker sees it (ELF): what it offers, what it needs,
 * the memory that it may write, and its imports, which can be led elsewhere. */
#ifndef LAB_ANSWER_OBJECT_H
#define LAB_ANSWER_OBJECT_H
#include <stddef.h>
#include "base/str.h"

struct object {
    const char *base;                /* what its addresses are relative to */
    const void *dynamic, *symbol;    /* ElfW(Dyn), ElfW(Sym) */
    const char *string;
    struct { char *at; size_t bytes; } writable[8];
    int n_writable;
};
int  object_find(struct object *, const char *path);         /* loaded already; 0, or -1: there is none of that path */
/* Names of defined exported symbols, or of needed libraries, each once and a blank apart, to *out. */
int  object_exports(const char *path, struct str *out);      /* -1: the file has no table of them */
void object_needed(const struct object *, struct str *out);
/* Every call of the import goes to target from now on; the number of places that were changed. */
int  object_redirect(const struct object *, const char *import, void (*target)(void));
#endif
