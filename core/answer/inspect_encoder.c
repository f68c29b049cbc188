/* inspect_encoder -- what an encoder's hooks do to vectors, queries, keys and logits, at the positions 0 .. T-1.
 *
 * Everything is found from outside: a hook is called on the bench (rig.h) with the model's parameters, and its answer is
 * measured.  Waves are pairs of coordinates that turn at an even speed, buckets are distances of equal bias, a slope is a bias
 * that falls evenly.  What an encoder does not have is not shown.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "answer/inspect.h"
#include "answer/rig.h"
#include "base/mem.h"
#include "base/rng.h"

enum { SHOWN_HEADS = 8,              /* columns of numbers in 80 columns */
       FARTHEST = 127,               /* T5's last bucket of 32 begins at distance 113 */
       SEED = 1 };                   /* of queries and keys made up here */

struct view {
    struct inspect *in;
    const struct run_config *config;
    const struct model *model;
    const struct lab_encoder *encoder;
    struct rig_instance instance;
    int T, H, heads;                 /* heads: that tables show */
    int reach;                       /* positions are below it */
    int causal;
    struct lab_err *err;
};

/* ---- the bench ---- */

/* The parameters of the first layer, in place of the bench's own. */
static void take_params(const struct view *v, struct rig *r)
{
    for (int i = v->model->n_param - 1; i >= 0; i--) {       /* backwards: layer 0 stands first */
        const struct model_param *p = &v->model->param[i];
        if (p->encoder_index < 0) continue;
        memcpy(rig_reals(r->param[p->encoder_index]), p->value, p->size * sizeof(lab_real));
    }
}

static void make(const struct view *v, struct rig *r, int hook, struct rig_shape shape)
{
    shape.dh = v->instance.dims.d_head, shape.causal = v->causal;
    rig_make(r, &v->instance, hook, &shape, 0, SEED);
    r->call.layer = hook == LAB_H_EMBED ? -1 : 0;
    r->call.train = 0;
    take_params(v, r);
}

/* All tokens of all heads, at positions first, first + 1, ... */
static struct rig_shape square(const struct view *v) { return (struct rig_shape){ .B = 1, .H = v->H, .Tq = v->T, .Tk = v->T }; }
static void move_to(struct rig *r, int first)
{
    int32_t *pos = (int32_t *)(void *)r->pos_k->at;
    for (int t = 0; t < r->shape.Tk; t++) pos[t] = first + t;
}

static double *numbers(const struct view *v, size_t n) { return mem_alloc(n * sizeof(double), v->err); }

/* ---- waves: two coordinates that turn together ---- */

struct wave { int a, b; double speed, shrink; };             /* radians a position; its length at the last position over the first */

/* Do (x, y) of n positions turn at one speed?  x = r cos, y = r sin of an angle that grows by it. */
static int turns_evenly(const double *x, const double *y, int n, long step, struct wave *w)
{
    double angle = atan2(y[0], x[0]), first = angle, worst = 0;
    if (n < 4 || hypot(x[0], y[0]) < 1e-6 || hypot(x[(n - 1) * step], y[(n - 1) * step]) < 1e-6) return 0;
    for (int t = 1; t < n; t++) angle += remainder(atan2(y[t * step], x[t * step]) - angle, 2 * M_PI);
    w->speed = (angle - first) / (n - 1);
    w->shrink = hypot(x[(n - 1) * step], y[(n - 1) * step]) / hypot(x[0], y[0]);
    for (int t = 1; t < n; t++) worst = fmax(worst, fabs(remainder(atan2(y[t * step], x[t * step]) - first - t * w->speed, 2 * M_PI)));
    return worst < 1e-4;
}

static void show_waves(const struct view *v, const char *title, const struct wave *wave, int n)
{
    static const char *const column[] = { "pair", "coordinates", "radians a position", "wavelength", "length at the end" };
    struct inspect_part *p = inspect_add(v->in, "waves", title);
    int shrinks = 0;
    for (int k = 0; k < n; k++) shrinks |= fabs(wave[k].shrink - 1) > 1e-4;
    inspect_columns(p, 4 + shrinks, column);
    for (int k = 0; k < n; k++) {
        inspect_number(v->in, p, "%.0f", k);
        inspect_word(p, "%d and %d", wave[k].a, wave[k].b);
        inspect_number(v->in, p, "%.6f", wave[k].speed);
        inspect_number(v->in, p, "%.2f", fabs(wave[k].speed) > 1e-12 ? 2 * M_PI / fabs(wave[k].speed) : NAN);
        if (shrinks) inspect_number(v->in, p, "%.4f", wave[k].shrink);
    }
}

