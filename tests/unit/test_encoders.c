/* Tests of the shipped encoders, as the .so files that users get: published and recorded values, definitions computed
 * here a second way, gradients against central differences (in double with h = 1e-4 to 1e-6), and what the host relies on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "abi/lab_plugin.h"
#include "host/option.h"

enum { DOUBLE = sizeof(lab_real) == sizeof(double), MOST = 4096 };
#define EXACT (DOUBLE ? 1e-14 : 2e-7)        /* of numbers near 1 */

/* ---- an encoder with its options set and its parameters at hand ---- */

struct rig {
    const struct lab_encoder *e;
    void *self;
    int ready;                       /* init went well */
    struct lab_err err;
    struct lab_dims dims;
    lab_real *p[2], *g[2];
    size_t size[2];
    int n_param;
    void *scratch;
};

static const struct lab_encoder *load(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, TEST_BUILD "/plugins/encoders/%s.so", name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s (build the plugins first: make lab)", dlerror());
    const struct lab_plugin *(*entry)(void) = (const struct lab_plugin *(*)(void))dlsym(handle, "lab_plugin_entry");
    return entry()->encoders[0];
}

static double noise(uint64_t seed, size_t i)                   /* in (-1, 1), any seed and index */
{
    struct lab_rng r = lab_rng_at(seed, 0, (uint32_t)i, 0);
    return 2 * lab_rng_unit(&r) - 1;
}
static lab_real *random_reals(uint64_t seed, size_t n)
{
    lab_real *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (lab_real)noise(seed, i);
    return x;
}

/* settings: "key=value key=value", or "". */
static struct rig rig_init(const char *name, const char *settings, struct lab_dims dims)
{
    struct rig r = { .e = load(name), .dims = dims };
    char text[256], *at = text, *pair;
    assert_string_equal(r.e->name, name);
    r.dims.size = sizeof dims;
    r.dims.d_head = dims.d_model / dims.n_head;
    r.self = calloc(1, r.e->self_size + 1);
    snprintf(text, sizeof text, "%s", settings);
    if (option_defaults(r.e->options, r.self, NULL, &r.err) != 0) fail_msg("%s", r.err.msg);
    while ((pair = strsep(&at, " ")) && *pair) {
        char *value = strchr(pair, '=');
        *value++ = '\0';
        const struct lab_option *row = option_find(r.e->options, pair);
        if (!row || option_set(row, r.self, value, &r.err) != 0) fail_msg("%s: %s", name, row ? r.err.msg : pair);
    }
    r.ready = !r.e->init || r.e->init(r.self, &r.dims, &r.err) == 0;
    struct lab_param param;
    for (; r.ready && r.e->param && r.e->param(r.self, &r.dims, r.n_param, &param) == 1; r.n_param++) {
        size_t n = 1;
        for (int i = 0; i < param.ndim; i++) n *= (size_t)param.dim[i];
        r.size[r.n_param] = n;
        r.p[r.n_param] = random_reals(99, n);
        r.g[r.n_param] = calloc(n, sizeof(lab_real));
    }
    return r;
}
static struct rig rig(const char *name, const char *settings, int d_model, int heads, int max_pos, int causal)
{
    struct rig r = rig_init(name, settings, (struct lab_dims){ .n_layer = 1, .n_head = heads, .d_model = d_model, .causal = causal,
                                                              .train_len = max_pos, .max_len = max_pos, .max_pos = max_pos });
    if (!r.ready) fail_msg("%s %s: %s", name, settings, r.err.msg);
    return r;
}
static void rig_free(struct rig *r)
{
    if (r->ready && r->e->fini) r->e->fini(r->self);
    for (int i = 0; i < r->n_param; i++) free(r->p[i]), free(r->g[i]);
    free(r->scratch);
    free(r->self);
}

/* A call of one hook; scratch comes full of NaN. */
static struct lab_call call(struct rig *r, int hook, int B, int Tq, int Tk, const int32_t *pos_q, const int32_t *pos_k, int per_row)
{
    struct lab_call c = { .size = sizeof c, .layer = hook == LAB_H_EMBED ? -1 : 0, .B = B, .H = r->dims.n_head, .Tq = Tq, .Tk = Tk,
                          .dh = r->dims.d_head, .d = r->dims.d_model, .causal = r->dims.causal, .train = 1, .pos_q = pos_q,
                          .pos_k = pos_k, .stride_q = per_row ? Tq : 0, .stride_k = per_row ? Tk : 0, .scale = 1,
                          .p = (const lab_real *const *)r->p, .g = r->g };
    size_t bytes = r->e->scratch_size ? r->e->scratch_size(r->self, &c, hook) : 0;
    free(r->scratch);
    r->scratch = malloc(bytes + 1);                            /* no more than was asked for: asan sees a step beyond */
    c.scratch = memset(r->scratch, 0xff, bytes + 1);
    return c;
}

static void assert_near(double found, double expected, double tolerance, const char *what)
{
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%s: %.9g, expected %.9g within %g", what, found, expected, tolerance);
}

