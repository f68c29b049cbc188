/* mcgill -- the copy and reverse families of Kazemnejad et al. 2023 for causal models: <bos> x <sep> y <eos>.
 *
 * The length is that of x.  Token ids are the symbols, then bos, sep, next (between two parts of an answer), eos, pad.
 * rdc names both symbols before the string: <bos> s t <sep> s s s <sep> t t t.
 * Example n is a pure function of (options, seed, split, n, length).
 */
#include "prompted.h"

enum { LONGEST = 10000, BOS = 0, SEP, NEXT, END, PAD, SPECIAL };                   /* above the symbols */
enum copy_variant { CMC, CMC2X, RSC, RSC2X, RDC };
enum reverse_variant { MC, MC2X, MCRV };
struct mcgill { int32_t symbols, variant; };

static const struct lab_option copy_options[] = {
    LAB_ENUM(struct mcgill, variant, "cmc", "cmc|cmc2x|rsc|rsc2x|rdc",
             "random symbols once or twice, one repeated symbol once or twice, or one repeated symbol replaced by another"),
    LAB_INT(struct mcgill, symbols, "100", 2, 10000, "different symbols"), LAB_OPTIONS_END };
static const struct lab_option reverse_options[] = {
    LAB_ENUM(struct mcgill, variant, "mc", "mc|mc2x|mcrv", "reversed, reversed twice, or reversed and then as it was"),
    LAB_INT(struct mcgill, symbols, "100", 2, 10000, "different symbols"), LAB_OPTIONS_END };

static int init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    int symbols = ((const struct mcgill *)self)->symbols;
    (void)err;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = symbols + SPECIAL, .vocab_out = symbols + SPECIAL, .min_len = 1,
                                    .max_len = LONGEST, .max_slice = 1, .version = 1, .chance = 1.0 / symbols };
    return 0;
}

static int32_t symbol(const struct mcgill *m, struct lab_rng *r) { return (int32_t)lab_rng_below(r, (uint32_t)m->symbols); }
static int32_t *forward(int32_t *at, const int32_t *x, int len) { for (int i = 0; i < len; i++) *at++ = x[i]; return at; }
static int32_t *backward(int32_t *at, const int32_t *x, int len) { while (len--) *at++ = x[len]; return at; }
static int32_t *repeat(int32_t *at, int32_t x, int len) { while (len--) *at++ = x; return at; }

static int check(int len, struct lab_err *err)
{
    return len >= 1 && len <= LONGEST ? 0 : lab_fail(err, "length %d is not in 1..%d", len, LONGEST);
}

/* ---- copy ---- */

static int copy_answer(const struct mcgill *m, int len)
{
    return m->variant == CMC2X ? 2 * len + 1 : m->variant == RSC2X ? 2 * len : len;
}
static int copy_prompt(const struct mcgill *m, int len) { return len + 2 + (m->variant == RDC ? 3 : 0); }
static int copy_tape(const void *self, int len) { return copy_prompt(self, len) + copy_answer(self, len); }

static int copy_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    const struct mcgill *m = self;
    int32_t *at = e->in, *x, from, to;
    if (check(len, err) != 0) return -1;
    struct lab_rng r = prompted_rng(seed, split, n, len);
    from = to = symbol(m, &r);
    *at++ = m->symbols + BOS;
    if (m->variant == RDC) {
        to = (from + 1 + (int32_t)lab_rng_below(&r, (uint32_t)m->symbols - 1)) % m->symbols;
        *at++ = from, *at++ = to, *at++ = m->symbols + SEP;
    }
    x = at;
    if (m->variant >= RSC) at = repeat(at, from, len);
    else for (int i = 0; i < len; i++) *at++ = symbol(m, &r);
    *at++ = m->symbols + SEP;
    if (m->variant >= RSC) repeat(at, to, copy_answer(m, len));
    else at = forward(at, x, len);
    if (m->variant == CMC2X) *at++ = m->symbols + NEXT, forward(at, x, len);
    prompted_finish(e, copy_prompt(m, len), copy_answer(m, len), copy_tape(m, len), m->symbols + END, m->symbols + PAD);
    return 0;
}

/* ---- reverse ---- */

static int reverse_tape(const void *self, int len) { return len + 2 + (((const struct mcgill *)self)->variant == MC ? len : 2 * len + 1); }

static int reverse_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    const struct mcgill *m = self;
    int32_t *at = e->in, *x = e->in + 1;
    if (check(len, err) != 0) return -1;
    struct lab_rng r = prompted_rng(seed, split, n, len);
    *at++ = m->symbols + BOS;
    for (int i = 0; i < len; i++) *at++ = symbol(m, &r);
    *at++ = m->symbols + SEP;
    at = backward(at, x, len);
    if (m->variant != MC) *at++ = m->symbols + NEXT, at = (m->variant == MC2X ? backward : forward)(at, x, len);
    prompted_finish(e, len + 2, (int)(at - e->in) - len - 2, reverse_tape(m, len), m->symbols + END, m->symbols + PAD);
    return 0;
}

#define TASK(id, text) { .size = sizeof(struct lab_task), .flags = LAB_TASK_CAUSAL, .name = "mcgill_" #id, .summary = text, \
    .cite = "Kazemnejad et al. 2023, arXiv:2305.19466", .self_size = sizeof(struct mcgill), .options = id##_options, .init = init, \
    .tape = id##_tape, .sample = id##_sample }
static const struct lab_task copy = TASK(copy, "a string copied, in five variants"), reverse = TASK(reverse, "a string reversed, in three variants");
static const struct lab_task *const list[] = { &copy, &reverse, NULL };
LAB_PLUGIN(mcgill, .version = "1", .license = "MIT", .tasks = list);
