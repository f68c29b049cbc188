/* check_task -- the tests of a task: examples are pure, in range, solvable, and distributed as claimed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "answer/check_test.h"
#include "base/mem.h"

#define COUNT(table) (int)(sizeof table / sizeof *table)
enum { TAPE_MOST = 1 << 20,          /* longer examples are not tried */
       LENGTHS = 8, EXAMPLES = 50 };

/* ---- an instance, and an example; guarded, its arrays end where memory ends ---- */

struct instance { const struct lab_task *task; void *self; struct lab_task_info info; char variant[96]; };

static int open_instance(struct instance *t, const struct lab_task *task, int variant, struct lab_err *err)
{
    *t = (struct instance){ .task = task, .self = calloc(1, task->self_size + 1), .info = { .size = sizeof t->info } };
    rig_set_variant(task->options, t->self, variant, t->variant);
    err->msg[0] = '\0';
    if (task->init(t->self, &t->info, err) == 0) return 0;
    free(t->self);
    return -1;
}

static void close_instance(struct instance *t)
{
    if (t->task->fini) t->task->fini(t->self);
    free(t->self);
}

static int tape_of(const struct instance *t, int len) { return t->task->tape ? t->task->tape(t->self, len) : len; }

enum { ARRAYS = 5 };                 /* of an example */
struct sheet { struct lab_example e; int tape; char *map[ARRAYS]; size_t map_bytes; };

static void make_sheet(struct sheet *s, int tape, int guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)tape * 4, inside = (bytes + page - 1) / page * page;
    void *at[ARRAYS];
    s->tape = tape, s->map_bytes = inside + 2 * page;
    for (int i = 0; i < ARRAYS; i++) {
        s->map[i] = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (s->map[i] == MAP_FAILED) abort();
        if (guarded) mprotect(s->map[i], page, PROT_NONE), mprotect(s->map[i] + page + inside, page, PROT_NONE);
        at[i] = s->map[i] + page + inside - (i < ARRAYS - 1 ? bytes : (size_t)tape);     /* counted has one byte a token */
    }
    s->e = (struct lab_example){ .in = at[0], .target = at[1], .weight = at[2], .pos = at[3], .counted = at[4] };
}

static void free_sheet(struct sheet *s) { for (int i = 0; i < ARRAYS; i++) munmap(s->map[i], s->map_bytes); }

static void draw(struct check_case *c, const struct instance *t, struct sheet *s, uint64_t seed, int split, int64_t n, int len)
{
    struct lab_err err = { "" };
    const char *between = *t->variant ? ", " : "";
    check_doing(c, "%s%sexample %lld of split %d, length %d", t->variant, between, (long long)n, split, len);
    for (int i = 0; i < s->tape; i++) s->e.in[i] = s->e.target[i] = INT32_MIN, s->e.weight[i] = 1, s->e.pos[i] = i, s->e.counted[i] = 1;
    s->e.prompt = s->e.slice = 0;
    if (t->task->sample(t->self, seed, split, n, len, &s->e, &err) != 0)
        check_fail(c, "an example of every length from min_len to max_len", "min_len or max_len of lab_task_info", "sample refuses: %.200s",
                   *err.msg ? err.msg : "no message");
}

/* The shortest, the next ones, some in between, the longest. */
static int lengths_of(const struct instance *t, int out[LENGTHS])
{
    const int wish[] = { 0, 1, 2, 7, 16, 40, 255 };
    int n = 0;
    for (int i = 0; i < COUNT(wish); i++)
        if (t->info.min_len + wish[i] <= t->info.max_len && tape_of(t, t->info.min_len + wish[i]) <= TAPE_MOST) out[n++] = t->info.min_len + wish[i];
    if (out[n - 1] < t->info.max_len && tape_of(t, t->info.max_len) <= TAPE_MOST) out[n++] = t->info.max_len;
    return n;
}

/* A length at which two examples are unlikely to be equal by chance. */
static int usual_length(const struct instance *t, int wish)
{
    return wish < t->info.min_len ? t->info.min_len : wish > t->info.max_len ? t->info.max_len : wish;
}

typedef void instance_test(struct check_case *, struct instance *);
static void each_instance(struct check_case *c, instance_test *test)
{
    for (int variant = 0; variant < rig_variants(c->task->options); variant++) {
        struct instance t;
        struct lab_err ignored;
        if (open_instance(&t, c->task, variant, &ignored) != 0) continue;
        test(c, &t);
        close_instance(&t);
    }
    check_doing(c, "%s", "");
}

