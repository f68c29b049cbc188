/* test_positions -- the sources of position ids: their distributions, what draws depend on, what they do to a run's identity,
 * and every encoder trained with every source.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "base/rng.h"
#include "base/str.h"
#include "exp/data.h"
#include "exp/sweep.h"
#include "nn/gemm.h"

static struct positions_options source(int which, int max) { return (struct positions_options){ .source = which, .max = max, .eval = 1 }; }

static void fill(int which, int max, uint32_t draw, int T, int32_t *pos)
{
    struct positions_options o = source(which, max);
    struct lab_rng r = rng_stream(7, RNG_POSITIONS, draw, 0);
    positions_fill(&o, &r, T, pos);
}

/* ---- distributions ---- */

static void random_subsets_are_all_equally_likely(void **state)
{
    (void)state;
    enum { MAX = 5, T = 2, SUBSETS = 10, DRAWS = 20000 };              /* 5 choose 2 */
    int count[MAX][MAX] = { { 0 } };
    double chi_square = 0;
    for (uint32_t draw = 0; draw < DRAWS; draw++) {
        int32_t pos[T];
        fill(POSITIONS_RANDOM, MAX, draw, T, pos);
        assert_true(0 <= pos[0] && pos[0] < pos[1] && pos[1] < MAX);
        count[pos[0]][pos[1]]++;
    }
    for (int a = 0; a < MAX; a++)
        for (int b = a + 1; b < MAX; b++) chi_square += pow(count[a][b] - DRAWS / SUBSETS, 2) / (DRAWS / SUBSETS);
    if (chi_square > 27.9) fail_msg("chi square of ten subsets is %g; above 27.9 it is one time in a thousand", chi_square);
}

static void random_ids_are_sorted_and_different(void **state)
{
    (void)state;
    enum { MAX = 2048, T = 40 };
    int32_t pos[T];
    double mean_first = 0;
    for (uint32_t draw = 0; draw < 2000; draw++) {
        fill(POSITIONS_RANDOM, MAX, draw, T, pos);
        for (int t = 1; t < T; t++) assert_true(pos[t - 1] < pos[t]);
        assert_true(pos[0] >= 0 && pos[T - 1] < MAX);
        mean_first += pos[0] / 2000.0;
    }
    double expected = (MAX - T) / (T + 1.0);                           /* of the smallest of T, counted from 0 */
    if (fabs(mean_first - expected) > 5) fail_msg("the mean of the first id is %g, expected %g", mean_first, expected);
}

static void offsets_are_runs_from_every_start(void **state)
{
    (void)state;
    enum { MAX = 8, T = 5, STARTS = MAX - T + 1 };
    int count[STARTS] = { 0 };
    for (uint32_t draw = 0; draw < 4000; draw++) {
        int32_t pos[T];
        fill(POSITIONS_OFFSET, MAX, draw, T, pos);
        for (int t = 1; t < T; t++) assert_int_equal(pos[t], pos[0] + t);
        assert_in_range(pos[0], 0, STARTS - 1);
        count[pos[0]]++;
    }
    for (int start = 0; start < STARTS; start++) assert_in_range(count[start], 850, 1150);     /* 1000, 5 standard deviations */
}

static void scaled_ids_span_the_whole_range(void **state)
{
    (void)state;
    static const struct { int max, T; int32_t pos[5]; } known[] = {
        { 10, 4, { 0, 2, 5, 7 } }, { 100, 5, { 0, 20, 40, 60, 80 } }, { 5, 5, { 0, 1, 2, 3, 4 } }, { 1000000, 1, { 0 } } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int32_t pos[5];
        fill(POSITIONS_SCALED, known[i].max, 0, known[i].T, pos);
        for (int t = 0; t < known[i].T; t++) assert_int_equal(pos[t], known[i].pos[t]);
    }
}

static void without_room_to_spare_all_sources_are_sequential(void **state)
{
    (void)state;
    for (int which = POSITIONS_SEQUENTIAL; which <= POSITIONS_SCALED; which++)
        for (uint32_t draw = 0; draw < 20; draw++) {
            int32_t pos[6];
            fill(which, 6, draw, 6, pos);
            for (int t = 0; t < 6; t++) assert_int_equal(pos[t], t);
        }
}

/* ---- batches ---- */

struct world { struct registry registry; struct conf conf; struct sweep sweep; };

