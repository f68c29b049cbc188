/* mqar -- multi-query associative recall (Arora et al. 2023, zoology): key-value pairs, then the keys again among noise;
 * the target at a repeated key is its value.
 *
 * An odd length is taken as the even one below.  `pairs_most` above `pairs` draws the number of pairs for each example;
 * results are sliced by it.  Example n is a pure function of (options, seed, split, n, length).
 */
#include <math.h>
#include <stdlib.h>
#include "lab_task.h"

enum { LONGEST = 16384, MOST_PAIRS = LONGEST / 4 };
struct mqar { int32_t vocab, pairs, pairs_most, random_non_queries; double alpha; };

static const struct lab_option options[] = {
    LAB_INT(struct mqar, vocab, "8192", 16, 1000000, "tokens: keys are the lower half but 0, values the upper half"),
    LAB_INT(struct mqar, pairs, "4", 1, MOST_PAIRS, "of a key and its value; each key is asked for once"),
    LAB_INT(struct mqar, pairs_most, "0", 0, MOST_PAIRS, "0: always `pairs`; else drawn uniformly from pairs..pairs_most for each example"),
    LAB_REAL(struct mqar, alpha, "0.01", 0, 10, "the gap g before a query has a chance in proportion to (g+1)^(alpha-1)"),
    LAB_BOOL(struct mqar, random_non_queries, "yes", "fill the places between queries with random tokens, not with 0"),
    LAB_OPTIONS_END };

static int most_pairs(const struct mqar *m) { return m->pairs_most ? m->pairs_most : m->pairs; }
static int tape(const void *self, int len) { (void)self; return len / 2 * 2; }

static int init(void *self, struct lab_task_info *info, struct lab_err *err)
{
    const struct mqar *m = self;
    int most = most_pairs(m);
    if (m->vocab % 2) return lab_fail(err, "vocab = %d is odd; half of it are keys, half values: make it even", (int)m->vocab);
    if (most < m->pairs) return lab_fail(err, "pairs_most = %d is below pairs = %d; make it 0 or larger", (int)m->pairs_most, (int)m->pairs);
    if (m->vocab <= 4 * most) return lab_fail(err, "vocab = %d is too small for %d pairs: it must be above %d", (int)m->vocab, most, 4 * most);
    int longest = m->vocab - 1 < LONGEST ? m->vocab - 1 : LONGEST;
    *info = (struct lab_task_info){ .size = info->size, .vocab_in = m->vocab, .vocab_out = m->vocab, .min_len = 4 * most,
                                    .max_len = longest, .max_slice = most + 1, .version = 1, .chance = 1.0 / m->pairs };
    return 0;
}

/* n different numbers from lo..lo+range-1; range is at least about twice n, so that few draws are wasted. */
static void distinct(struct lab_rng *r, int32_t *x, int n, int lo, int range)
{
    for (int i = 0; i < n;) {
        int j = 0;
        x[i] = lo + (int32_t)lab_rng_below(r, (uint32_t)range);
        while (x[j] != x[i]) j++;
        i += j == i;
    }
}

struct gap { double at; int32_t slot; };
static int by_time(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    return x->at != y->at ? x->at < y->at ? -1 : 1 : (x->slot > y->slot) - (x->slot < y->slot);
}

/* Slots without replacement, each draw in proportion to (g+1)^(alpha-1): the order in which independent exponential
 * clocks of those rates ring is exactly that (Efraimidis and Spirakis 2006). */
static void draw_gaps(const struct mqar *m, struct lab_rng *r, struct gap *gap, int space)
{
    for (int g = 0; g < space; g++) {
        double unit = ((double)lab_rng_u32(r) + 0.5) * 0x1p-32;
        gap[g] = (struct gap){ -log(unit) * pow(g + 1, 1 - m->alpha), g };
    }
    qsort(gap, (size_t)space, sizeof *gap, by_time);
}

/* ---- the same tokens in another order ---- */