/* ---- embed: a vector for each position ---- */

struct vectors { double *x; int d; struct wave *wave; int n_wave; };         /* x [T,d] */

/* Sine and cosine beside each other, or all sines before all cosines: whichever makes more pairs turn. */
static void find_waves(struct vectors *e, int T)
{
    int half = e->d / 2;
    for (int apart = 0; apart < 2 && e->n_wave < half; apart++) {
        int n = 0;
        for (int k = 0; k < half; k++) {
            int a = apart ? k : 2 * k, b = apart ? half + k : 2 * k + 1;
            struct wave w = { a, b, 0, 0 };
            if (turns_evenly(e->x + b, e->x + a, T, e->d, &w)) e->wave[n++] = w;
        }
        e->n_wave = n;
    }
}

static double dot(const double *a, const double *b, int d)
{
    double sum = 0;
    for (int i = 0; i < d; i++) sum += a[i] * b[i];
    return sum;
}
static double apart(const double *a, const double *b, int d) { return sqrt(fmax(0, dot(a, a, d) + dot(b, b, d) - 2 * dot(a, b, d))); }

static void extremes(const double *x, size_t n, double *lo, double *hi)
{
    *lo = INFINITY, *hi = -INFINITY;
    for (size_t i = 0; i < n; i++) if (isfinite(x[i])) *lo = fmin(*lo, x[i]), *hi = fmax(*hi, x[i]);
    if (!(*lo <= *hi)) *lo = 0, *hi = 1;
}

static void show_table(const struct view *v, const struct vectors *e)
{
    double lo, hi;
    extremes(e->x, (size_t)v->T * e->d, &lo, &hi);
    double most = fmax(-lo, hi), end = most > 1 || most < 0.5 ? most : 1;
    struct inspect_part *p = inspect_map(v->in, "table", "what is added to the embedding; down: position, across: dimension", v->T,
                                         e->d, -end, end, e->x);
    chart_set(&p->chart, &p->chart.x_name, "dimension"), chart_set(&p->chart, &p->chart.y_name, "position");
    inspect_note(v->in, p, "shades from %.3g (blank) to %.3g (@)", -end, end);
}

static void quantity(const struct view *v, struct inspect_part *p, const char *name, const char *format, double value, const char *where)
{
    inspect_word(p, "%s", name);
    inspect_number(v->in, p, format, value);
    table_add(&p->table, where);
}

static void show_norms(const struct view *v, const struct vectors *e)
{
    static const char *const column[] = { "quantity", "value", "where" };
    struct inspect_part *p = inspect_add(v->in, "norms", "lengths and distances of these vectors");
    double lo, hi, short_one = INFINITY, long_one = 0, near = INFINITY, change = 0;
    int at[2] = { 0, 0 };
    char where[64];
    extremes(e->x, (size_t)v->T * e->d, &lo, &hi);
    for (int i = 0; i < v->T; i++) {
        double norm = sqrt(dot(e->x + (size_t)i * e->d, e->x + (size_t)i * e->d, e->d));
        short_one = fmin(short_one, norm), long_one = fmax(long_one, norm);
        for (int j = 0; j < i; j++) {
            double distance = apart(e->x + (size_t)i * e->d, e->x + (size_t)j * e->d, e->d);
            if (distance < near) near = distance, at[0] = j, at[1] = i;
        }
    }
    for (int i = 0; i < e->d && v->T > 3; i++) change = fmax(change, fabs(e->x[3 * e->d + i] - e->x[i]));
    snprintf(where, sizeof where, "positions %d and %d", at[0], at[1]);
    inspect_columns(p, 3, column);
    quantity(v, p, "smallest number", "%.5f", lo, ""), quantity(v, p, "largest number", "%.5f", hi, "");
    quantity(v, p, "shortest vector", "%.4f", short_one, ""), quantity(v, p, "longest vector", "%.4f", long_one, "");
    if (v->T > 1) quantity(v, p, "smallest distance", "%.4f", near, where);
    if (v->T > 3) quantity(v, p, "a token at 0 and at 3 differs by", "%.4f", change, "largest coordinate");
}

/* A line of values by distance, and the few of them that a table shows. */
static const int few[] = { 0, 1, 2, 3, 5, 8, 10, 15, 20, 30, 50, 100 };
enum { N_FEW = sizeof few / sizeof *few };