/* x[T,d] = what embed adds at positions first, first+1, ... */
static void embedding(struct rig *r, int first, int T, lab_real *x)
{
    int32_t pos[512];
    for (int t = 0; t < T; t++) pos[t] = first + t;
    struct lab_call c = call(r, LAB_H_EMBED, 1, T, T, pos, pos, 0);
    memset(x, 0, (size_t)T * r->dims.d_model * sizeof *x);
    r->e->embed(r->self, &c, x);
}
static double dot(const lab_real *a, const lab_real *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* ---- none ---- */

static void none_does_nothing(void **unused)
{
    (void)unused;
    struct rig r = rig("none", "", 33, 3, 8, 0);
    assert_true(!r.e->embed && !r.e->qk && !r.e->bias && !r.e->logits && !r.e->value && !r.e->param);
    rig_free(&r);
}

/* ---- sinusoidal ---- */

static void sinusoidal_speeds_and_rows(void **unused)
{
    (void)unused;
    static const double row[4][4] = { { 0, 1, 0, 1 }, { 0.8415, 0.5403, 0.0100, 0.9999 }, { 0.9093, -0.4161, 0.0200, 0.9998 },
                                      { 0.1411, -0.9900, 0.0300, 0.9996 } };
    struct rig r = rig("sinusoidal", "", 4, 1, 8, 0);
    lab_real x[4][4];
    embedding(&r, 0, 4, x[0]);
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < 4; i++) assert_near(x[p][i], row[p][i], 0.51e-4, "PE");       /* 0.99995 is recorded as 0.9999 */
    double fast = atan2(x[1][0], x[1][1]), slow = atan2(x[1][2], x[1][3]);
    assert_near(fast, 1.000000, 0.5e-6, "speed of the first pair");
    assert_near(slow, 0.010000, 0.5e-6, "speed of the second pair");
    assert_near(2 * M_PI / fast, 6.28, 0.005, "its wavelength");
    assert_near(2 * M_PI / slow, 628.32, 0.005, "its wavelength");
    assert_null(r.e->param);
    rig_free(&r);
}

static void sinusoidal_geometry(void **unused)
{
    (void)unused;
    struct rig r = rig("sinusoidal", "", 32, 1, 64, 0);
    lab_real x[50][32];
    double least = 9, most = -9, nearest = 9;
    embedding(&r, 0, 50, x[0]);
    for (int p = 0; p < 50; p++) {
        assert_near(sqrt(dot(x[p], x[p], 32)), 4.0, 1e-6, "norm");
        for (int i = 0; i < 32; i++) least = fmin(least, x[p][i]), most = fmax(most, x[p][i]);
        for (int q = 0; q < p; q++)
            nearest = fmin(nearest, sqrt(dot(x[p], x[p], 32) + dot(x[q], x[q], 32) - 2 * dot(x[p], x[q], 32)));
    }
    assert_near(least, -0.99999, 0.5e-5, "minimum");
    assert_near(most, 1.0, 0, "maximum");
    assert_near(nearest, 1.1716, 0.5e-4, "smallest distance");
    static const struct { int k; double product; } fact[] = { { 0, 16.00 }, { 1, 15.31 }, { 2, 13.73 }, { 3, 12.27 }, { 5, 11.78 },
        { 8, 10.52 }, { 10, 10.06 }, { 15, 8.41 }, { 20, 10.47 } };
    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++)
        assert_near(dot(x[25], x[25 + fact[i].k], 32), fact[i].product, 0.005, "PE(25) . PE(25 + k)");
    rig_free(&r);
}

static void sinusoidal_shift_is_a_rotation(void **unused)
{
    (void)unused;
    enum { D = 8, K = 3 };
    struct rig r = rig("sinusoidal", "", D, 1, 64, 0);
    lab_real x[32][D];
    embedding(&r, 0, 32, x[0]);
    for (int p = 0; p < 20; p++)
        for (int k = 0; k < D / 2; k++) {
            double angle = K * pow(10000, -2.0 * k / D), s = x[p][2 * k], c = x[p][2 * k + 1];
            assert_near(s * cos(angle) + c * sin(angle), x[p + K][2 * k], 2e-7, "M PE(p), sine");
            assert_near(c * cos(angle) - s * sin(angle), x[p + K][2 * k + 1], 2e-7, "M PE(p), cosine");
        }
    static const double eight[4] = { 0.98936, -0.14550, 0.71736, 0.69671 };
    for (int i = 0; i < 4; i++) assert_near(x[5 + K][i], eight[i], 0.5e-5, "M PE(5)");
    rig_free(&r);
}

static void sinusoidal_heat_map(void **unused)
{
    (void)unused;
    static const struct { int p; const char *row; } fact[] = { { 0, "+@+@+@+@+@+@+@+@" }, { 1, "@#*@+@+@+@+@+@+@" },
        { 8, "@=# %%*@+@+@+@+@" }, { 23, " :@#%.%%*@+@+@+@" } };
    struct rig r = rig("sinusoidal", "", 16, 1, 64, 0);
    lab_real x[24][16];
    embedding(&r, 0, 24, x[0]);
    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++) {
        char row[17] = "";
        for (int d = 0; d < 16; d++) row[d] = " .:-=+*#%@"[(int)fmin(9, floor((x[fact[i].p][d] + 1) / 2 * 10))];
        assert_string_equal(row, fact[i].row);
    }
    rig_free(&r);
}

