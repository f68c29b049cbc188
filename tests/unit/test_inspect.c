/* test_inspect -- what `lab inspect` shows, against the two lessons that it repeats, the papers' formulas and tables, and the
 * evaluation of the same run.  No value here is lab's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "answer/inspect.h"

#define OK(call) do { struct lab_err err = { "" }; if ((call) != 0) fail_msg("%s: %s", #call, err.msg); } while (0)
#define IS_FLOAT (sizeof(lab_real) == 4)

static struct registry *plugins(void)
{
    static struct registry registry;
    static const char *const folder[] = { TEST_BUILD "/plugins/encoders", TEST_BUILD "/plugins/tasks" };
    if (!registry.n_entry) OK(registry_load(&registry, folder, 2, &err));
    return &registry;
}

static int exact = 1;                /* numbers with all digits, as programs get them */

/* An encoder in a model without training: length positions, `more` keys of the configuration. */
static void look(struct inspect *in, const char *encoder, int length, int farther, int d_model, const char *more)
{
    struct conf conf = { 0 };
    struct run_config config;
    struct model_setup setup;
    struct model model;
    char text[512], lengths[32] = "";
    if (farther) snprintf(lengths, sizeof lengths, ", %d", length + farther);
    int n = snprintf(text, sizeof text, "[run]\nencoder = %s\ntask = reverse\n[train]\nlength = %d\n[eval]\nlengths = %d%s\n[model]\nd_model = %d\nlayers = 1\n%s",
                     encoder, length, length, lengths, d_model, more);
    OK(conf_read_text(&conf, "test", text, (size_t)n, &err));
    OK(config_build(&config, conf.entry, conf.n, plugins(), &err));
    config_model_setup(&config, &setup);
    setup.train_batch = 0;
    OK(model_init(&model, &setup, &err));
    inspect_init(in, exact);
    OK(inspect_encoder(in, &config, &model, length, &err));
    model_release(&model);
    config_free(&config);
    conf_free(&conf);
}

static const struct inspect_part *find(const struct inspect *in, const char *name)      /* NULL: not shown */
{
    for (size_t i = 0; i < in->n; i++) if (!strcmp(in->part[i].name, name)) return &in->part[i];
    return NULL;
}
static const struct inspect_part *part(const struct inspect *in, const char *name)
{
    if (!find(in, name)) fail_msg("there is no part '%s'", name);
    return find(in, name);
}

/* Row 0 is the first below the header. */
static const char *cell(const struct inspect_part *p, size_t row, int col)
{
    size_t i = (row + 1) * (size_t)p->table.n_col + (size_t)col;
    if (i >= p->table.n_cell) fail_msg("%s has no row %zu", p->name, row);
    return p->table.cell[i];
}
static double number(const struct inspect_part *p, size_t row, int col)
{
    const char *text = cell(p, row, col);
    return text ? atof(text) : NAN;
}
static size_t rows(const struct inspect_part *p) { return p->table.n_cell / (size_t)p->table.n_col - 1; }

static void near(const char *what, double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit)) fail_msg("%s: got %.9g, expected %.9g within %g", what, got, want, limit);
}

/* ---- the lesson on sinusoidal encoding ---- */

static void the_two_clock_hands_of_four_dimensions(void **state)
{
    struct inspect in;
    (void)state;
    look(&in, "sinusoidal", 8, 0, 4, "");
    const struct inspect_part *p = part(&in, "waves"), *table = part(&in, "table");
    assert_int_equal(rows(p), 2);
    near("speed 0", number(p, 0, 2), 1, 5e-7), near("wavelength 0", number(p, 0, 3), 6.28, 5e-3);
    near("speed 1", number(p, 1, 2), 0.01, 5e-7), near("wavelength 1", number(p, 1, 3), 628.32, 1e-2);
    static const double pe[4][4] = { { 0, 1, 0, 1 }, { 0.8415, 0.5403, 0.0100, 0.9999 }, { 0.9093, -0.4161, 0.0200, 0.9998 }, { 0.1411, -0.9900, 0.0300, 0.9996 } };
    for (int i = 0; i < 16; i++) near("PE", table->chart.value[i], pe[i / 4][i % 4], 1e-4);
    near("a token at 0 and 3", number(part(&in, "norms"), 5, 1), 1.9900, 5e-5);
    assert_non_null(strstr(in.subject, "trained parameters: 0."));
    inspect_release(&in);
}