static void load(struct world *w, const char *text, struct lab_err *err)
{
    static const char *const folder[] = { TEST_BUILD "/plugins/encoders", TEST_BUILD "/plugins/tasks" };
    *w = (struct world){ .sweep = { .n = 0 } };
    if (registry_load(&w->registry, folder, 2, err) != 0 || conf_read_text(&w->conf, "positions.ini", text, strlen(text), err) != 0)
        fail_msg("%s", err->msg);
}
static void world_open(struct world *w, const char *text)
{
    struct lab_err err;
    load(w, text, &err);
    if (sweep_build(&w->sweep, &w->conf, &w->registry, &err) != 0) fail_msg("%s", err.msg);
}
static void world_close(struct world *w)
{
    sweep_free(&w->sweep);
    conf_free(&w->conf);
    registry_free(&w->registry);
}

#define SMALL "[sweep]\nencoder = sinusoidal\ntask = reverse\nseed = 0\n[train]\nlength = 4\nbatch = 6\n[eval]\nlengths = 4, 8\n"
#define ROOM 400

/* The ids of one example of the evaluation, asked for among `count` from `first`. */
static void eval_ids(struct data *d, int length, int first, int count, int example, int32_t *pos, int *own)
{
    struct lab_err err;
    if (data_eval(d, LAB_TEST, length, first, count, NULL, &err) != 0) fail_msg("%s", err.msg);
    *own = d->batch.pos_stride != 0;
    memcpy(pos, d->batch.pos + (size_t)(example - first) * d->batch.pos_stride, (size_t)d->batch.T * sizeof *pos);
}

static void draws_depend_on_what_names_them(void **state)
{
    (void)state;
    struct world w;
    struct data d;
    struct lab_err err;
    int own;
    world_open(&w, SMALL "[positions]\nsource = random\nper = example\nmax = 500\n");
    const struct run_config *c = &w.sweep.run[0].config;
    assert_int_equal(c->dims.max_pos, 500);
    int32_t first[ROOM], again[ROOM], a[16], b[16];
    size_t bytes = 6 * (size_t)config_tape(c, 4) * sizeof *first;
    assert_int_equal(data_init(&d, c, ROOM, &err), 0);
    data_train(&d, 3, &err);
    int T = d.batch.T;
    assert_int_equal(d.batch.pos_stride, T);
    memcpy(first, d.batch.pos, bytes);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) assert_true(memcmp(first + i * T, first + k * T, (size_t)T * sizeof *first));
    data_train(&d, 4, &err);
    assert_true(memcmp(first, d.batch.pos, bytes));
    data_train(&d, 3, &err);
    memcpy(again, d.batch.pos, bytes);
    assert_memory_equal(first, again, bytes);

    eval_ids(&d, 4, 0, 5, 3, a, &own);
    eval_ids(&d, 4, 3, 1, 3, b, &own);                                 /* however the examples are grouped */
    assert_memory_equal(a, b, (size_t)T * sizeof *a);
    eval_ids(&d, 4, 3, 2, 4, b, &own);
    assert_true(own && memcmp(a, b, (size_t)T * sizeof *a));
    eval_ids(&d, 8, 3, 1, 3, b, &own);
    assert_true(memcmp(a, b, (size_t)T * sizeof *a));
    data_release(&d);
    world_close(&w);
}

static void a_batch_may_share_a_draw_and_evaluation_may_be_sequential(void **state)
{
    (void)state;
    struct world w;
    struct data d;
    struct lab_err err;
    int own;
    int32_t first[16], pos[16];
    world_open(&w, SMALL "[positions]\nsource = offset\neval = no\nmax = 10000\n");
    const struct run_config *c = &w.sweep.run[0].config;
    assert_int_equal(data_init(&d, c, ROOM, &err), 0);
    data_train(&d, 0, &err);
    assert_int_equal(d.batch.pos_stride, 0);
    memcpy(first, d.batch.pos, (size_t)d.batch.T * sizeof *first);
    data_train(&d, 1, &err);
    assert_true(memcmp(first, d.batch.pos, (size_t)d.batch.T * sizeof *first));
    eval_ids(&d, 8, 2, 3, 2, pos, &own);
    assert_false(own);
    for (int t = 0; t < d.batch.T; t++) assert_int_equal(pos[t], t);
    data_release(&d);
    world_close(&w);
}