/* Concatenated holds the same numbers, sines first; another base is another speed; far positions stay exact. */
static void sinusoidal_options(void **unused)
{
    (void)unused;
    enum { D = 12, FAR = 999990 };
    struct rig a = rig("sinusoidal", "base=100", D, 1, 1000000, 0);
    struct rig b = rig("sinusoidal", "base=100 layout=concatenated", D, 1, 1000000, 0);
    lab_real x[10][D], y[10][D];
    embedding(&a, FAR, 10, x[0]);
    embedding(&b, FAR, 10, y[0]);
    for (int t = 0; t < 10; t++)
        for (int k = 0; k < D / 2; k++) {
            long double angle = (FAR + t) * powl(100, -2.0L * k / D);
            assert_near(x[t][2 * k], (double)sinl(angle), DOUBLE ? 1e-9 : 1e-7, "sine");
            assert_near(x[t][2 * k + 1], (double)cosl(angle), DOUBLE ? 1e-9 : 1e-7, "cosine");
            assert_true(x[t][2 * k] == y[t][k] && x[t][2 * k + 1] == y[t][D / 2 + k]);
        }
    rig_free(&a);
    rig_free(&b);
}

/* ---- learned ---- */

static void learned_table(void **unused)
{
    (void)unused;
    struct rig r = rig("learned", "max_len=512", 32, 4, 512, 0);
    struct lab_param p;
    assert_int_equal(r.n_param, 1);
    assert_int_equal(r.size[0], 16384);
    assert_int_equal(r.e->param(r.self, &r.dims, 0, &p), 1);
    assert_string_equal(p.name, "table");
    assert_int_equal(p.dim[0], 512);
    assert_int_equal(p.dim[1], 32);
    assert_int_equal(p.init, LAB_INIT_NORMAL);
    assert_true(p.a == 0 && p.flags == 0);
    assert_near(p.b, 0.1767767, 1e-7, "standard deviation of the start: 32^-0.5");
    rig_free(&r);
    r = rig("learned", "std=0.02", 32, 4, 64, 0);              /* a table of 64 rows has positions 0..63 */
    assert_int_equal(r.e->param(r.self, &r.dims, 0, &p), 1);
    assert_near(p.b, 0.02, 0, "standard deviation of the start");
    assert_int_equal(p.dim[0], 64);
    rig_free(&r);
}

/* The same token at positions 0 and 3 is told apart. */
static void embeddings_differ_by_position(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct rig r = rig(i ? "learned" : "sinusoidal", "", 8, 1, 8, 0);
        lab_real x[4][8];
        embedding(&r, 0, 4, x[0]);
        assert_memory_not_equal(x[0], x[3], sizeof x[0]);
        rig_free(&r);
    }
}

/* ---- t5 ---- */

/* Bias between one query at position q and keys 0..n-1, head 0, with a table that holds its bucket's number. */
static void buckets_of(struct rig *r, int q, int n, lab_real *bucket)
{
    int32_t *pos = malloc((size_t)n * sizeof *pos), query[1] = { q };
    for (int j = 0; j < n; j++) pos[j] = j;
    for (size_t i = 0; i < r->size[0]; i++) r->p[0][i] = (lab_real)(i / (size_t)r->dims.n_head);
    struct lab_call c = call(r, LAB_H_BIAS, 1, 1, n, query, pos, 0);
    lab_real *b = calloc((size_t)n * r->dims.n_head, sizeof *b);
    r->e->bias(r->self, &c, b);
    memcpy(bucket, b, (size_t)n * sizeof *b);
    free(b);
    free(pos);
}

/* First distance of each bucket for D = 128, as published implementations have them. */
static const int first32[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67,
                               77, 87, 99, 113 };
static const int first16[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91 };
static const int first8[] = { 0, 1, 2, 3, 4, 10, 23, 54 };
static const struct { int side; const int *first; } boundary[] = { { 32, first32 }, { 16, first16 }, { 8, first8 } };

static void t5_buckets(void **unused)
{
    (void)unused;
    enum { N = 601, Q = 300 };
    lab_real bucket[N];
    for (size_t k = 0; k < sizeof boundary / sizeof *boundary; k++)
        for (int causal = 0; causal < 2; causal++) {
            int side = boundary[k].side;
            char settings[32];
            snprintf(settings, sizeof settings, "buckets=%d", causal ? side : 2 * side);
            struct rig r = rig("t5", settings, 8, 2, N, causal);
            buckets_of(&r, Q, N, bucket);
            for (int j = 0; j < N; j++) {
                int n = abs(j - Q), expected = side - 1;
                while (boundary[k].first[expected] > n) expected--;
                if (j > Q) expected = causal ? 0 : expected + side;
                if (bucket[j] != expected)
                    fail_msg("%s, %s: key - query = %d is in bucket %g, expected %d", settings,
                             causal ? "causal" : "bidirectional", j - Q, (double)bucket[j], expected);
            }
            rig_free(&r);
        }
}

static void t5_parameter(void **unused)
{
    (void)unused;
    struct rig r = rig("t5", "", 64, 4, 12, 0);
    struct lab_param p;
    assert_int_equal(r.e->param(r.self, &r.dims, 0, &p), 1);
    assert_string_equal(p.name, "bias");
    assert_int_equal(p.dim[0], 32);
    assert_int_equal(p.dim[1], 4);
    assert_int_equal(p.flags, LAB_P_NO_DECAY);                 /* shared by all layers, trained */
    assert_near(p.b, 0.125, 1e-12, "standard deviation of the start: 64^-0.5");
    memset(r.p[0], 0, r.size[0] * sizeof(lab_real));
    int32_t pos[6] = { 0, 1, 2, 3, 4, 5 };
    struct lab_call c = call(&r, LAB_H_BIAS, 1, 6, 6, pos, pos, 0);
    lab_real *b = random_reals(1, 4 * 36), *before = random_reals(1, 4 * 36);
    r.e->bias(r.self, &c, b);
    assert_memory_equal(b, before, 4 * 36 * sizeof *b);        /* a table of zeros adds nothing */
    free(b), free(before);
    rig_free(&r);
}