static void lengths_distances_and_products_of_fifty_positions(void **state)
{
    static const int k[] = { 0, 1, 2, 3, 5, 8, 10, 15, 20 };
    static const double product[] = { 16.00, 15.31, 13.73, 12.27, 11.78, 10.52, 10.06, 8.41, 10.47 };
    struct inspect in;
    (void)state;
    look(&in, "sinusoidal", 50, 0, 32, "");
    const struct inspect_part *p = part(&in, "norms");
    near("smallest number", number(p, 0, 1), -0.99999, 5e-6), near("largest number", number(p, 1, 1), 1, 5e-6);
    near("shortest", number(p, 2, 1), 4, 1e-6), near("longest", number(p, 3, 1), 4, 1e-6);
    near("smallest distance", number(p, 4, 1), 1.1716, 5e-5);
    p = part(&in, "products");
    assert_int_equal(rows(p), 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(number(p, i, 0), k[i]);
        near("product", number(p, i, 1), product[i], 5e-3);
    }
    inspect_release(&in);
}

static void three_positions_on_is_one_rotation(void **state)
{
    static const double turned[] = { 0.98936, -0.14550, 0.71736, 0.69671 };
    struct inspect in;
    (void)state;
    look(&in, "sinusoidal", 23, 0, 8, "");                   /* p = 0..19, and three on */
    const struct inspect_part *p = part(&in, "rotation");
    const char *error = strrchr(p->note, ':');
    assert_non_null(strstr(p->note, "p = 0..19:"));
    if (!(atof(error + 1) <= 2e-7)) fail_msg("%s", p->note);
    for (int i = 0; i < 4; i++) near("M PE(5)", number(p, 0, 1 + i), turned[i], 5e-6), near("PE(8)", number(p, 1, 1 + i), turned[i], 5e-6);
    inspect_release(&in);
}

static void the_map_is_the_one_of_the_lesson(void **state)
{
    static const char *const map[] = {
        "      0123456789012345", "  p 0 +@+@+@+@+@+@+@+@", "  p 1 @#*@+@+@+@+@+@+@", "  p 2 @:#@+@+@+@+@+@+@", "  p 3 + @#*@+@+@+@+@+@",
        "  p 4 ..@**@+@+@+@+@+@", "  p 5  *@=#@+@+@+@+@+@", "  p 6 -@@-#@+@+@+@+@+@", "  p 7 %%@:%%*@+@+@+@+@", "  p 8 @=# %%*@+@+@+@+@",
        "  p 9 # * %%*@+@+@+@+@", "  p10 : = @#*@+@+@+@+@", "  p11  +- @#*@+@+@+@+@", "  p12 :@..@**@+@+@+@+@", "  p13 #@ :@**@+@+@+@+@",
        "  p14 @+ -@+#@+@+@+@+@", "  p15 %. +@+#@+@+@+@+@", "  p16 -  *@=#@+@+@+@+@", "  p17  -.%@=#@+@+@+@+@", "  p18 .%:@@-#@+@+@+@+@",
        "  p19 +@-@@-#@+@+@+@+@", "  p20 @#+@@:#@+@+@+@+@", "  p21 @:*@@:%%*@+@+@+@", "  p22 = %%@:%%*@+@+@+@", "  p23  :@#%.%%*@+@+@+@" };
    struct inspect in;
    struct str out = { 0 };
    (void)state;
    look(&in, "sinusoidal", 24, 0, 16, "");
    inspect_text(&in, 78, &out);
    const char *at = strstr(str_text(&out), "      0123");
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        size_t n = strcspn(at ? at : "", "\n");
        if (!at || n != strlen(map[i]) || strncmp(at, map[i], n)) fail_msg("line %zu is '%.*s', expected '%s'", i, (int)n, at ? at : "", map[i]);
        at += n + 1;
    }
    str_free(&out);
    inspect_release(&in);
}

static void a_concatenated_layout_has_the_same_waves(void **state)
{
    struct inspect in;
    (void)state;
    look(&in, "sinusoidal", 12, 0, 8, "[encoder.sinusoidal]\nlayout = concatenated\n");
    const struct inspect_part *p = part(&in, "waves");
    assert_int_equal(rows(p), 4);
    assert_string_equal(cell(p, 1, 1), "1 and 5");
    for (size_t k = 0; k < 4; k++) near("speed", number(p, k, 2), pow(10000, -(double)k / 4), 1e-6);
    inspect_release(&in);
}

/* ---- what others do not have is not shown ---- */

static void a_learned_table_is_no_wave(void **state)
{
    struct inspect in;
    (void)state;
    look(&in, "learned", 12, 5, 32, "[encoder.learned]\nmax_len = 512\n");
    assert_non_null(strstr(in.subject, "trained parameters: 16384."));       /* 512 x 32 */
    assert_null(find(&in, "waves"));
    assert_null(find(&in, "rotation"));
    if (!(number(part(&in, "shift"), 0, 1) > 0.1)) fail_msg("a learned table cannot be the same elsewhere");
    inspect_release(&in);
    look(&in, "none", 12, 128, 32, "");
    assert_int_equal(in.n, 0);
    assert_non_null(strstr(in.subject, "hooks: none"));
    inspect_release(&in);
}