static void show_by_distance(const struct view *v, const char *title, const char *what, const double *value, int n)
{
    const char *const column[] = { "distance", what };
    struct inspect_part *p = inspect_add(v->in, "products", title);
    struct chart_series *line;
    inspect_columns(p, 2, column);
    for (int i = 0; i < N_FEW && few[i] < n; i++) inspect_number(v->in, p, "%.0f", few[i]), inspect_number(v->in, p, "%.2f", value[few[i]]);
    p->drawn = 1;
    chart_init(&p->chart, CHART_LINES);
    chart_set(&p->chart, &p->chart.title, title);
    chart_set(&p->chart, &p->chart.x_name, "distance"), chart_set(&p->chart, &p->chart.y_name, what);
    line = chart_series(&p->chart, what, 0, CHART_MEAN);
    for (int k = 0; k < n; k++) chart_point(&p->chart, line, k, value[k]);
}

static void show_products(const struct view *v, const struct vectors *e)
{
    char title[96];
    int middle = v->T / 2, n = v->T - middle;
    double *product = numbers(v, (size_t)n);
    if (!product) { v->in->failed = 1; return; }
    for (int k = 0; k < n; k++) product[k] = dot(e->x + (size_t)middle * e->d, e->x + (size_t)(middle + k) * e->d, e->d);
    snprintf(title, sizeof title, "dot product of the vector of position %d and one farther right", middle);
    show_by_distance(v, title, "dot product", product, n);
    free(product);
}

/* The vector of position p turned as k positions turn it. */
static void turned(const struct vectors *e, int p, int k, double *out)
{
    const double *x = e->x + (size_t)p * e->d;
    for (int i = 0; i < e->n_wave; i++) {
        const struct wave *w = &e->wave[i];
        double c = cos(k * w->speed), s = sin(k * w->speed);
        out[w->a] = c * x[w->a] + s * x[w->b];
        out[w->b] = -s * x[w->a] + c * x[w->b];
    }
}

/* Is going k positions on one rotation, the same from everywhere? */
static void show_rotation(const struct view *v, const struct vectors *e)
{
    enum { K = 3, WIDE = 6 };
    int last = v->T - 1 - K, example = last < 5 ? last : 5, wide = e->d < WIDE ? e->d : WIDE;
    const char *column[1 + WIDE] = { "vector" };
    char number[WIDE][8];
    double worst = 0, *out = numbers(v, (size_t)e->d);
    if (last < 0 || !out) { v->in->failed |= !out; free(out); return; }
    for (int p = 0; p <= last; p++) {
        turned(e, p, K, out);
        for (int i = 0; i < e->d; i++) worst = fmax(worst, fabs(out[i] - e->x[(size_t)(p + K) * e->d + i]));
    }
    struct inspect_part *p = inspect_add(v->in, "rotation", "3 positions on is one rotation M, the same from everywhere");
    for (int i = 0; i < wide; i++) snprintf(number[i], sizeof number[i], "%d", i), column[1 + i] = number[i];
    inspect_columns(p, 1 + wide, column);
    turned(e, example, K, out);
    for (int row = 0; row < 2; row++) {
        if (row) inspect_word(p, "position %d", example + K);
        else inspect_word(p, "M (position %d)", example);
        for (int i = 0; i < wide; i++) inspect_number(v->in, p, "%.5f", row ? e->x[(size_t)(example + K) * e->d + i] : out[i]);
    }
    inspect_note(v->in, p, "largest difference from M (position p) to position p + 3, p = 0..%d: %.3g", last, worst);
    free(out);
}

static void take_vectors(const struct view *v, int first, struct vectors *e)
{
    struct rig r;
    make(v, &r, LAB_H_EMBED, square(v));
    move_to(&r, first);
    rig_forward(&r);
    const lab_real *x = rig_reals(r.out[0]);
    for (size_t i = 0; i < (size_t)v->T * e->d; i++) e->x[i] = (double)x[i];
    rig_free(&r);
}

static int show_embed(const struct view *v)
{
    struct vectors e = { .d = v->instance.dims.d_model };
    e.x = numbers(v, (size_t)v->T * e.d), e.wave = mem_alloc((size_t)e.d * sizeof *e.wave, v->err);
    int rc = e.x && e.wave ? 0 : -1;
    if (rc == 0) {
        take_vectors(v, 0, &e);
        find_waves(&e, v->T);
        show_table(v, &e);
        if (e.n_wave) show_waves(v, "waves: pairs of dimensions that turn evenly; wavelengths in positions", e.wave, e.n_wave);
        show_norms(v, &e);
        show_products(v, &e);
        if (e.n_wave && 2 * e.n_wave == e.d) show_rotation(v, &e);
    }
    free(e.x), free(e.wave);
    return rc;
}

/* ---- qk: queries and keys turned by their positions ---- */