/* Any rectangle of the logits is that part of the whole; heads read their own column. */
static void t5_tiles(void **unused)
{
    (void)unused;
    enum { T = 24, H = 3 };
    int32_t pos[T];
    for (int t = 0; t < T; t++) pos[t] = 1000 + 11 * ((7 * t) % T);            /* far from 0, with gaps, not sorted */
    for (int causal = 0; causal < 2; causal++) {
        struct rig r = rig("t5", "buckets=8 max_distance=40", 12, H, 2000, causal);
        lab_real whole[H][T][T], tile[H][5][7];
        memset(whole, 0, sizeof whole);
        memset(tile, 0, sizeof tile);
        struct lab_call c = call(&r, LAB_H_BIAS, 1, T, T, pos, pos, 0);
        r.e->bias(r.self, &c, whole[0][0]);
        c = call(&r, LAB_H_BIAS, 1, 5, 7, pos + 9, pos + 14, 0);
        r.e->bias(r.self, &c, tile[0][0]);
        for (int h = 0; h < H; h++) {
            assert_true(whole[h][0][0] == r.p[0][h]);          /* distance 0: row 0 of the table */
            for (int i = 0; i < 5; i++) assert_memory_equal(tile[h][i], &whole[h][9 + i][14], sizeof tile[h][i]);
        }
        rig_free(&r);
    }
}

/* ---- rope ---- */

static const struct { const char *settings; int rotated, half; double base; } variant[] = {
    { "", 12, 0, 1e4 }, { "pairs=half", 12, 1, 1e4 }, { "fraction=0.5", 6, 0, 1e4 }, { "pairs=half fraction=0.5", 6, 1, 1e4 },
    { "fraction=0.25 base=50", 2, 0, 50 }, { "pairs=half fraction=0.99", 10, 1, 1e4 } };
enum { N_VARIANT = sizeof variant / sizeof *variant };

/* The definition, in long double, one coordinate at a time. */
static long double turned(const lab_real *x, int i, int v, long p)
{
    int rotated = variant[v].rotated, half = variant[v].half;
    if (i >= rotated) return x[i];
    int k = half ? i % (rotated / 2) : i / 2, first = half ? i < rotated / 2 : i % 2 == 0;
    int partner = half ? (first ? i + rotated / 2 : i - rotated / 2) : i ^ 1;
    long double angle = (long double)p * powl(variant[v].base, -2.0L * k / rotated);
    return first ? x[i] * cosl(angle) - x[partner] * sinl(angle) : x[i] * cosl(angle) + x[partner] * sinl(angle);
}

struct places { const char *what; int32_t q[2][5], k[2][7]; int per_row; };
static const struct places places[] = {
    { "from 0", { { 0, 1, 2, 3, 4 } }, { { 0, 1, 2, 3, 4, 5, 6 } }, 0 },
    { "from 1000", { { 1000, 1001, 1002, 1003, 1004 } }, { { 1000, 1001, 1002, 1003, 1004, 1005, 1006 } }, 0 },
    { "gaps, not sorted", { { 70, 3, 512, 9, 0 } }, { { 5, 300, 2, 2, 81, 640, 12 } }, 0 },
    { "a row each", { { 0, 4, 9, 11, 30 }, { 8, 2, 600, 3, 1 } }, { { 1, 2, 3, 4, 5, 6, 7 }, { 900, 30, 31, 2, 0, 77, 5 } }, 1 } };
enum { N_PLACES = sizeof places / sizeof *places };

enum { B = 2, H = 3, TQ = 5, TK = 7, DH = 12 };        /* of rope's and all gradients' trials: Tq is not Tk */

/* One head, [T,dh]. */
static void assert_turned(const lab_real *out, const lab_real *x, int v, const int32_t *pos, int T, const char *what)
{
    for (int t = 0; t < T; t++, x += DH, out += DH)
        for (int i = 0; i < DH; i++) {
            assert_near(out[i], (double)turned(x, i, v, pos[t]), DOUBLE ? 1e-12 : 3e-7, what);
            if (i >= variant[v].rotated) assert_true(out[i] == x[i]);              /* untouched */
        }
}

static void rope_is_its_definition(void **unused)
{
    (void)unused;
    for (int v = 0; v < N_VARIANT; v++)
        for (int s = 0; s < N_PLACES; s++) {
            struct rig r = rig("rope", variant[v].settings, H * DH, H, 1024, 0);
            lab_real *q = random_reals(1, B * H * TQ * DH), *k = random_reals(2, B * H * TK * DH);
            lab_real q_out[B * H * TQ * DH], k_out[B * H * TK * DH];
            memset(q_out, 0xff, sizeof q_out);
            memset(k_out, 0xff, sizeof k_out);
            struct lab_call c = call(&r, LAB_H_QK, B, TQ, TK, places[s].q[0], places[s].k[0], places[s].per_row);
            r.e->qk(r.self, &c, q, k, q_out, k_out);
            for (int b = 0; b < B; b++)
                for (int h = 0; h < H; h++) {
                    int plane = b * H + h, row = places[s].per_row ? b : 0;
                    assert_turned(q_out + plane * TQ * DH, q + plane * TQ * DH, v, places[s].q[row], TQ, places[s].what);
                    assert_turned(k_out + plane * TK * DH, k + plane * TK * DH, v, places[s].k[row], TK, places[s].what);
                }
            free(q), free(k);
            rig_free(&r);
        }
}