/* ---- rope ---- */

static void products_of_rope_depend_on_the_distance_alone(void **state)
{
    struct inspect in;
    (void)state;
    look(&in, "rope", 24, 128, 64, "");
    const struct inspect_part *p = part(&in, "relative"), *waves = part(&in, "waves");
    static const int at[8][2] = { { 0, 0 }, { 5, 5 }, { 100, 100 }, { 0, 3 }, { 5, 8 }, { 100, 103 }, { 0, 10 }, { 50, 60 } };
    assert_int_equal(rows(p), 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(number(p, i, 0), at[i][0]), assert_int_equal(number(p, i, 1), at[i][1]);
        size_t first = i < 3 ? 0 : i < 6 ? 3 : 6;
        near("q . k", number(p, i, 3), number(p, first, 3), 1e-5 * fabs(number(p, first, 3)));
    }
    if (fabs(number(p, 0, 3) - number(p, 3, 3)) < 1e-2) fail_msg("distances 0 and 3 have equal products");
    for (size_t k = 0; k < 8; k++) near("speed", number(waves, k, 2), pow(10000, -(double)k / 8), 1e-6);       /* heads of 16 */
    for (int shift = 1; shift <= 2; shift++) if (!(number(part(&in, "shift"), 0, shift) < 2e-6)) fail_msg("rope is not the same elsewhere");
    p = part(&in, "products");                               /* of equal vectors of length 1 with equal coordinates: the mean of the cosines */
    for (size_t i = 0; i < rows(p); i++) {
        double mean = 0;
        for (int k = 0; k < 8; k++) mean += cos(number(p, i, 0) * pow(10000, -(double)k / 8)) / 8;
        near("fading", number(p, i, 1), mean, 1e-5);
    }
    inspect_release(&in);
}

static void half_of_the_coordinates_may_stay_and_pairs_may_lie_apart(void **state)
{
    struct inspect in;
    (void)state;
    look(&in, "rope", 24, 128, 64, "[encoder.rope]\npairs = half\nfraction = 0.5\n");
    const struct inspect_part *p = part(&in, "waves");
    assert_int_equal(rows(p), 4);
    assert_string_equal(cell(p, 1, 1), "1 and 5");
    inspect_release(&in);
}

/* ---- biases ---- */

static void slopes_are_those_of_the_paper(void **state)
{
    static const double four[] = { .25, .0625, .015625, .00390625 };
    struct inspect in;
    (void)state;
    look(&in, "alibi", 12, 128, 64, "");
    const struct inspect_part *p = part(&in, "slopes"), *map = part(&in, "bias.1");
    assert_int_equal(rows(p), 4);
    for (size_t h = 0; h < 4; h++) near("slope, left", number(p, h, 1), four[h], 1e-7), near("slope, right", number(p, h, 2), four[h], 1e-7);
    for (int i = 0; i < 144; i++) near("bias", map->chart.value[i], -four[1] * abs(i / 12 - i % 12), 1e-6);
    assert_null(find(&in, "buckets"));
    inspect_release(&in);
    look(&in, "alibi", 12, 128, 64, "heads = 8\ncausal = yes\n");
    p = part(&in, "slopes"), map = part(&in, "bias.0");
    assert_int_equal(p->table.n_col, 2);                     /* nothing is to the right */
    for (size_t h = 0; h < 8; h++) near("slope", number(p, h, 1), pow(2, -(double)(h + 1)), 1e-7);
    for (int i = 0; i < 144; i++) if (isnan(map->chart.value[i]) != (i % 12 > i / 12)) fail_msg("a causal query sees what is before it");
    inspect_release(&in);
}

static void check_buckets(const char *more, int n, const int *first, int right)
{
    struct inspect in;
    look(&in, "t5", 20, 128, 64, more);
    const struct inspect_part *p = part(&in, "buckets");
    assert_int_equal(rows(p), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(atoi(cell(p, (size_t)i, 1)), first[i]);
        if (right && i) assert_int_equal(atoi(cell(p, (size_t)i, 2)), first[i]);
        else if (right) assert_null(cell(p, 0, 2));          /* a key on the right is at distance 1 at least */
        assert_string_equal(cell(p, (size_t)i, 2 + right), first[i] < 20 ? "yes" : "no");
    }
    assert_non_null(strstr(cell(p, (size_t)n - 1, 1), "and more"));
    inspect_release(&in);
}