struct pool { int32_t token, copies; };          /* of the tokens of an example */
static int by_token(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

/* The different tokens of a sorted tape, lo <= token < hi, with `least` copies or more. */
static int pool_of(const int32_t *sorted, int L, int lo, int hi, int least, struct pool *out)
{
    int n = 0;
    for (int i = 0, j; i < L; i = j) {
        for (j = i; j < L && sorted[j] == sorted[i]; j++) {}
        if (sorted[i] >= lo && sorted[i] < hi && j - i >= least) out[n++] = (struct pool){ sorted[i], j - i };
    }
    return n;
}

/* K of the pool in random order, each drawn in proportion to the ways of taking `each` of its copies; takes them from the tape. */
static void take(struct lab_rng *r, struct pool *pool, int n, int K, int each, int32_t *sorted, int L, int32_t *out)
{
    for (int i = 0; i < K; i++) {
        uint32_t all = 0;
        int at = 0;
        for (int p = 0; p < n; p++) all += (uint32_t)(each == 2 ? pool[p].copies * (pool[p].copies - 1) : pool[p].copies);
        uint32_t rest = lab_rng_below(r, all);
        for (;; at++) {
            uint32_t ways = (uint32_t)(each == 2 ? pool[at].copies * (pool[at].copies - 1) : pool[at].copies);
            if (rest < ways) break;
            rest -= ways;
        }
        out[i] = pool[at].token;
        for (int t = 0, left = each; t < L && left; t++) if (sorted[t] == out[i]) sorted[t] = -1, left--;
        pool[at] = pool[--n];
    }
}

/* What is a key, a value or noise is drawn anew, too: from the tokens alone, a key is a token of the lower half that is there twice,
 * and its value may be any token of the upper half.  (Drawn one after another, which is exact unless copies differ in number.) */
static void reorder(const struct mqar *m, struct lab_rng *r, int L, int K, const int32_t *in, int32_t *key, int32_t *value, int32_t *noise)
{
    int32_t sorted[LONGEST];
    struct pool pool[LONGEST];
    for (int t = 0; t < L; t++) sorted[t] = in[t];
    qsort(sorted, (size_t)L, sizeof *sorted, by_token);
    int keys = pool_of(sorted, L, 1, m->vocab / 2, 2, pool);
    take(r, pool, keys, K, 2, sorted, L, key);
    int32_t left[LONGEST];
    int n = 0;
    for (int t = 0; t < L; t++) if (sorted[t] >= 0) left[n++] = sorted[t];
    int values = pool_of(left, n, m->vocab / 2, m->vocab, 1, pool);
    take(r, pool, values, K, 1, left, n, value);
    for (int t = 0, at = 0; t < n; t++) {        /* what remains, shuffled from the inside out */
        if (left[t] < 0) continue;
        int j = (int)lab_rng_below(r, (uint32_t)at + 1);
        noise[at] = noise[j];
        noise[j] = left[t];
        at++;
    }
}

/* The high half of n goes where seeds below 2^32 leave zeros, so that no two examples share a stream. */
static int sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err)
{
    const struct mqar *m = self;
    int L = tape(self, len), half = m->vocab / 2;
    if (L < 4 * most_pairs(m) || L > LONGEST || L >= m->vocab)
        return lab_fail(err, "mqar: length %d is not in %d..%d", len, 4 * most_pairs(m), m->vocab - 1 < LONGEST ? m->vocab - 1 : LONGEST);
    struct lab_rng r = lab_rng_at(seed ^ ((uint64_t)n >> 32 << 32), (uint32_t)split, (uint32_t)n, (uint32_t)len);
    struct gap gap[LONGEST / 2];
    int32_t key[MOST_PAIRS], value[MOST_PAIRS], noise[LONGEST];
    int again = split == LAB_REORDER, K = again ? e->slice : m->pairs + (int)lab_rng_below(&r, (uint32_t)(most_pairs(m) - m->pairs) + 1);
    if (again) {
        reorder(m, &r, L, K, e->in, key, value, noise);
    } else {
        distinct(&r, key, K, 1, half - 1);
        distinct(&r, value, K, half, half);
    }
    draw_gaps(m, &r, gap, (L - 2 * K) / 2);
    for (int t = 0; t < L; t++) {
        e->target[t] = -1;
        e->in[t] = again ? -1 : m->random_non_queries ? (int32_t)lab_rng_below(&r, (uint32_t)m->vocab) : 0;
    }
    for (int i = 0; i < K; i++) {
        int query = 2 * K + 2 * gap[i].slot;
        e->in[2 * i] = e->in[query] = key[i];
        e->in[2 * i + 1] = e->target[query] = value[i];
    }
    for (int t = 0, at = 0; again && t < L; t++) if (e->in[t] < 0) e->in[t] = noise[at++];
    e->prompt = 0;
    e->slice = K;
    return 0;
}

static const struct lab_task mqar = { .size = sizeof mqar, .flags = LAB_TASK_REORDERS, .name = "mqar", .summary = "the value that stood behind the same key before",
    .cite = "Arora et al. 2023, arXiv:2312.04927", .self_size = sizeof(struct mqar), .options = options, .init = init, .tape = tape,
    .sample = sample };
static const struct lab_task *const list[] = { &mqar, NULL };
LAB_PLUGIN(mqar, .version = "1", .license = "MIT", .tasks = list);