/* Self-attention hands over one array for queries and keys: a shortcut must not be taken where the rows or lengths differ. */
static void rope_with_one_set_of_positions(void **unused)
{
    (void)unused;
    static const int32_t pos[B * TQ] = { 9, 3, 4, 100, 7, 1, 0, 8, 55, 2 };
    static const struct { int Tk, stride_q, stride_k; } shape[] = {
        { TQ, 0, 0 }, { TQ, TQ, TQ }, { TQ, 0, TQ }, { TQ, TQ, 0 }, { 3, 0, 0 } };
    lab_real *q = random_reals(1, B * H * TQ * DH), *k = random_reals(2, B * H * TQ * DH);
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        int Tk = shape[s].Tk;
        lab_real q_out[B * H * TQ * DH], k_out[B * H * TQ * DH];
        struct rig r = rig("rope", "", H * DH, H, 1024, 0);
        struct lab_call c = call(&r, LAB_H_QK, B, TQ, Tk, pos, pos, 0);
        c.stride_q = shape[s].stride_q;
        c.stride_k = shape[s].stride_k;
        r.e->qk(r.self, &c, q, k, q_out, k_out);
        for (int plane = 0; plane < B * H; plane++) {
            assert_turned(q_out + plane * TQ * DH, q + plane * TQ * DH, 0, pos + plane / H * c.stride_q, TQ, "queries");
            assert_turned(k_out + plane * Tk * DH, k + plane * Tk * DH, 0, pos + plane / H * c.stride_k, Tk, "keys");
        }
        rig_free(&r);
    }
    free(q), free(k);
}

/* q . k after rotation at positions m and n. */
static double product_at(int m, int n, const char *settings)
{
    struct rig r = rig("rope", settings, DH, 1, 1024, 0);
    lab_real *q = random_reals(3, DH), *k = random_reals(4, DH), q_out[DH], k_out[DH];
    int32_t pos_q[1] = { m }, pos_k[1] = { n };
    struct lab_call c = call(&r, LAB_H_QK, 1, 1, 1, pos_q, pos_k, 0);
    r.e->qk(r.self, &c, q, k, q_out, k_out);
    double product = dot(q_out, k_out, DH);
    if (m == 0) assert_memory_equal(q_out, q, sizeof q_out);   /* position 0 turns by nothing */
    assert_near(dot(q_out, q_out, DH), dot(q, q, DH), DOUBLE ? 1e-13 : 1e-5, "squared norm");
    free(q), free(k);
    rig_free(&r);
    return product;
}
static void rope_depends_on_the_distance(void **unused)
{
    (void)unused;
    static const int same[][2][2] = { { { 0, 0 }, { 5, 5 } }, { { 0, 0 }, { 100, 100 } }, { { 0, 3 }, { 5, 8 } },
                                      { { 0, 3 }, { 100, 103 } }, { { 0, 10 }, { 50, 60 } } };
    for (int v = 0; v < N_VARIANT; v++) {
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
            double a = product_at(same[i][0][0], same[i][0][1], variant[v].settings);
            double b = product_at(same[i][1][0], same[i][1][1], variant[v].settings);
            assert_near(b, a, (DOUBLE ? 1e-12 : 1e-5) * fabs(a), "q . k at equal distance");
        }
        double left = product_at(3, 0, variant[v].settings), right = product_at(0, 3, variant[v].settings);
        assert_true(fabs(left - right) > 1e-3);
    }
}

/* ---- backward ---- */

/* Central difference of f in *x.  All hooks here are linear in what is varied, so a large step in float costs nothing. */
struct slope { double (*f)(void *); void *arg; };
static double slope(struct slope s, lab_real *x)
{
    lab_real before = *x, h = (lab_real)(DOUBLE ? 1e-4 : 0.25);
    *x = before + h;
    double up = s.f(s.arg);
    *x = before - h;
    double down = s.f(s.arg);
    *x = before;
    return (up - down) / (2 * (double)h);
}
static void assert_gradient(double found, double numeric, const char *what)
{
    double scale = fmax(1, fmax(fabs(found), fabs(numeric)));
    assert_near(found, numeric, (DOUBLE ? 1e-6 : 1e-4) * scale, what);
}