/* What becomes of each unit vector as a query: out [dh,T,dh]. */
static void take_response(const struct view *v, double *out)
{
    int dh = v->instance.dims.d_head, T = v->T;
    struct rig r;
    make(v, &r, LAB_H_QK, (struct rig_shape){ .B = dh, .H = 1, .Tq = T, .Tk = T });
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < dh * T * dh; i++) rig_reals(r.in[side])[i] = i % dh == i / dh / T;
    rig_forward(&r);
    for (int i = 0; i < dh * T * dh; i++) out[i] = (double)rig_reals(r.out[0])[i];
    rig_free(&r);
}

static int partner(const double *response, int a, int T, int dh)             /* the coordinate that a unit vector is turned into */
{
    double best = 1e-9;
    int found = -1;
    for (int c = 0; c < dh; c++) {
        double most = 0;
        for (int t = 0; t < T; t++) most = fmax(most, fabs(response[((size_t)a * T + t) * dh + c]));
        if (c != a && most > best) best = most, found = c;
    }
    return found;
}

static int find_turns(const double *response, int T, int dh, struct wave *wave)
{
    int n = 0;
    for (int a = 0; a < dh; a++) {
        const double *own = response + (size_t)a * T * dh;
        struct wave w = { a, partner(response, a, T, dh), 0, 0 };
        if (w.b > a && turns_evenly(own + a, own + w.b, T, dh, &w)) wave[n++] = w;
    }
    return n;
}

/* One of each pair set to 1, at every position: the hands of the clocks. */
static void show_turned(const struct view *v, const double *response, const struct wave *wave, int n)
{
    int dh = v->instance.dims.d_head, T = v->T;
    double lo, hi, *map = numbers(v, (size_t)T * dh);
    if (!map) { v->in->failed = 1; return; }
    for (int t = 0; t < T; t++)
        for (int c = 0; c < dh; c++)
            for (int k = 0; k < (n ? n : dh); k++) map[t * dh + c] += response[((size_t)(n ? wave[k].a : k) * T + t) * dh + c];
    extremes(map, (size_t)T * dh, &lo, &hi);
    double end = fmax(1, fmax(-lo, hi));
    struct inspect_part *p = inspect_map(v->in, "turned", n ? "a query with 1 in the first coordinate of each pair, as positions turn it"
                                         : "a query of ones, as positions change it", T, dh, -end, end, map);
    chart_set(&p->chart, &p->chart.x_name, "coordinate"), chart_set(&p->chart, &p->chart.y_name, "position");
    inspect_note(v->in, p, "down: position, across: coordinate; shades from %.3g (blank) to %.3g (@)", -end, end);
    free(map);
}

/* q . k of head 0 for a query at m[i] and a key at n[i]: the same two vectors each time, made up or equal. */
static void pair_products(const struct view *v, const int32_t *m, const int32_t *n, int count, int equal, double *out)
{
    int dh = v->instance.dims.d_head;
    struct lab_rng rng = lab_rng_at(SEED, 0x9a1, 0, 0);
    struct rig r;
    make(v, &r, LAB_H_QK, (struct rig_shape){ .B = 1, .H = 1, .Tq = count, .Tk = count });
    r.call.pos_q = m, r.call.pos_k = n;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < count * dh; i++)
            rig_reals(r.in[side])[i] = i >= dh ? rig_reals(r.in[side])[i - dh] : equal ? (lab_real)(1 / sqrt(dh)) : (lab_real)rng_normal(&rng);
    rig_forward(&r);
    for (int t = 0; t < count; t++) {
        lab_real sum = 0;
        for (int i = 0; i < dh; i++) sum += rig_reals(r.out[0])[t * dh + i] * rig_reals(r.out[1])[t * dh + i];
        out[t] = (double)sum;
    }
    rig_free(&r);
}

/* The same distance elsewhere. */
static void show_relative(const struct view *v)
{
    static const char *const column[] = { "query at", "key at", "distance", "q . k", "relative difference" };
    static const int32_t near[] = { 0, 5, 100, 0, 5, 100, 0, 50 }, far[] = { 0, 5, 100, 3, 8, 103, 10, 60 };
    enum { N = sizeof near / sizeof *near };
    int32_t m[N], n[N];
    double product[N], first = 0;
    int count = 0;
    for (int i = 0; i < N; i++) {
        if (far[i] >= v->reach) continue;
        m[count] = v->causal ? far[i] : near[i], n[count++] = v->causal ? near[i] : far[i];      /* a causal query looks back */
    }
    pair_products(v, m, n, count, 0, product);
    struct inspect_part *p = inspect_add(v->in, "relative", "one query and one key, at equal distances in different places");
    inspect_columns(p, 5, column);
    for (int i = 0; i < count; i++) {
        int same = i > 0 && n[i] - m[i] == n[i - 1] - m[i - 1];
        if (!same) first = product[i];
        inspect_number(v->in, p, "%.0f", m[i]), inspect_number(v->in, p, "%.0f", n[i]);
        inspect_number(v->in, p, "%.0f", n[i] - m[i]), inspect_number(v->in, p, "%.6f", product[i]);
        inspect_number(v->in, p, "%.1e", same ? fabs(product[i] - first) / fabs(first) : NAN);
    }
}

