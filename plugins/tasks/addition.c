/* addition -- decimal addition for causal models: mcgill_addition as Kazemnejad et al. 2023 write it, and coupled_addition,
 * answer reversed, whose position ids say the place of a digit (Cho et al. 2024).
 *
 * The length is the number of digits of the longer operand; all pairs of digit numbers with that maximum are equally
 * likely, and results are sliced by the digits of the shorter one.  No leading zeros, but for coupled_addition, which
 * pads both operands to one length.  Example n is a pure function of (options, seed, split, n, length).
 */
#include "prompted.h"

enum { LONGEST = 1000, PLUS = 10, ASK, BOS, END, PAD, VOCAB };   /* after the ten digits; ASK is "?" and "=" */
struct addition { int32_t max_position; };

static int tape(const void *self, int len) { (void)self; return 3 * len + 4; }   /* bos a + b ? and len + 1 digits */

/* Lowest digit first; the highest is not 0 unless it is the only one; zeros up to LONGEST + 1. */
static void number(struct lab_rng *r, int32_t *digit, int n)
{
    for (int i = 0; i <= LONGEST; i++) digit[i] = i >= n ? 0 : i == n - 1 && n > 1 ? 1 + (int32_t)lab_rng_below(r, 9) : (int32_t)lab_rng_below(r, 10);
}

struct sum { int32_t a[LONGEST + 1], b[LONGEST + 1], s[LONGEST + 1]; int na, nb, ns; };  /* lowest digit first; numbers of digits */

static void draw(struct sum *x, struct lab_rng *r, int len)
{
    int pair = (int)lab_rng_below(r, (uint32_t)(2 * len - 1));
    x->na = pair < len ? len : pair - len + 1;
    x->nb = pair < len ? pair + 1 : len;
    number(r, x->a, x->na);
    number(r, x->b, x->nb);
    for (int i = 0, carry = 0; i <= len; i++) {
        carry += x->a[i] + x->b[i];
        x->s[i] = carry % 10;
        carry /= 10;
    }
    x->ns = len + (x->s[len] != 0);
}

static int32_t *put(int32_t *at, const int32_t *digit, int n)                     /* highest first; returns the place behind */
{
    while (n--) *at++ = digit[n];
    return at;
}

static int slice_of(const struct sum *x) { return x->na < x->nb ? x->na : x->nb; }

/* ---- mcgill_addition: bos a + b ? sum end ---- */

static int mcgill_init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    (void)self, (void)err;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = VOCAB, .vocab_out = VOCAB, .min_len = 1, .max_len = LONGEST,
                                    .max_slice = LONGEST + 1, .version = 1, .chance = 0.1 };
    return 0;
}

static int mcgill_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    struct sum x;
    if (len < 1 || len > LONGEST) return lab_fail(err, "mcgill_addition: length %d is not in 1..%d", len, LONGEST);
    struct lab_rng r = prompted_rng(seed, split, n, len);
    draw(&x, &r, len);
    int32_t *at = e->in;
    *at++ = BOS;
    at = put(at, x.a, x.na);
    *at++ = PLUS;
    at = put(at, x.b, x.nb);
    *at++ = ASK;
    put(at, x.s, x.ns);
    prompted_finish(e, (int)(at - e->in), x.ns, tape(self, len), END, PAD);
    e->slice = slice_of(&x);
    return 0;
}

/* ---- coupled_addition: digits of one place share a position; bos has position 0 ---- */

static const struct lab_option coupled_options[] = {
    LAB_INT(struct addition, max_position, "102", 3, LONGEST + 2, "largest position id: training starts anywhere below it, evaluation at 1"),
    LAB_OPTIONS_END };

static int coupled_init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    int most = ((const struct addition *)self)->max_position;
    mcgill_init(self, info, err);
    info->max_len = most - 2;
    info->max_pos = most + 1;
    return 0;
}

/* With start s: operands s+1 .. s+len, + and = s+len+1, answer s+len down to s. */
static void couple(int32_t *pos, int len, int start)
{
    *pos++ = 0;
    for (int operand = 0; operand < 2; operand++)
        for (int i = 1; i <= len + 1; i++) *pos++ = start + i;
    for (int i = len; i >= 0; i--) *pos++ = start + i;
}

static int coupled_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    struct sum x;
    int room = ((const struct addition *)self)->max_position - len - 1, start = 1;
    if (len < 1 || room < 1) return lab_fail(err, "coupled_addition: length %d is not in 1..%d", len, room + len - 1);
    struct lab_rng r = prompted_rng(seed, split, n, len);
    draw(&x, &r, len);
    if (split == LAB_TRAIN) start += (int)lab_rng_below(&r, (uint32_t)room);
    int32_t *at = e->in;
    *at++ = BOS;
    at = put(at, x.a, len);
    *at++ = PLUS;
    at = put(at, x.b, len);
    *at++ = ASK;
    for (int i = 0; i <= len; i++) at[i] = x.s[i];
    couple(e->pos, len, start);
    prompted_finish(e, 2 * len + 3, len + 1, tape(self, len), END, PAD);
    e->slice = slice_of(&x);
    return 0;
}

static const struct lab_task mcgill_addition = { .size = sizeof mcgill_addition, .flags = LAB_TASK_CAUSAL, .name = "mcgill_addition",
    .summary = "the sum of two decimal numbers", .cite = "Kazemnejad et al. 2023, arXiv:2305.19466", .self_size = sizeof(struct addition),
    .init = mcgill_init, .tape = tape, .sample = mcgill_sample };
static const struct lab_task coupled_addition = { .size = sizeof coupled_addition, .flags = LAB_TASK_CAUSAL | LAB_TASK_POSITIONS,
    .name = "coupled_addition", .summary = "the sum of two decimal numbers, lowest digit first, with a position for each place",
    .cite = "Cho et al. 2024, arXiv:2405.20671", .self_size = sizeof(struct addition), .options = coupled_options, .init = coupled_init,
    .tape = tape, .sample = coupled_sample };
static const struct lab_task *const list[] = { &mcgill_addition, &coupled_addition, NULL };
LAB_PLUGIN(addition, .version = "1", .license = "MIT", .tasks = list);