/* ---- what it says of itself ---- */

static void check_info(struct check_case *c, struct instance *t)
{
    static const char *const cause = "init fills struct lab_task_info from the options";
    const struct lab_task_info *i = &t->info;
    check_doing(c, "%s", t->variant);
    if (i->vocab_in < 1 || i->vocab_out < 1) check_fail(c, "vocabularies of at least 1", cause, "vocab_in %d, vocab_out %d",
                                                        i->vocab_in, i->vocab_out);
    if (i->min_len < 1 || i->max_len < i->min_len) check_fail(c, "1 <= min_len <= max_len", cause, "min_len %d, max_len %d", i->min_len, i->max_len);
    if (i->max_slice < 1) check_fail(c, "max_slice of at least 1", cause, "%d", i->max_slice);
    if (i->version < 1) check_fail(c, "version of at least 1", cause, "%d", i->version);
    if (!(i->chance >= 0 && i->chance <= 1)) check_fail(c, "chance between 0 and 1", cause, "%g", i->chance);
    for (int len = i->min_len; len <= i->max_len && len < i->min_len + 100; len++)
        if (tape_of(t, len) < 1) check_fail(c, "a tape of at least one token", "the function tape", "%d at length %d", tape_of(t, len), len);
}

static void test_init(struct check_case *c)
{
    int accepted = 0;
    struct lab_err err = { "" };
    for (int variant = 0; variant < rig_variants(c->task->options); variant++) {
        struct instance t;
        if (open_instance(&t, c->task, variant, &err) == 0) {
            check_info(c, &t), close_instance(&t), accepted++;
        } else if (!*err.msg) {
            check_fail(c, "a refusal that says why", "return lab_fail(err, ...)", "init returns an error and no message");
        }
    }
    check_doing(c, "%s", "");
    if (!accepted) check_fail(c, "options by default with which it works", "defaults that init refuses", "init refuses: %.200s", err.msg);
}

static void test_refusals(struct check_case *c)
{
    struct lab_task_info info;
    char text[96];
    void *self = calloc(1, c->task->self_size + 1);
    for (const struct lab_option *row = c->task->options; row && row->name; row++)
        for (int high = 0; high < 2; high++) {
            struct lab_err err = { "" };
            memset(self, 0, c->task->self_size);
            info = (struct lab_task_info){ .size = sizeof info };
            rig_set_variant(c->task->options, self, 0, text);
            void *at = (char *)self + row->off;
            if (row->type == LAB_T_INT) *(int32_t *)at = (int32_t)(high ? row->hi : row->lo);
            else if (row->type == LAB_T_REAL) *(double *)at = high ? row->hi : row->lo;
            else continue;
            check_doing(c, "init with %.60s at its %s bound", row->name, high ? "upper" : "lower");
            int rc = c->task->init(self, &info, &err);
            if (rc == 0 && c->task->fini) c->task->fini(self);
            if (rc != 0 && !*err.msg) check_fail(c, "a refusal that says why", "return lab_fail(err, ...)", "init returns an error and no message");
        }
}

/* ---- examples ---- */

static void check_example(struct check_case *c, const struct instance *t, const struct sheet *s)
{
    const struct lab_task_info *i = &t->info;
    const struct lab_example *e = &s->e;
    int scored = 0, most = i->max_pos > 0 ? i->max_pos : s->tape;
    for (int k = 0; k < s->tape; k++) {
        if (e->in[k] < 0 || e->in[k] >= i->vocab_in)
            check_fail(c, "token ids in [0, vocab_in)", "a token past the vocabulary, or one that was not written",
                       "in[%d] is %d, vocab_in %d", k, e->in[k], i->vocab_in);
        if (e->target[k] < -1 || e->target[k] >= i->vocab_out)
            check_fail(c, "targets in [0, vocab_out), or -1", "a target past the vocabulary, or one that was not written",
                       "target[%d] is %d, vocab_out %d", k,
                       e->target[k], i->vocab_out);
        if (!isfinite(e->weight[k]) || e->weight[k] < 0)
            check_fail(c, "weights that are finite and not negative", "weight[] of struct lab_example", "weight[%d] is %g", k, (double)e->weight[k]);
        if (e->pos[k] < 0 || e->pos[k] >= most)
            check_fail(c, "positions in [0, max_pos), or [0, tape) without one", "pos[] of struct lab_example, or max_pos of lab_task_info",
                       "pos[%d] is %d, the limit %d", k, e->pos[k], most);
        if (e->pos[k] != k && !(c->task->flags & LAB_TASK_POSITIONS))
            check_fail(c, "positions left alone", "LAB_TASK_POSITIONS is missing, so they are not used", "pos[%d] is %d", k, e->pos[k]);
        scored += e->target[k] >= 0 && e->weight[k] > 0;
    }
    if (!scored) check_fail(c, "something to score", "every target is -1 or has weight 0", "%d positions, none scored", s->tape);
    if (e->prompt < 0 || e->prompt > s->tape) check_fail(c, "prompt in [0, tape]", "prompt of struct lab_example", "%d, tape %d", e->prompt, s->tape);
    if (e->slice < 0 || e->slice >= i->max_slice) check_fail(c, "slice in [0, max_slice)", "slice, or max_slice of lab_task_info",
                                                             "%d, max_slice %d", e->slice, i->max_slice);
}

