/* record -- see record.h.
 *
 * Every field is written in one fixed order, whatever the type: a frame is a few
 * hundred bytes and there is one layout to get right.  The decoder accepts a
 * payload only if it is exactly what the encoder would have written.
 */
#include "exp/record.h"
#include <math.h>
#include <string.h>

enum { MAGIC = 0x3152424c,           /* "LBR1" */
       HEADER = 12, PAYLOAD_MAX = RECORD_FRAME_MAX - HEADER };

/* ---- the fields, once, for both directions ---- */

#define FIELD(f) { offsetof(struct record, f), sizeof ((struct record *)0)->f }
static const struct { size_t offset, size; } text_field[] = { FIELD(name), FIELD(split), FIELD(text), FIELD(sha256) };
static const size_t word_field[] = {     /* eight bytes each, integers and doubles alike */
    offsetof(struct record, step), offsetof(struct record, steps), offsetof(struct record, length), offsetof(struct record, position),
    offsetof(struct record, n), offsetof(struct record, n_exact), offsetof(struct record, n_tok), offsetof(struct record, n_tok_ok),
    offsetof(struct record, value), offsetof(struct record, error), offsetof(struct record, active_ns) };
enum { N_TEXT = sizeof text_field / sizeof *text_field, N_WORD = sizeof word_field / sizeof *word_field };

static void put(unsigned char **p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) *(*p)++ = (unsigned char)(x >> (8 * i));
}

static uint64_t get(const unsigned char **p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)*(*p)++ << (8 * i);
    return x;
}

/* CRC-32 as in zip and Ethernet (reflected 0xEDB88320), four bits at a time. */
static uint32_t crc32(const unsigned char *p, size_t n)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
    uint32_t c = ~0u;
    while (n--) {
        c ^= *p++;
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    return ~c;
}

size_t record_encode(const struct record *r, unsigned char *out)
{
    unsigned char *p = out + HEADER;
    put(&p, (uint64_t)r->type, 4);
    for (int i = 0; i < N_TEXT; i++) {
        const char *text = (const char *)r + text_field[i].offset;
        size_t n = strnlen(text, text_field[i].size - 1);
        put(&p, n, 2);
        memcpy(p, text, n);
        p += n;
    }
    for (int i = 0; i < N_WORD; i++) {
        uint64_t word;
        memcpy(&word, (const char *)r + word_field[i], sizeof word);
        put(&p, word, 8);
    }
    size_t payload = (size_t)(p - out) - HEADER;
    p = out;
    put(&p, MAGIC, 4);
    put(&p, payload, 4);
    put(&p, crc32(out + HEADER, payload), 4);
    return HEADER + payload;
}

/* A text of the payload into its place; -1 if it is longer than its place, than the payload, or holds a NUL. */
static int get_text(const unsigned char **p, const unsigned char *end, char *to, size_t size)
{
    if (end - *p < 2) return -1;
    size_t n = (size_t)get(p, 2);
    if (n >= size || n > (size_t)(end - *p) || memchr(*p, '\0', n)) return -1;
    memcpy(to, *p, n);
    *p += n;
    return 0;
}

static int decode_payload(struct record *r, const unsigned char *p, const unsigned char *end)
{
    if (end - p < 4) return -1;
    uint64_t type = get(&p, 4);
    if (type < RECORD_START || type > RECORD_FAILED) return -1;
    r->type = (enum record_type)type;
    for (int i = 0; i < N_TEXT; i++)
        if (get_text(&p, end, (char *)r + text_field[i].offset, text_field[i].size) != 0) return -1;
    if (end - p != 8 * N_WORD) return -1;
    for (int i = 0; i < N_WORD; i++) {
        uint64_t word = get(&p, 8);
        memcpy((char *)r + word_field[i], &word, sizeof word);
    }
    return 0;
}

long record_decode(struct record *r, const unsigned char *in, size_t n, struct lab_err *err)
{
    const unsigned char *p = in;
    if (n < HEADER) return 0;
    uint32_t magic = (uint32_t)get(&p, 4), payload = (uint32_t)get(&p, 4), crc = (uint32_t)get(&p, 4);
    if (magic != MAGIC) return lab_fail(err, "not a record: it starts with %08x, expected %08x", magic, MAGIC);
    if (payload > PAYLOAD_MAX) return lab_fail(err, "not a record: it claims %u bytes (limit is %d)", payload, PAYLOAD_MAX);
    if (n < HEADER + payload) return 0;
    if (crc32(p, payload) != crc) return lab_fail(err, "damaged record: its checksum does not fit its %u bytes", payload);
    struct record read = { 0 };
    if (decode_payload(&read, p, p + payload) != 0) return lab_fail(err, "damaged record: its fields do not fit its %u bytes", payload);
    *r = read;
    return HEADER + (long)payload;
}

/* ---- the hash of a result ---- */

static unsigned digit(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

void record_sum(char sum[HASH_HEX], const struct record *r)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char frame[RECORD_FRAME_MAX];
    char one[HASH_HEX];
    struct record plain = *r;
    plain.value = isnan(r->value) ? (double)NAN : r->value + 0.0;        /* one nan, one zero: a database keeps no more */
    hash_bytes(frame, record_encode(&plain, frame), one);
    if (!*sum) memset(sum, '0', HASH_HEX - 1), sum[HASH_HEX - 1] = '\0';
    unsigned carry = 0;
    for (int i = HASH_HEX - 2; i >= 0; i--) {
        carry += digit(sum[i]) + digit(one[i]);
        sum[i] = digits[carry & 15];
        carry >>= 4;
    }
}