static void show_fading(const struct view *v)
{
    int32_t *m = mem_alloc((size_t)v->T * sizeof *m, v->err), *n = mem_alloc((size_t)v->T * sizeof *n, v->err);
    double *product = numbers(v, (size_t)v->T);
    if (m && n && product) {
        for (int t = 0; t < v->T; t++) m[t] = t;             /* the key stays at 0, the query goes away from it */
        pair_products(v, m, n, v->T, 1, product);
        show_by_distance(v, "a query and an equal key of length 1, by distance", "q . k", product, v->T);
    } else v->in->failed = 1;
    free(m), free(n), free(product);
}

static int show_qk(const struct view *v)
{
    int dh = v->instance.dims.d_head;
    double *response = numbers(v, (size_t)dh * v->T * dh);
    struct wave *wave = mem_alloc((size_t)dh * sizeof *wave, v->err);
    int rc = response && wave ? 0 : -1;
    if (rc == 0) {
        take_response(v, response);
        int n = find_turns(response, v->T, dh, wave);
        show_turned(v, response, wave, n);
        if (n) show_waves(v, "turns: pairs of a head's coordinates; wavelengths in positions", wave, n);
        show_relative(v);
        show_fading(v);
    }
    free(response), free(wave);
    return rc;
}

/* ---- bias: numbers for each head and pair of positions ---- */

/* What a closed side gets so that softmax forgets it: no part of any scale. */
static double open_or_nan(double b) { return fabs(b) > 1e8 ? NAN : b; }

/* [H,T,T] of out, one map a head, on one scale. */
static void show_maps(const struct view *v, const char *name, const char *what, const char *about, const double *map)
{
    double lo, hi;
    struct inspect_part *p = NULL;
    extremes(map, (size_t)v->heads * v->T * v->T, &lo, &hi);
    for (int h = 0; h < v->heads; h++) {
        char part[32], title[64];
        snprintf(part, sizeof part, "%s.%d", name, h), snprintf(title, sizeof title, "%s%shead %d", h ? "" : what, h ? "" : ": ", h);
        p = inspect_map(v->in, part, title, v->T, v->T, lo, hi, map + (size_t)h * v->T * v->T);
        p->beside = h > 0;
        chart_set(&p->chart, &p->chart.x_name, "key"), chart_set(&p->chart, &p->chart.y_name, "query");
    }
    inspect_note(v->in, p, "down: query, across: key; shades from %.4g (blank) to %.4g (@)%s%s", lo, hi, about,
                 v->heads < v->H ? "; the other heads are not shown" : "");
}

static void show_bias_maps(const struct view *v)
{
    double *map = numbers(v, (size_t)v->H * v->T * v->T);
    struct rig r;
    if (!map) { v->in->failed = 1; return; }
    make(v, &r, LAB_H_BIAS, square(v));
    rig_forward(&r);
    for (int i = 0; i < v->H * v->T * v->T; i++) {
        int query = i / v->T % v->T, key = i % v->T;
        map[i] = v->causal && key > query ? NAN : open_or_nan((double)rig_reals(r.out[0])[i]);
    }
    rig_free(&r);
    show_maps(v, "bias", "bias", "", map);
    free(map);
}

/* What distances 0..n-1 get, of keys on the left (side 0) and on the right: bias [2,H,n].  made_up: with parameters that
 * differ from each other, so that equal numbers are no accident of the start. */
static void take_distances(const struct view *v, int n, int made_up, double *bias)
{
    for (int side = 0; side < 2; side++) {
        struct rig r;
        struct rig_shape shape = { .B = 1, .H = v->H, .dh = v->instance.dims.d_head, .Tq = 1, .Tk = n, .causal = v->causal };
        if (made_up) rig_make(&r, &v->instance, LAB_H_BIAS, &shape, 0, SEED), r.call.layer = 0;
        else make(v, &r, LAB_H_BIAS, shape);
        int32_t query = side ? 0 : n - 1;
        r.call.pos_q = &query;
        rig_forward(&r);
        for (int h = 0; h < v->H; h++)
            for (int k = 0; k < n; k++) bias[((size_t)side * v->H + h) * n + k] = (double)rig_reals(r.out[0])[h * n + (side ? k : n - 1 - k)];
        rig_free(&r);
    }
}