static void check_range(struct check_case *c, struct instance *t)
{
    int length[LENGTHS], n = lengths_of(t, length);
    for (int k = 0; k < n; k++) {
        struct sheet s;
        make_sheet(&s, tape_of(t, length[k]), 1);
        for (int split = LAB_TRAIN; split <= LAB_TEST; split++)
            for (int64_t i = 0; i < (s.tape > 1000 ? 1 : EXAMPLES); i++) draw(c, t, &s, c->seed, split, i, length[k]), check_example(c, t, &s);
        free_sheet(&s);
    }
}
static void test_range(struct check_case *c) { each_instance(c, check_range); }

static void test_lengths(struct check_case *c)
{
    struct instance t;
    struct lab_err ignored;
    int length[LENGTHS];
    if (open_instance(&t, c->task, 0, &ignored) != 0) check_skip(c, "init refuses the defaults");
    int n = lengths_of(&t, length);
    for (int k = 0; k < n; k++) {
        struct sheet s;
        make_sheet(&s, tape_of(&t, length[k]), 0);
        draw(c, &t, &s, c->seed, LAB_TRAIN, 0, length[k]);
        free_sheet(&s);
    }
    check_note(c, "%d to %d", length[0], length[n - 1]);
}

static int same(const struct sheet *a, const struct sheet *b)
{
    size_t n = (size_t)a->tape * sizeof(int32_t);
    return !memcmp(a->e.in, b->e.in, n) && !memcmp(a->e.target, b->e.target, n) && !memcmp(a->e.weight, b->e.weight, n) &&
           !memcmp(a->e.pos, b->e.pos, n) && a->e.prompt == b->e.prompt && a->e.slice == b->e.slice;
}

/* Again, after other examples, and from a second instance: the same. */
static void check_repeatable(struct check_case *c, struct instance *t)
{
    struct instance other;
    struct lab_err ignored;
    struct sheet first, again;
    int len = usual_length(t, 12), variant = 0;
    make_sheet(&first, tape_of(t, len), 0), make_sheet(&again, tape_of(t, len), 0);
    while (variant < rig_variants(c->task->options) - 1 && *t->variant) {
        char text[96];
        void *self = calloc(1, c->task->self_size + 1);
        rig_set_variant(c->task->options, self, ++variant, text);
        free(self);
        if (!strcmp(text, t->variant)) break;
    }
    if (open_instance(&other, c->task, variant, &ignored) != 0) return;
    for (int64_t i = 0; i < EXAMPLES; i++) {
        draw(c, t, &first, c->seed, LAB_TRAIN, i, len);
        draw(c, t, &again, c->seed + 1, LAB_TEST, i + 7, len);
        draw(c, t, &again, c->seed, LAB_TRAIN, i, len);
        if (!same(&first, &again))
            check_fail(c, "the same example for the same options, seed, split, number and length",
                       "a generator that remembers; draw from lab_rng_at(seed, split, n, len)",
                       "two draws differ");
        draw(c, &other, &again, c->seed, LAB_TRAIN, i, len);
        if (!same(&first, &again)) check_fail(c, "the same example from another instance", "something that init or sample keeps",
                                              "two instances differ");
    }
    close_instance(&other);
    free_sheet(&first), free_sheet(&again);
}
static void test_repeatable(struct check_case *c) { each_instance(c, check_repeatable); }