enum { D = H * DH };
struct trial {                       /* loss = weights . output of a hook */
    struct rig r;
    const struct places *at;
    int hook;
    lab_real *q, *k, *weight;        /* weight: of q_out then k_out, of x, or of b */
};
static size_t outputs(int hook)
{
    return hook == LAB_H_EMBED ? B * TQ * D : hook == LAB_H_BIAS ? H * TQ * TK : B * H * (TQ + TK) * DH;
}
static struct lab_call trial_call(struct trial *t)
{
    int bias = t->hook == LAB_H_BIAS;
    return call(&t->r, t->hook, bias ? 1 : B, TQ, TK, t->at->q[0], t->at->k[0], !bias && t->at->per_row);
}
static double loss(void *arg)
{
    struct trial *t = arg;
    struct lab_call c = trial_call(t);
    lab_real out[MOST] = { 0 };
    c.g = NULL;
    if (t->hook == LAB_H_EMBED) t->r.e->embed(t->r.self, &c, out);
    if (t->hook == LAB_H_BIAS) t->r.e->bias(t->r.self, &c, out);
    if (t->hook == LAB_H_QK) t->r.e->qk(t->r.self, &c, t->q, t->k, out, out + B * H * TQ * DH);
    return dot(out, t->weight, (int)outputs(t->hook));
}
static void backward(struct trial *t, lab_real *dq, lab_real *dk)
{
    struct lab_call c = trial_call(t);
    if (t->hook == LAB_H_EMBED) t->r.e->embed_bwd(t->r.self, &c, t->weight);
    if (t->hook == LAB_H_BIAS) t->r.e->bias_bwd(t->r.self, &c, t->weight);
    if (t->hook == LAB_H_QK) t->r.e->qk_bwd(t->r.self, &c, t->q, t->k, t->weight, t->weight + B * H * TQ * DH, dq, dk);
}

/* Twice backward onto gradients that start at 1 gives 1 + 2 slope: right, and added to what is there. */
static void check(struct trial *t)
{
    lab_real dq[B * H * TQ * DH], dk[B * H * TK * DH];
    size_t nq = t->hook == LAB_H_QK ? sizeof dq / sizeof *dq : 0, nk = t->hook == LAB_H_QK ? sizeof dk / sizeof *dk : 0;
    for (size_t i = 0; i < nq; i++) dq[i] = 1;
    for (size_t i = 0; i < nk; i++) dk[i] = 1;
    for (int p = 0; p < t->r.n_param; p++)
        for (size_t i = 0; i < t->r.size[p]; i++) t->r.g[p][i] = 1;
    backward(t, dq, dk);
    backward(t, dq, dk);
    struct slope s = { loss, t };
    for (size_t i = 0; i < nq; i += 5) assert_gradient(dq[i], 1 + 2 * slope(s, &t->q[i]), t->at->what);
    for (size_t i = 0; i < nk; i += 5) assert_gradient(dk[i], 1 + 2 * slope(s, &t->k[i]), t->at->what);
    for (int p = 0; p < t->r.n_param; p++)
        for (size_t i = 0; i < t->r.size[p]; i += t->r.size[p] > 1000 ? 7 : 1)
            assert_gradient(t->r.g[p][i], 1 + 2 * slope(s, &t->r.p[p][i]), t->at->what);
}

static void gradients(void **unused)
{
    (void)unused;
    static const struct { const char *name, *settings; int hook; } kind[] = {
        { "learned", "max_len=1024", LAB_H_EMBED }, { "sinusoidal", "", LAB_H_EMBED },
        { "t5", "", LAB_H_BIAS }, { "t5", "buckets=8 max_distance=10", LAB_H_BIAS },
        { "rope", "", LAB_H_QK }, { "rope", "pairs=half", LAB_H_QK }, { "rope", "fraction=0.5", LAB_H_QK },
        { "rope", "pairs=half fraction=0.5", LAB_H_QK } };
    for (size_t n = 0; n < sizeof kind / sizeof *kind; n++)
        for (int causal = 0; causal < 2; causal++)
            for (int s = 0; s < N_PLACES; s++) {
                struct trial t = { rig(kind[n].name, kind[n].settings, D, H, 1024, causal), &places[s], kind[n].hook,
                                   random_reals(5, B * H * TQ * DH), random_reals(6, B * H * TK * DH),
                                   random_reals(7, outputs(kind[n].hook)) };
                check(&t);
                free(t.q), free(t.k), free(t.weight);
                rig_free(&t.r);
            }
}

/* <R x, y> = <x, R' y>, exactly but for rounding. */
static void rope_backward_is_the_adjoint(void **unused)
{
    (void)unused;
    for (int v = 0; v < N_VARIANT; v++)
        for (int s = 0; s < N_PLACES; s++) {
            struct trial t = { rig("rope", variant[v].settings, D, H, 1024, 0), &places[s], LAB_H_QK,
                               random_reals(8, B * H * TQ * DH), random_reals(9, B * H * TK * DH),
                               random_reals(10, outputs(LAB_H_QK)) };
            lab_real dq[B * H * TQ * DH] = { 0 }, dk[B * H * TK * DH] = { 0 };
            backward(&t, dq, dk);
            double product = dot(dq, t.q, B * H * TQ * DH) + dot(dk, t.k, B * H * TK * DH);
            assert_near(product, loss(&t), DOUBLE ? 1e-12 : 1e-4, "adjoint");
            free(t.q), free(t.k), free(t.weight);
            rig_free(&t.r);
        }
}