/* NaN: not even. */
static double slope_of(const double *bias, int n)
{
    double slope = n > 2 ? (bias[1] - bias[n - 1]) / (n - 2) : NAN;
    for (int k = 1; k < n; k++) if (!(fabs(bias[1] - slope * (k - 1) - bias[k]) <= 1e-4 * fmax(1, fabs(bias[k])))) return NAN;
    return n > 2 && isnan(open_or_nan(bias[1])) ? NAN : slope;
}

static void show_slopes(const struct view *v, const double *bias, int n)
{
    static const char *const column[] = { "head", "keys to the left", "keys to the right" };
    int some = 0;
    for (int i = 0; i < 2 * v->H; i++) some |= fabs(slope_of(bias + (size_t)i * n, n)) > 0;
    if (!some) return;
    struct inspect_part *p = inspect_add(v->in, "slopes", "slopes: what each position farther away costs");
    inspect_columns(p, v->causal ? 2 : 3, column);
    for (int h = 0; h < v->H; h++) {
        inspect_number(v->in, p, "%.0f", h);
        for (int side = 0; side < (v->causal ? 1 : 2); side++) inspect_number(v->in, p, "%.6g", slope_of(bias + ((size_t)side * v->H + h) * n, n));
    }
}

static int same_bias(const double *bias, int H, int n, int side, int a, int b)
{
    for (int h = 0; h < H; h++) if (bias[((size_t)side * H + h) * n + a] != bias[((size_t)side * H + h) * n + b]) return 0;
    return 1;
}

/* The end of the bucket that begins at distance a: the first distance that is not in it. */
static int bucket_end(const double *bias, int H, int n, int side, int a)
{
    int b = a + 1;
    while (b < n && same_bias(bias, H, n, side, a, b)) b++;
    return b;
}

static int has_buckets(const double *bias, int H, int n)
{
    int n_bucket = 0;
    for (int a = 0; a < n; a = bucket_end(bias, H, n, 0, a)) n_bucket++;
    return n_bucket > 1 && n_bucket < n;
}

/* The bucket of this side that begins at *from, if `here` is that distance; *from goes on to the next. */
static void add_bucket(const struct view *v, struct inspect_part *p, const double *bias, int n, int side, int here, int *from)
{
    if (*from != here || here >= n) { table_add(&p->table, NULL); return; }
    int end = bucket_end(bias, v->H, n, side, here);
    if (end == n) inspect_word(p, "%d and more", here);
    else if (end == here + 1) inspect_word(p, "%d", here);
    else inspect_word(p, "%d to %d", here, end - 1);
    *from = end;
}

/* Distances that share a number.  seen: do the positions looked at reach it? */
static void show_buckets(const struct view *v, const double *bias, int n)
{
    static const char *const both[] = { "bucket", "keys to the left", "keys to the right", "seen" };
    static const char *const one[] = { "bucket", "keys to the left", "seen" };
    int left = 0, right = v->causal ? n : 1;
    if (!has_buckets(bias, v->H, n)) return;
    struct inspect_part *p = inspect_add(v->in, "buckets", "buckets: distances that share one number a head");
    inspect_columns(p, v->causal ? 3 : 4, v->causal ? one : both);
    for (int i = 0; left < n || right < n; i++) {
        int here = left < right ? left : right;
        inspect_number(v->in, p, "%.0f", i);
        add_bucket(v, p, bias, n, 0, here, &left);
        if (!v->causal) add_bucket(v, p, bias, n, 1, here, &right);
        table_add(&p->table, here < v->T ? "yes" : "no");
    }
    inspect_note(v->in, p, "looked at distances up to %d; seen: %d positions reach that far", n - 1, v->T);
}

static void show_distances(const struct view *v, const double *bias, int n)
{
    const char *column[1 + SHOWN_HEADS] = { "key - query" };
    char name[SHOWN_HEADS][16];
    for (int h = 0; h < v->heads; h++) snprintf(name[h], sizeof name[h], "head %d", h), column[1 + h] = name[h];
    struct inspect_part *p = inspect_add(v->in, "distances", "bias by distance");
    inspect_columns(p, 1 + v->heads, column);
    for (int i = 1 - N_FEW; i < (v->causal ? 1 : N_FEW); i++) {
        int k = few[abs(i)];
        if (k >= n) continue;
        inspect_number(v->in, p, "%.0f", i < 0 ? -k : k);
        for (int h = 0; h < v->heads; h++) inspect_number(v->in, p, "%.4g", open_or_nan(bias[((size_t)(i > 0) * v->H + h) * n + k]));
    }
}

