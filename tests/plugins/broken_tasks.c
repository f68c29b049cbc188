/* broken_tasks -- each task here breaks one promise of lab_task.h; test_check.c knows which test must find it. */
#include "lab_task.h"

enum { VOCAB = 10 };
struct with_option { int32_t vocab; };
static const struct lab_option option[] = { LAB_INT(struct with_option, vocab, "10", 2, 20, "token ids"), LAB_OPTIONS_END };

static int init(void *self, struct lab_task_info *i, struct lab_err *err)
{
    (void)self, (void)err;
    i->vocab_in = i->vocab_out = VOCAB, i->min_len = 1, i->max_len = 64, i->max_slice = 1, i->version = 1, i->chance = 0.1;
    return 0;
}
static int solve(const void *self, int len, struct lab_example *e)
{
    (void)self;
    for (int t = 0; t < len; t++) e->target[t] = e->in[t];
    return 0;
}
static void fill(uint64_t seed, int split, int64_t n, int len, struct lab_example *e)
{
    struct lab_rng r = lab_rng_at(seed, (uint32_t)split, (uint32_t)n, (uint32_t)len);
    for (int t = 0; t < len; t++) e->in[t] = (int32_t)lab_rng_below(&r, VOCAB);
    solve(NULL, len, e);
}

/* A task whose sample does `extra` after a sound one. */
#define TASK_OF(id, words, its_init, its_solve, extra, ...) \
    static int id##_sample(const void *self, uint64_t seed, int split, int64_t n, int len, struct lab_example *e, struct lab_err *err) \
    { (void)self, (void)err; fill(seed, split, n, len, e); extra; return 0; } \
    static const struct lab_task id = { .size = sizeof id, .name = #id, .summary = words, .init = its_init, .sample = id##_sample, \
                                        .solve = its_solve, __VA_ARGS__ };
#define TASK(id, extra, ...) TASK_OF(id, "a fixture of the tests", init, solve, extra, __VA_ARGS__)

TASK_OF(tab_in_summary, "a\ttab", init, solve, (void)0)
TASK(two_line_help, (void)0, .self_size = sizeof(struct with_option), .options = (const struct lab_option[]){
     LAB_INT(struct with_option, vocab, "10", 2, 20, "two\nlines"), LAB_OPTIONS_END })

static int certain(void *self, struct lab_task_info *i, struct lab_err *err) { return init(self, i, err), i->chance = 2, 0; }
TASK_OF(more_than_certain, "a fixture of the tests", certain, solve, (void)0)
static int refuse_silently(void *self, struct lab_task_info *i, struct lab_err *err)
{
    return ((struct with_option *)self)->vocab == 20 ? -1 : init(self, i, err);
}
TASK_OF(silent_task_refusal, "a fixture of the tests", refuse_silently, solve, (void)0, .self_size = sizeof(struct with_option), .options = option)
TASK(short_only, if (len > 32) return lab_fail(err, "length %d is over 32", len))
TASK(token_past_vocabulary, e->in[0] = e->target[0] = VOCAB)
TASK(writes_past_the_end, e->weight[len] = 1)
TASK(slice_past_the_end, e->slice = 1)
TASK(moves_positions, e->pos[0] = len - 1)
TASK(nothing_scored, for (int t = 0; t < len; t++) e->target[t] = -1)
static int64_t draws;
TASK(remembers, e->in[0] = e->target[0] = (int32_t)(draws++ % VOCAB))
TASK(one_split, fill(seed, LAB_TRAIN, n, len, e))
static int solve_wrongly(const void *self, int len, struct lab_example *e) { return solve(self, len, e), e->target[len - 1] = 0, 0; }
TASK_OF(wrong_solve, "a fixture of the tests", init, solve_wrongly, (void)0)
static void swap(int32_t *a, int32_t *b) { int32_t c = *a; *a = *b, *b = c; }
TASK(rising_start, if (len > 1 && e->in[0] > e->in[1]) swap(&e->in[0], &e->in[1]); solve(self, len, e), .flags = LAB_TASK_EXCHANGEABLE)
TASK(forgets_its_tokens, (void)0, .flags = LAB_TASK_REORDERS)

static const struct lab_task *const list[] = {
    &tab_in_summary, &two_line_help, &more_than_certain, &silent_task_refusal, &short_only, &token_past_vocabulary, &writes_past_the_end,
    &slice_past_the_end, &moves_positions, &nothing_scored, &remembers, &one_split, &wrong_solve, &rising_start, &forgets_its_tokens, NULL };
LAB_PLUGIN(broken_tasks, .version = "1", .license = "MIT", .tasks = list);
