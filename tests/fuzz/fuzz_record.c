/* fuzz_record -- the worker's pipe: frames after frames, as the supervisor takes them.  A frame that is accepted is what the
 * encoder would have written.  With an odd first byte the checksum is put right first, so that fields are reached, too. */
#include "fuzz/fuzz.h"
#include <string.h>
#include "exp/record.h"

/* CRC-32 by its definition, bit by bit: not the table of record.c. */
static uint32_t crc32(const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    }
    return ~c;
}

static void mend(uint8_t *frame, size_t n)
{
    if (n < 12) return;
    uint32_t size = (uint32_t)(n - 12), crc = crc32(frame + 12, size);
    memcpy(frame, "LBR1", 4);
    for (int i = 0; i < 4; i++) frame[4 + i] = (uint8_t)(size >> 8 * i), frame[8 + i] = (uint8_t)(crc >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t in[64 * 1024];
    unsigned char again[RECORD_FRAME_MAX];
    struct record r;
    struct lab_err err = { "" };
    if (size < 1 || size > sizeof in) return 0;
    size_t n = size - 1, at = 0;
    memcpy(in, data + 1, n);
    if (data[0] & 1) mend(in, n);
    uint8_t *exact = malloc(n ? n : 1);
    memcpy(exact, in, n);
    for (long used; (used = record_decode(&r, exact + at, n - at, &err)) != 0; at += (size_t)used) {
        if (used < 0) { MUST(*err.msg); break; }
        MUST((size_t)used <= n - at && used <= RECORD_FRAME_MAX);
        MUST(memchr(r.name, '\0', sizeof r.name) && memchr(r.text, '\0', sizeof r.text) && memchr(r.split, '\0', sizeof r.split) && memchr(r.sha256, '\0', sizeof r.sha256));
        MUST(record_encode(&r, again) == (size_t)used && !memcmp(again, exact + at, (size_t)used));
    }
    free(exact);
    return 0;
}