/* In a batch of several lengths each example is laid out by its own, and its padding has id 0. */
static void padded_examples_have_ids_of_their_own_length(void **state)
{
    (void)state;
    static const char *const section[] = { "source = scaled\nmax = 90\n", "source = random\nmax = 90\n", "source = offset\nper = example\nmax = 90\n" };
    for (int s = 0; s < 3; s++) {
        struct world w;
        struct data d;
        struct lab_err err;
        char text[512];
        int padded = 0;
        snprintf(text, sizeof text, "[sweep]\nencoder = none\ntask = reverse\nseed = 0\n[train]\nlength = 2..7\nper = example\nbatch = 6\n[positions]\n%s", section[s]);
        world_open(&w, text);
        assert_int_equal(data_init(&d, &w.sweep.run[0].config, ROOM, &err), 0);
        assert_int_equal(data_train(&d, 5, &err), 0);
        assert_int_equal(d.batch.pos_stride, d.batch.T);
        for (int i = 0; i < d.batch.B; i++) {
            const int32_t *pos = d.batch.pos + (size_t)i * d.batch.T;
            int tape = config_tape(&w.sweep.run[0].config, d.length[i]);
            for (int t = 0; t < d.batch.T; t++) {
                if (t >= tape) assert_int_equal(pos[t], 0);
                else if (s == 0) assert_int_equal(pos[t], 90 * t / tape);
                else assert_in_range(pos[t], t ? pos[t - 1] + 1 : 0, 89 - (tape - 1 - t));
                padded += t >= tape;
            }
            for (int k = 0; s == 1 && k < i; k++)                      /* one draw a batch: equal lengths, equal ids */
                if (d.length[k] == d.length[i]) assert_memory_equal(pos, d.batch.pos + (size_t)k * d.batch.T, (size_t)d.batch.T * sizeof *pos);
        }
        assert_true(padded > 0);
        data_release(&d);
        world_close(&w);
    }
}

/* ---- the configuration ---- */

static void key_of(const char *section, char key[HASH_HEX], int *named)
{
    struct world w;
    char text[512];
    snprintf(text, sizeof text, SMALL "%s", section);
    world_open(&w, text);
    memcpy(key, w.sweep.run[0].config.key, HASH_HEX);
    *named = strstr(w.sweep.run[0].config.json, "\"positions\":") != NULL;
    world_close(&w);
}

/* Runs of before there were sources keep their identity; all that a source is belongs to it. */
static void sequential_positions_leave_the_identity_alone(void **state)
{
    (void)state;
    static const char *const other[] = {
        "[positions]\nsource = random\n", "[positions]\nsource = offset\n", "[positions]\nsource = scaled\n",
        "[positions]\nsource = random\nmax = 100\n", "[positions]\nsource = random\nper = example\n", "[positions]\nsource = random\neval = no\n" };
    enum { OTHERS = sizeof other / sizeof *other };
    char plain[HASH_HEX], key[OTHERS][HASH_HEX];
    int named;
    key_of("", plain, &named);
    assert_false(named);
    key_of("[positions]\nsource = sequential\nmax = 77\nper = example\n", key[0], &named);
    assert_false(named);
    assert_string_equal(plain, key[0]);
    for (int i = 0; i < OTHERS; i++) {
        key_of(other[i], key[i], &named);
        assert_true(named);
        assert_string_not_equal(plain, key[i]);
        for (int k = 0; k < i; k++) assert_string_not_equal(key[k], key[i]);
    }
}

/* What the worker gets as text is the same run. */
static void settings_give_the_run_back(void **state)
{
    (void)state;
    struct world w;
    struct conf conf;
    struct run_config again;
    struct lab_err err;
    world_open(&w, SMALL "[positions]\nsource = random\nmax = 99\nper = example\neval = no\n");
    const struct run_config *c = &w.sweep.run[0].config;
    assert_int_equal(conf_read_text(&conf, "job", c->settings, strlen(c->settings), &err), 0);
    if (config_build(&again, conf.entry, conf.n, &w.registry, &err) != 0) fail_msg("%s", err.msg);
    assert_string_equal(again.key, c->key);
    config_free(&again);
    conf_free(&conf);
    world_close(&w);
}

