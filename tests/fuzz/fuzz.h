/* fuzz -- what the targets share.  A target gets bytes that may be anything; it must neither crash nor break its promise.
 *
 * clang's libFuzzer drives it (`make fuzz`), or replay.c with the files of tests/fuzz/corpus (`make test`).
 */
#ifndef FUZZ_H
#define FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The promise of a target: what must hold for every input. */
#define MUST(what) do { if (!(what)) { fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #what); abort(); } } while (0)
#endif