/* embed and bias add to what is there, in each row and at any position. */
static void outputs_are_added(void **unused)
{
    (void)unused;
    static const struct { const char *name, *settings; int hook; } kind[] = {
        { "learned", "max_len=1024", LAB_H_EMBED }, { "sinusoidal", "", LAB_H_EMBED }, { "t5", "", LAB_H_BIAS } };
    for (size_t n = 0; n < sizeof kind / sizeof *kind; n++)
        for (int s = 0; s < N_PLACES; s++) {
            struct trial t = { .r = rig(kind[n].name, kind[n].settings, D, H, 1024, 0), .at = &places[s], .hook = kind[n].hook };
            lab_real once[MOST] = { 0 }, onto[MOST];
            for (int i = 0; i < MOST; i++) onto[i] = 3;
            for (int twice = 0; twice < 2; twice++) {
                struct lab_call c = trial_call(&t);
                (t.hook == LAB_H_EMBED ? t.r.e->embed : t.r.e->bias)(t.r.self, &c, twice ? onto : once);
            }
            for (size_t i = 0; i < MOST; i++) {
                assert_near(onto[i], 3 + (double)once[i], 4 * EXACT, kind[n].name);
                if (i >= outputs(t.hook)) assert_true(once[i] == 0);
            }
            for (int b = 0; t.hook == LAB_H_EMBED && b < B; b++)                  /* each row has its own positions */
                for (int q = 0; q < TQ; q++) {
                    lab_real alone[D];
                    embedding(&t.r, places[s].q[places[s].per_row ? b : 0][q], 1, alone);
                    assert_memory_equal(alone, once + (b * TQ + q) * D, sizeof alone);
                }
            rig_free(&t.r);
        }
}

/* ---- what the host relies on ---- */

static void descriptions(void **unused)
{
    (void)unused;
    static const struct { const char *name; uint32_t flags; const char *paper; } kind[] = {
        { "none", LAB_E_SHIFT_INVARIANT, "2203.16634" }, { "sinusoidal", 0, "1706.03762" }, { "learned", 0, "1705.03122" },
        { "t5", LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT, "1910.10683" }, { "rope", LAB_E_SHIFT_INVARIANT, "2104.09864" } };
    struct lab_err err;
    for (size_t n = 0; n < sizeof kind / sizeof *kind; n++) {
        const struct lab_encoder *e = load(kind[n].name);
        assert_int_equal(e->flags, kind[n].flags);
        assert_non_null(strstr(e->cite, kind[n].paper));
        assert_non_null(e->summary);
        assert_true(!e->embed == !e->embed_bwd && !e->qk == !e->qk_bwd && !e->bias == !e->bias_bwd);
        assert_int_equal(option_check_table(e->options, e->self_size, &err), 0);
    }
}

/* Flags that promise invariance keep it: the same logits when all positions move. */
static void shifts_change_nothing(void **unused)
{
    (void)unused;
    enum { T = 6, H = 2, SHIFT = 900 };
    int32_t pos[T] = { 3, 0, 7, 8, 30, 2 }, moved[T];
    for (int t = 0; t < T; t++) moved[t] = pos[t] + SHIFT;
    struct rig r = rig("t5", "", 8, H, 1024, 0);
    lab_real a[H * T * T] = { 0 }, b[H * T * T] = { 0 };
    struct lab_call c = call(&r, LAB_H_BIAS, 1, T, T, pos, pos, 0);
    r.e->bias(r.self, &c, a);
    c = call(&r, LAB_H_BIAS, 1, T, T, moved, moved, 0);
    r.e->bias(r.self, &c, b);
    assert_memory_equal(a, b, sizeof a);
    rig_free(&r);
}

static void refusals(void **unused)
{
    (void)unused;
    static const struct { const char *name, *settings; int d_model, heads, max_pos, causal; const char *says[3]; } bad[] = {
        { "sinusoidal", "", 33, 3, 8, 0, { "model.d_model", "33" } },
        { "learned", "max_len=10", 32, 4, 12, 0, { "encoder.learned.max_len", "10 rows", "12" } },
        { "learned", "", 32, 4, 65, 0, { "encoder.learned.max_len", "64", "65" } },
        { "rope", "", 12, 4, 8, 0, { "model.d_model / model.heads", "12 / 4 = 3" } },
        { "rope", "fraction=0.1", 64, 4, 8, 0, { "encoder.rope.fraction", "0.1", "0.125" } },
        { "rope", "fraction=0", 64, 4, 8, 0, { "encoder.rope.fraction", "16" } },
        { "t5", "buckets=31", 64, 4, 8, 0, { "encoder.t5.buckets", "31", "32" } },
        { "t5", "buckets=2", 64, 4, 8, 0, { "encoder.t5.buckets", "2", "at least 4" } },
        { "t5", "max_distance=8", 64, 4, 8, 0, { "encoder.t5.max_distance = 8", "above 8", "encoder.t5.buckets = 32" } },
        { "t5", "max_distance=16", 64, 4, 8, 1, { "encoder.t5.max_distance = 16", "above 16" } },
        { "xpos", "", 64, 4, 65392, 1, { "65392 positions", "encoder.xpos.decay to at least 513", "512" } } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rig r = rig_init(bad[i].name, bad[i].settings, (struct lab_dims){ .n_layer = 1, .n_head = bad[i].heads,
                                .d_model = bad[i].d_model, .train_len = 8, .max_len = bad[i].max_pos, .max_pos = bad[i].max_pos,
                                .causal = bad[i].causal });
        if (r.ready) fail_msg("%s %s was not refused", bad[i].name, bad[i].settings);
        for (int s = 0; s < 3 && bad[i].says[s]; s++)
            if (!strstr(r.err.msg, bad[i].says[s])) fail_msg("'%s' does not say '%s'", r.err.msg, bad[i].says[s]);
        assert_null(strchr(r.err.msg, '\n'));
        rig_free(&r);
    }
    static const struct { const char *name, *settings; int d_model, heads, max_pos, causal; } good[] = {     /* just inside */
        { "sinusoidal", "", 34, 2, 8, 0 }, { "learned", "max_len=12", 32, 4, 12, 0 }, { "rope", "", 16, 4, 8, 0 },
        { "rope", "fraction=0.125", 64, 4, 8, 0 }, { "t5", "buckets=4 max_distance=2", 64, 4, 8, 0 },
        { "t5", "max_distance=9", 64, 4, 8, 0 },
        { "t5", "buckets=31", 64, 4, 8, 1 }, { "t5", "buckets=2 max_distance=2", 64, 4, 8, 1 },
        { "xpos", "", 64, 4, 65391, 1 } };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rig r = rig(good[i].name, good[i].settings, good[i].d_model, good[i].heads, good[i].max_pos, good[i].causal);
        rig_free(&r);
    }
}