static void refusals(void **state)
{
    (void)state;
    static const struct { const char *section, *says; } bad[] = {
        { "source = random\nmax = 3\n", "positions.ini:12: positions.max = 3 has no room for sequences of 8 positions: set positions.max = 8 or more, "
                                        "or positions.eval = no" },
        { "source = scaled\neval = no\nmax = 3\n", "positions.ini:13: positions.max = 3 has no room for sequences of 4 positions: set positions.max = 4 or more" },
        { "source = shuffled\n", "positions.ini:11: source = 'shuffled': expected sequential | random | offset | scaled" },
        { "sourse = random\n", "positions.ini:11: unknown key 'sourse' in [positions]: did you mean 'source'?" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct world w;
        struct lab_err err;
        char text[512];
        snprintf(text, sizeof text, SMALL "[positions]\n%s", bad[i].section);
        load(&w, text, &err);
        assert_int_equal(sweep_build(&w.sweep, &w.conf, &w.registry, &err), -1);
        assert_string_equal(err.msg, bad[i].says);
        conf_free(&w.conf);
        registry_free(&w.registry);
    }
}

/* ---- every encoder with every source ---- */

static void train_fifty_steps(const struct run_config *c, const char *what)
{
    struct model_setup setup;
    struct model model;
    struct data d;
    struct lab_err err;
    const struct optim_options optim = { .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 1, .steps = 50 };
    double first = 0, last = 0;
    config_model_setup(c, &setup);
    if (data_init(&d, c, setup.infer_tokens, &err) != 0 || model_init(&model, &setup, &err) != 0) fail_msg("%s: %s", what, err.msg);
    for (int step = 0; step < 50; step++) {
        if (data_train(&d, step, &err) != 0) fail_msg("%s: %s", what, err.msg);
        double loss = model_step(&model, &d.batch, (uint32_t)step);
        if (!isfinite(loss) || !isfinite(optim_step(&model, &optim, step))) fail_msg("%s: step %d gives a loss of %g", what, step, loss);
        if (step < 10) first += loss / 10;
        if (step >= 40) last += loss / 10;
    }
    if (last >= first) fail_msg("%s: the loss goes from %g to %g in 50 steps, expected less", what, first, last);
    for (int i = 0; i < c->eval.lengths.n; i++) {
        if (data_eval(&d, LAB_TEST, c->eval.lengths.v[i], 0, 2, NULL, &err) != 0) fail_msg("%s: %s", what, err.msg);
        model_forward(&model, &d.batch, 0, 0);
        if (!isfinite(model_loss(&model, &d.batch))) fail_msg("%s: no finite loss at length %d", what, (int)c->eval.lengths.v[i]);
    }
    data_release(&d);
    model_release(&model);
}

static void every_encoder_trains_with_every_source(void **state)
{
    (void)state;
    static const char text[] = "[sweep]\nencoder = %s\ntask = shift\nseed = 0\npositions.source = sequential, random, offset, scaled\n"
        "positions.per = batch, example\n[positions]\nmax = 60\n[model]\nd_model = 16\nheads = 2\nlayers = 2\nd_ff = 16\ncausal = %s\n"
        "[train]\nlength = 3..6\nsteps = 50\nbatch = 8\n[eval]\nlengths = 6, 12\n";
    struct world all;
    int pairs = 0;
    world_open(&all, SMALL);
    for (size_t i = 0; i < all.registry.n_entry; i++) {
        const struct lab_encoder *e = all.registry.entry[i].encoder;
        struct world w;
        char ini[1024];
        if (!e) continue;
        snprintf(ini, sizeof ini, text, e->name, e->flags & LAB_E_CAUSAL_ONLY ? "yes" : "no");
        world_open(&w, ini);
        assert_int_equal(w.sweep.n, 7);                                /* sequential is the same run for either */
        for (size_t run = 0; run < w.sweep.n; run++, pairs++) {
            const struct run_config *c = &w.sweep.run[run].config;
            static const char *const name[] = { "sequential", "random", "offset", "scaled" };
            char what[128];
            snprintf(what, sizeof what, "%s, %s for each %s", e->name, name[c->positions.source], c->positions.per ? "example" : "batch");
            train_fifty_steps(c, what);
        }
        world_close(&w);
    }
    assert_true(pairs >= 7 * 15);                                      /* that so many encoders are shipped */
    world_close(&all);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(random_subsets_are_all_equally_likely), cmocka_unit_test(random_ids_are_sorted_and_different),
        cmocka_unit_test(offsets_are_runs_from_every_start), cmocka_unit_test(scaled_ids_span_the_whole_range),
        cmocka_unit_test(without_room_to_spare_all_sources_are_sequential), cmocka_unit_test(draws_depend_on_what_names_them),
        cmocka_unit_test(a_batch_may_share_a_draw_and_evaluation_may_be_sequential),
        cmocka_unit_test(padded_examples_have_ids_of_their_own_length),
        cmocka_unit_test(sequential_positions_leave_the_identity_alone), cmocka_unit_test(settings_give_the_run_back),
        cmocka_unit_test(refusals), cmocka_unit_test(every_encoder_trains_with_every_source) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