static int show_bias(const struct view *v)
{
    int n = v->reach < FARTHEST + 1 ? v->reach : FARTHEST + 1;
    double *bias = numbers(v, (size_t)2 * v->H * n);
    if (!bias) return -1;
    show_bias_maps(v);
    take_distances(v, n, 0, bias);
    show_distances(v, bias, n);
    show_slopes(v, bias, n);
    take_distances(v, n, 1, bias);
    show_buckets(v, bias, n);
    free(bias);
    return 0;
}

/* ---- logits and value: what depends on the tokens, too ---- */

/* All tokens alike: what differs comes from positions. */
static int show_logits(const struct view *v)
{
    int T = v->T, dh = v->instance.dims.d_head;
    struct rig r;
    double *map = numbers(v, (size_t)v->H * T * T);
    if (!map) return -1;
    make(v, &r, LAB_H_LOGITS, square(v));
    for (int side = 0; side < 2; side++)
        for (int i = v->H * T * dh - 1; i >= 0; i--) rig_reals(r.in[side])[i] = rig_reals(r.in[side])[i / (T * dh) * T * dh + i % dh];
    for (int i = 0; i < v->H * T * T; i++) {
        lab_real s = 0;
        const lab_real *q = rig_reals(r.in[0]) + (size_t)(i / T) * dh, *k = rig_reals(r.in[1]) + ((size_t)(i / (T * T)) * T + i % T) * dh;
        for (int c = 0; c < dh; c++) s += q[c] * k[c];
        rig_reals(r.in[2])[i] = s * r.call.scale;
    }
    rig_forward(&r);
    for (int i = 0; i < v->H * T * T; i++) map[i] = v->causal && i % T > i / T % T ? NAN : (double)rig_reals(r.out[0])[i];
    rig_free(&r);
    show_maps(v, "logits", "added logits", "; all tokens are alike", map);
    free(map);
    return 0;
}

static int show_value(const struct view *v)
{
    static const char *const column[] = { "distance to the left", "length of what is added" };
    int T = v->T, dh = v->instance.dims.d_head;
    struct rig r;
    make(v, &r, LAB_H_VALUE, (struct rig_shape){ .B = T, .H = v->H, .Tq = 1, .Tk = T });
    for (int i = 0; i < T * v->H * T; i++) rig_reals(r.in[0])[i] = i % T == i / T / v->H;        /* sequence b looks at key b alone */
    rig_forward(&r);
    struct inspect_part *p = inspect_add(v->in, "values", "added to the output when one key has all the attention, head 0");
    inspect_columns(p, 2, column);
    for (int i = 0; i < N_FEW && few[i] < T; i++) {
        double sum = 0;
        for (int c = 0; c < dh; c++) sum += pow((double)rig_reals(r.out[0])[(size_t)(T - 1 - few[i]) * v->H * dh + c], 2);
        inspect_number(v->in, p, "%.0f", few[i]), inspect_number(v->in, p, "%.4f", sqrt(sum));
    }
    rig_free(&r);
    return 0;
}

/* ---- does only the distance matter? ---- */

/* Scores between all positions from `first` on: [n] of the hook.  embed: dot products of its vectors. */
static double *take_scores(const struct view *v, int hook, int first, size_t *n)
{
    int T = v->T, dh = v->instance.dims.d_head, d = v->instance.dims.d_model;
    size_t H = hook == LAB_H_EMBED ? 1 : (size_t)v->H;
    double *out = numbers(v, *n = H * T * T);
    struct rig r;
    if (!out) return NULL;
    make(v, &r, hook, square(v));
    move_to(&r, first);
    rig_forward(&r);
    const lab_real *x = rig_reals(r.out[0]), *y = hook == LAB_H_QK ? rig_reals(r.out[1]) : x;
    int wide = hook == LAB_H_EMBED ? d : dh;
    for (size_t i = 0; i < *n; i++) {
        size_t h = i / T / T, a = i / T % T, b = i % T;
        if (hook == LAB_H_BIAS || hook == LAB_H_LOGITS) { out[i] = (double)x[i]; continue; }
        for (int c = 0; c < wide; c++) out[i] += (double)x[(h * T + a) * wide + c] * (double)y[(h * T + b) * wide + c];
    }
    rig_free(&r);
    return out;
}