/* Number, split and seed each make another example; else tests would be seen in training. */
static void test_distinct(struct check_case *c)
{
    static const struct { const char *what; int seed, split, n; } other[] = {
        { "numbers n and n + 1", 0, LAB_TRAIN, 1 }, { "splits train and test", 0, LAB_TEST, 0 }, { "splits train and valid", 0, LAB_VALID, 0 },
        { "seeds s and s + 1", 1, LAB_TRAIN, 0 } };
    struct instance t;
    struct lab_err ignored;
    struct sheet a, b;
    if (open_instance(&t, c->task, 0, &ignored) != 0) check_skip(c, "init refuses the defaults");
    int len = usual_length(&t, 24);
    make_sheet(&a, tape_of(&t, len), 0), make_sheet(&b, tape_of(&t, len), 0);
    for (int k = 0; k < COUNT(other); k++) {
        int equal = 0;
        for (int64_t i = 0; i < EXAMPLES; i++) {
            draw(c, &t, &a, c->seed, LAB_TRAIN, i, len);
            draw(c, &t, &b, c->seed + (uint64_t)other[k].seed, other[k].split, i + other[k].n, len);
            equal += same(&a, &b);
        }
        check_doing(c, "%s", "");
        if (equal == EXAMPLES)
            check_fail(c, "other examples for another number, split or seed", "not all of seed, split, n and len reach lab_rng_at",
                       "%s give the same %d examples",
                       other[k].what, EXAMPLES);
    }
}

static void check_solution(struct check_case *c, struct instance *t)
{
    int length[LENGTHS], n = lengths_of(t, length);
    for (int k = 0; k < n; k++) {
        struct sheet s;
        int tape = tape_of(t, length[k]);
        int32_t *target = malloc((size_t)tape * sizeof *target);
        make_sheet(&s, tape, 0);
        for (int64_t i = 0; i < (tape > 1000 ? 1 : EXAMPLES); i++) {
            draw(c, t, &s, c->seed, LAB_TEST, i, length[k]);
            memcpy(target, s.e.target, (size_t)tape * sizeof *target);
            for (int j = 0; j < tape; j++) s.e.target[j] = INT32_MIN;
            if (t->task->solve(t->self, length[k], &s.e) != 0)
                check_fail(c, "solve to solve what sample makes", "solve refuses an input that sample drew", "solve returns an error");
            for (int j = 0; j < tape; j++)
                if (s.e.target[j] != target[j])
                    check_fail(c, "solve to find the targets of sample", "one of the two is wrong, or solve leaves a target unwritten",
                               "target[%d]: sample %d, solve %d", j,
                               target[j], s.e.target[j]);
        }
        free_sheet(&s), free(target);
    }
}
static void test_solve(struct check_case *c)
{
    if (!c->task->solve) check_skip(c, "no solve");
    each_instance(c, check_solution);
}

/* ---- exchangeable: every order equally likely, so every pair of places looks like every other ---- */

enum { PAIRS_LEN = 6, DRAWS = 6000 };

/* Of n draws, the part `a` against the part `b` of the same ones: a - b in standard errors of chance. */
static double z_score(double a, double b) { return a + b > 0 ? (a - b) / sqrt(a + b) : 0; }

static void check_orders(struct check_case *c, struct instance *t)
{
    int len = usual_length(t, PAIRS_LEN), tape = tape_of(t, len), pairs = tape * (tape - 1) / 2;
    struct sheet s;
    double below[PAIRS_LEN * 8][PAIRS_LEN * 8] = { { 0 } }, above[PAIRS_LEN * 8][PAIRS_LEN * 8] = { { 0 } }, most = 0;
    if (tape < 2 || tape > PAIRS_LEN * 8) return;
    make_sheet(&s, tape, 0);
    for (int64_t n = 0; n < DRAWS; n++) {
        draw(c, t, &s, c->seed, LAB_TRAIN, n, len);
        for (int i = 0; i < tape; i++)
            for (int j = i + 1; j < tape; j++) {
                int a = s.e.in[i], b = s.e.in[j];
                below[i][j] += a < b, above[i][j] += a > b;
                below[j][i] += a == b;           /* the same token twice: as often here as there */
            }
    }
    check_doing(c, "%s", t->variant);
    double limit = sqrt(2 * log(4.0 * pairs * 1e6)), equal = 0;      /* one false alarm in a million tasks */
    for (int i = 0; i < tape; i++) for (int j = i + 1; j < tape; j++) equal += below[j][i] / pairs;
    for (int i = 0; i < tape; i++)
        for (int j = i + 1; j < tape; j++) {
            double z = z_score(below[i][j], above[i][j]), part = equal / DRAWS;
            double twice = part > 0 && part < 1 ? (below[j][i] - equal) / sqrt(DRAWS * part * (1 - part)) : 0;
            if (fabs(z) > most) most = fabs(z);
            if (fabs(z) > limit)
                check_fail(c, "every order of the input tokens to be equally likely",
                           "LAB_TASK_EXCHANGEABLE is claimed, but a token's place says something about it",
                           "places %d and %d of length %d: rising in %.0f of %d examples, falling in %.0f", i, j, len, below[i][j], DRAWS, above[i][j]);
            if (fabs(twice) > limit)
                check_fail(c, "every order of the input tokens to be equally likely",
                           "LAB_TASK_EXCHANGEABLE is claimed, but neighbours are not like others",
                           "places %d and %d of length %d: equal in %.0f of %d examples, %.0f expected", i, j, len, below[j][i], DRAWS, equal);
        }
    check_note(c, "largest deviation %.1f standard errors, %.1f allowed", most, limit);
    free_sheet(&s);
}
static void test_exchangeable(struct check_case *c)
{
    if (!(c->task->flags & LAB_TASK_EXCHANGEABLE)) check_skip(c, "not claimed");
    each_instance(c, check_orders);
}