/* ntk_dynamic slows down by the positions that a sequence spans: places of padding, which are at 0, are none. */
static void rope_passes_over_padding(void **unused)
{
    (void)unused;
    enum { N = 3, PADDED = 5, D = 8 };
    static const int32_t pos[PADDED] = { 1000, 1001, 1002, 0, 0 };
    static const uint8_t key_ok[PADDED] = { 1, 1, 1, 0, 0 };
    lab_real *x = random_reals(1, PADDED * D), out[2][2][PADDED * D];
    for (int padded = 0; padded < 2; padded++) {
        struct rig r = rig("rope", "scaling=ntk_dynamic factor=2 original=16", D, 1, 1024, 0);
        int T = padded ? PADDED : N;
        struct lab_call c = { .size = sizeof c, .B = 1, .H = 1, .Tq = T, .Tk = T, .dh = D, .d = D, .pos_q = pos, .pos_k = pos, .key_ok = padded ? key_ok : NULL };
        c.stride_q = c.stride_k = padded ? PADDED : 0;
        c.scratch = malloc(r.e->scratch_size(r.self, &c, LAB_H_QK));
        r.e->qk(r.self, &c, x, x, out[padded][0], out[padded][1]);
        free(c.scratch);
        rig_free(&r);
    }
    assert_memory_equal(out[0][0], out[1][0], N * D * sizeof **out[0]);
    assert_memory_equal(out[0][1], out[1][1], N * D * sizeof **out[0]);
    free(x);
}

/* As far apart as xpos accepts: a query and a key meet as the closed form says, and nothing overflows on the way. */
static void xpos_far_out(void **unused)
{
    (void)unused;
    enum { N = 3, D = 8, FAR = 65390 };
    const int32_t pos[N] = { 0, FAR / 2, FAR };
    struct rig r = rig("xpos", "", D, 1, FAR + 1, 1);
    lab_real *q = random_reals(1, N * D), *k = random_reals(2, N * D), q_out[N * D], k_out[N * D];
    struct lab_call c = { .size = sizeof c, .B = 1, .H = 1, .Tq = N, .Tk = N, .dh = D, .d = D, .pos_q = pos, .pos_k = pos };
    c.scratch = malloc(r.e->scratch_size(r.self, &c, LAB_H_QK));
    r.e->qk(r.self, &c, q, k, q_out, k_out);
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {                   /* causal: keys to the right would grow without bound */
            double got = 0, want = 0, size = 0;
            for (int e = 0; e < D; e++) got += (double)q_out[i * D + e] * (double)k_out[j * D + e];
            for (int p = 0; p < D / 2; p++) {
                double a = (pos[i] - pos[j]) * pow(10000, -2.0 * p / D), z = pow((2.0 * p / D + 0.4) / 1.4, (pos[i] - pos[j]) / 512.0);
                const lab_real *x = q + i * D + 2 * p, *y = k + j * D + 2 * p;
                double along = (double)x[0] * (double)y[0] + (double)x[1] * (double)y[1];
                double across = (double)x[1] * (double)y[0] - (double)x[0] * (double)y[1];
                want += z * (along * cos(a) - across * sin(a));
                size += z * (fabs(along) + fabs(across));
            }
            assert_near(got, want, 1e-6 + 1e-4 * size, "q . k");
        }
    free(c.scratch), free(q), free(k);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(none_does_nothing),
        cmocka_unit_test(sinusoidal_speeds_and_rows), cmocka_unit_test(sinusoidal_geometry),
        cmocka_unit_test(sinusoidal_shift_is_a_rotation), cmocka_unit_test(sinusoidal_heat_map),
        cmocka_unit_test(sinusoidal_options),
        cmocka_unit_test(learned_table), cmocka_unit_test(embeddings_differ_by_position),
        cmocka_unit_test(t5_buckets), cmocka_unit_test(t5_parameter), cmocka_unit_test(t5_tiles),
        cmocka_unit_test(rope_is_its_definition), cmocka_unit_test(rope_with_one_set_of_positions),
        cmocka_unit_test(rope_depends_on_the_distance), cmocka_unit_test(rope_backward_is_the_adjoint),
        cmocka_unit_test(gradients), cmocka_unit_test(outputs_are_added),
        cmocka_unit_test(descriptions), cmocka_unit_test(shifts_change_nothing), cmocka_unit_test(rope_passes_over_padding), cmocka_unit_test(xpos_far_out),
        cmocka_unit_test(refusals) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