static double moved(const struct view *v, int hook, const double *from, size_t n, int shift)
{
    double *to = take_scores(v, hook, shift, &n), worst = 0, most = 1e-30;
    for (size_t i = 0; to && i < n; i++)
        if (fabs(from[i]) < 1e8) worst = fmax(worst, fabs(to[i] - from[i])), most = fmax(most, fabs(from[i]));
    free(to);
    return worst / most;
}

static int show_shifts(const struct view *v)
{
    static const char *const what[RIG_HOOKS] = { [LAB_H_EMBED] = "products of the vectors", [LAB_H_QK] = "q . k", [LAB_H_BIAS] = "bias",
                                                 [LAB_H_LOGITS] = "added logits" };
    static const char *const column[] = { "scores", "5 positions on", "100 positions on" };
    struct inspect_part *p = NULL;
    int near = 0;
    if (v->T + 5 > v->reach) return 0;
    for (int hook = LAB_H_EMBED; hook < LAB_H_VALUE; hook++) {
        size_t n;
        double *from = rig_has(v->encoder, hook) ? take_scores(v, hook, 0, &n) : NULL;
        if (!rig_has(v->encoder, hook)) continue;
        if (!from) return -1;
        if (!p) {
            p = inspect_add(v->in, "shift", "all positions shifted: by how much scores change, as a part of the largest");
            inspect_columns(p, 3, column);
        }
        inspect_word(p, "%s", what[hook]);
        for (int i = 0, shift = 5; i < 2; i++, shift = 100) {
            int there = shift + v->T <= v->reach;
            inspect_number(v->in, p, "%.1e", there ? moved(v, hook, from, n, shift) : NAN);
            near |= !there;
        }
        free(from);
    }
    if (near) inspect_note(v->in, p, "an empty cell: its options do not let it go so far");
    return 0;
}

/* ---- the whole ---- */

/* What is looked at; of a run, that is the run, and the encoder only a part of it. */
static void show_subject(const struct view *v)
{
    const struct model_options *m = &v->config->model;
    struct str hooks = { 0 }, text = { 0 };
    size_t trained = 0;
    for (int hook = 0; hook < RIG_HOOKS; hook++)
        if (rig_has(v->encoder, hook)) str_printf(&hooks, "%s%s", hooks.len ? ", " : "", rig_hook_name[hook]);
    for (int i = 0; i < v->model->n_param; i++) {
        const struct model_param *p = &v->model->param[i];
        if (p->encoder_index >= 0 && !(v->instance.param[p->encoder_index].flags & LAB_P_FROZEN)) trained += p->size;
    }
    str_printf(&text, "%s: %s. Positions 0 to %d, d_model %d, %d head%s of %d, %s; hooks: %s; trained parameters: %zu.", v->encoder->name,
               v->encoder->summary ? v->encoder->summary : "", v->T - 1, (int)m->d_model, (int)m->heads, m->heads == 1 ? "" : "s",
               (int)(m->d_model / m->heads), m->causal ? "causal" : "bidirectional", hooks.len ? hooks.text : "none", trained);
    if (v->in->subject) inspect_add(v->in, "encoder", str_text(&text));
    else inspect_subject(v->in, "%s", str_text(&text));
    v->in->failed |= hooks.failed | text.failed;
    str_free(&hooks), str_free(&text);
}

int inspect_encoder(struct inspect *in, const struct run_config *config, const struct model *model, int length, struct lab_err *err)
{
    static int (*const show[RIG_HOOKS])(const struct view *) = {
        [LAB_H_EMBED] = show_embed, [LAB_H_QK] = show_qk, [LAB_H_BIAS] = show_bias, [LAB_H_LOGITS] = show_logits, [LAB_H_VALUE] = show_value };
    const struct lab_encoder *e = config->encoder;
    struct view v = { .in = in, .config = config, .model = model, .encoder = e, .T = length, .H = config->model.heads, .reach = config->dims.max_pos,
                      .causal = config->model.causal, .err = err };
    v.heads = v.H < SHOWN_HEADS ? v.H : SHOWN_HEADS;
    v.instance = (struct rig_instance){ .encoder = e, .self = config->encoder_self, .dims = config->dims };
    while (e->param && v.instance.n_param < RIG_PARAMS && e->param(config->encoder_self, &config->dims, v.instance.n_param, &v.instance.param[v.instance.n_param]))
        v.instance.n_param++;
    show_subject(&v);
    for (int hook = 0; hook < RIG_HOOKS; hook++) if (rig_has(e, hook) && show[hook](&v) != 0) return -1;
    if (show_shifts(&v) != 0) return -1;
    return in->failed ? lab_fail(err, "out of memory while looking into %s", e->name) : 0;
}