static int rising(const void *a, const void *b) { return (*(const int32_t *)a > *(const int32_t *)b) - (*(const int32_t *)a < *(const int32_t *)b); }

/* Another order: the tokens that were there, an answer to them, and the same one again. */
static void check_reorder(struct check_case *c, struct instance *t)
{
    int len = usual_length(t, 12), tape = tape_of(t, len);
    size_t n = (size_t)tape;
    struct sheet s;
    int32_t *before = calloc(2 * n, sizeof *before), *after = before + n;
    make_sheet(&s, tape, 1);
    for (int64_t i = 0; i < EXAMPLES; i++) {
        struct lab_err err = { "" };
        draw(c, t, &s, c->seed, LAB_TEST, i, len);
        memcpy(before, s.e.in, n * sizeof *before);
        qsort(before, n, sizeof *before, rising);
        for (int k = 0; k < tape; k++) s.e.target[k] = INT32_MIN, s.e.counted[k] = 1;
        if (t->task->sample(t->self, c->seed, LAB_REORDER, i, len, &s.e, &err) != 0)
            check_fail(c, "another order of an example", "sample() with split LAB_REORDER, which LAB_TASK_REORDERS claims",
                       "refused: %.200s", err.msg);
        check_example(c, t, &s);
        memcpy(after, s.e.in, n * sizeof *after);
        qsort(after, n, sizeof *after, rising);
        for (int k = 0; k < tape; k++)
            if (before[k] != after[k])
                check_fail(c, "the same tokens in another order", "sample() draws a new example where LAB_REORDER asks for the old one reordered",
                           "sorted, token %d was %d and is %d", k, before[k], after[k]);
    }
    free_sheet(&s);
    free(before);
}
static void test_reorder(struct check_case *c)
{
    if (!(c->task->flags & LAB_TASK_REORDERS)) check_skip(c, "not claimed");
    each_instance(c, check_reorder);
}

#define ROW(name, about, needs, run) { name, about, needs, run, 0 }
const struct check_test check_task_tests[] = {
    ROW("describe.words", "summary and source: are they lines that can be printed?", NULL, check_words),
    ROW("describe.options", "help, defaults and bounds: does each value survive being written down?  are others refused?", NULL, check_options),
    ROW("task.init", "does it fill struct lab_task_info with sense?", NULL, test_init),
    ROW("task.refusals", "does every refusal say why?", "task.init", test_refusals),
    ROW("task.lengths", "are all lengths from min_len to max_len accepted?", "task.init", test_lengths),
    ROW("task.range", "are ids, positions, weights, prompt and slice in range, in arrays of the exact size?", "task.lengths", test_range),
    ROW("task.repeatable", "is an example a pure function of its number?", "task.range", test_repeatable),
    ROW("task.distinct", "are other numbers, splits and seeds other examples?", "task.repeatable", test_distinct),
    ROW("task.solve", "does solve agree with sample?", "task.repeatable", test_solve),
    ROW("task.exchangeable", "LAB_TASK_EXCHANGEABLE: is every order equally likely?", "task.repeatable", test_exchangeable),
    ROW("task.reorder", "LAB_TASK_REORDERS: does an example keep its tokens in another order?", "task.repeatable", test_reorder),
    ROW(NULL, NULL, NULL, NULL) };