/* First distances of T5's buckets, from its formula. */
static void buckets_are_those_of_the_formula(void **state)
{
    static const int side16[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91 };
    static const int side32[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113 };
    (void)state;
    check_buckets("", 16, side16, 1);
    check_buckets("causal = yes\n", 32, side32, 0);
}

static void what_depends_on_tokens_has_maps_of_its_own(void **state)
{
    struct inspect in;
    (void)state;
    look(&in, "shaw", 10, 128, 64, "");
    const struct inspect_part *p = part(&in, "logits.0");
    for (int i = 1; i < 10; i++) near("one distance, one logit", p->chart.value[i * 11], p->chart.value[0], 1e-5);      /* all tokens are alike */
    assert_int_equal(rows(part(&in, "values")), 6);
    inspect_release(&in);
}

/* Every encoder of the tree is shown, in 78 columns and as JSON, whatever it does. */
static void all_encoders_are_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < plugins()->n_entry; i++) {
        const struct plugin_entry *e = &plugins()->entry[i];
        struct inspect in;
        struct str out = { 0 };
        if (e->kind != PLUGIN_ENCODER || e->shadowed_by >= 0) continue;
        exact = 0;
        look(&in, e->name, 9, 5, 64, e->encoder->flags & LAB_E_CAUSAL_ONLY ? "causal = yes\n" : "");
        inspect_text(&in, 78, &out);
        for (const char *line = str_text(&out); *line; line += strcspn(line, "\n") + 1)
            if (strcspn(line, "\n") > 80) fail_msg("%s: a line of %zu columns: %.120s", e->name, strcspn(line, "\n"), line);
        str_clear(&out);
        inspect_json(&in, &out);
        if (strstr(str_text(&out), "nan")) fail_msg("%s: JSON has no nan: %s", e->name, str_text(&out));
        str_free(&out);
        inspect_release(&in);
        exact = 1;
    }
}

/* ---- shuffled input ---- */

static void only_an_encoder_or_a_mask_sees_order(void **state)
{
    static const char *const encoder[] = { "none", "sinusoidal", "learned", "rope", "t5", "alibi", "cope" };
    enum { N = sizeof encoder / sizeof *encoder };
    struct inspect_subject subject[N];
    static char text[N][128];
    struct inspect in;
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "[run]\nencoder = %s\ntask = reverse\n[model]\nd_model = 32\n[train]\nlength = 8\n", encoder[i]);
        subject[i] = (struct inspect_subject){ encoder[i], text[i] };
    }
    inspect_init(&in, 1);
    OK(inspect_equivariance(&in, subject, N, plugins(), 8, &err));
    const struct inspect_part *p = part(&in, "equivariance");
    if (!(number(p, 0, 1) <= (IS_FLOAT ? 1e-6 : 1e-14))) fail_msg("none, bidirectional: %s", cell(p, 0, 1));
    if (!(number(p, 0, 3) <= 1e-6)) fail_msg("none tells one token in two places apart: %s", cell(p, 0, 3));
    for (size_t i = 0; i < N; i++) {
        if (!(number(p, i, 2) > 1e-2)) fail_msg("%s, causal: %s", encoder[i], cell(p, i, 2));
        if (i == N - 1) { assert_null(cell(p, i, 1)); continue; }            /* cope is for causal models only */
        if (i && !(number(p, i, 1) > 1e-2)) fail_msg("%s, bidirectional: %s", encoder[i], cell(p, i, 1));
        if (i && !(number(p, i, 3) > 1e-3)) fail_msg("%s, one token in two places: %s", encoder[i], cell(p, i, 3));
    }
    inspect_release(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_two_clock_hands_of_four_dimensions),
        cmocka_unit_test(lengths_distances_and_products_of_fifty_positions),
        cmocka_unit_test(three_positions_on_is_one_rotation),
        cmocka_unit_test(the_map_is_the_one_of_the_lesson),
        cmocka_unit_test(a_concatenated_layout_has_the_same_waves),
        cmocka_unit_test(a_learned_table_is_no_wave),
        cmocka_unit_test(products_of_rope_depend_on_the_distance_alone),
        cmocka_unit_test(half_of_the_coordinates_may_stay_and_pairs_may_lie_apart),
        cmocka_unit_test(slopes_are_those_of_the_paper),
        cmocka_unit_test(buckets_are_those_of_the_formula),
        cmocka_unit_test(what_depends_on_tokens_has_maps_of_its_own),
        cmocka_unit_test(all_encoders_are_shown),
        cmocka_unit_test(only_an_encoder_or_a_mask_sees_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
