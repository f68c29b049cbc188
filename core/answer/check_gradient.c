/* check_gradient -- backward functions against differences of forward ones, number by number, in double.
 *
 * The loss is the sum of w . out with random w, so that no term hides behind another.  A number that disagrees is tried
 * again with smaller steps: a kink within the step (ReLU, a clamp, CoPE's floor) goes away then, a mistake does not.
 * In float a difference carries three digits, so the float program finds missing terms and wrong signs, and says how to
 * ask for more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "answer/check_test.h"
#include "base/mem.h"
#include "base/rng.h"

#define COUNT(table) (int)(sizeof table / sizeof *table)
enum { IN_DOUBLE = sizeof(lab_real) == sizeof(double),
       SAMPLED = 160 };              /* numbers of a large tensor; a random direction covers the others */
/* A frequency at position 1000 turns a step into a thousand: hence the small ones. */
static const double step[] = { IN_DOUBLE ? 1e-4 : 0x1p-6, IN_DOUBLE ? 1e-5 : 0x1p-8, IN_DOUBLE ? 1e-6 : 0x1p-11, IN_DOUBLE ? 1e-7 : 0x1p-15 };
static const double allowed = IN_DOUBLE ? 1e-6 : 3e-2;       /* of the largest gradient of the tensor, at least 1 */

static const struct rig_shape shapes[] = {
    { 2, 2, 4, 5, 5, 0, 0, RIG_ROWS }, { 2, 2, 4, 6, 6, 1, 0, RIG_GAPS }, { 2, 2, 4, 6, 6, 0, 1, RIG_FROM_ZERO }, { 1, 2, 4, 6, 6, 1, 1, RIG_ROWS },
    { 1, 2, 4, 3, 5, 0, 0, RIG_FROM_FAR }, { 1, 3, 6, 4, 4, 1, 0, RIG_UNSORTED } };

typedef void rig_test(struct check_case *, struct rig *);

static int each_rig(struct check_case *c, int only_hook, rig_test *test)
{
    int n = 0;
    for (int variant = 0; variant < rig_variants(c->encoder->options); variant++)
        for (int i = 0; i < COUNT(shapes); i++) {
            const struct rig_shape *s = &shapes[i];
            struct rig_instance instance;
            struct lab_err ignored;
            struct lab_dims d = { .n_layer = 2, .n_head = s->H, .d_head = s->dh, .train_len = s->Tk, .causal = s->causal };
            if (!s->causal && (c->encoder->flags & LAB_E_CAUSAL_ONLY)) continue;
            if (rig_open(&instance, c->encoder, variant, d, &ignored) != 0) continue;
            for (int hook = 0; hook < RIG_HOOKS; hook++) {
                struct rig rig;
                char text[192];
                if (!rig_has(c->encoder, hook) || (only_hook >= 0 && hook != only_hook)) continue;
                rig_make(&rig, &instance, hook, s, 0, c->seed);
                rig_describe(&rig, text);
                check_doing(c, "%s", text);
                test(c, &rig);
                rig_free(&rig);
                n++;
            }
            rig_close(&instance);
        }
    check_doing(c, "%s", "");
    return n;
}

static double dot(const lab_real *a, const lab_real *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static double loss(struct rig *r)
{
    double sum = 0;
    rig_forward(r);
    for (int i = 0; i < r->n_out; i++) sum += dot(rig_reals(r->out[i]), rig_reals(r->dout[i]), rig_count(r->out[i]));
    return sum;
}

/* Along x += t direction; direction NULL: the number at `at` alone.  What was stored counts, not what was asked for. */
static double difference(struct rig *r, lab_real *x, const lab_real *direction, size_t n, size_t at, double h)
{
    lab_real *before = x + at, kept = x[at];
    if (!direction) {
        *before = kept + (lab_real)h;
        double up = loss(r), above = (double)*before;
        *before = kept - (lab_real)h;
        double down = loss(r), below = (double)*before;
        *before = kept;
        return (up - down) / (above - below);
    }
    struct lab_err ignored;
    lab_real *copy = mem_alloc(n * sizeof *copy, &ignored);
    memcpy(copy, x, n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = copy[i] + (lab_real)h * direction[i];
    double up = loss(r);
    for (size_t i = 0; i < n; i++) x[i] = copy[i] - (lab_real)h * direction[i];
    double down = loss(r);
    memcpy(x, copy, n * sizeof *x);
    free(copy);
    return (up - down) / (2 * h);
}

struct gradient { const char *name; lab_real *x, *analytic; size_t n; };

static double largest(const lab_real *x, size_t n)
{
    double most = 1;
    for (size_t i = 0; i < n; i++) if (fabs((double)x[i]) > most) most = fabs((double)x[i]);
    return most;
}

static const char *likely(double numeric, double analytic, double scale)
{
    if (fabs(numeric + analytic) <= 10 * allowed * scale) return "a wrong sign in the backward function";
    if (analytic == 0) return "a term that the backward function leaves out";
    double ratio = numeric / analytic;
    if (fabs(ratio - round(ratio)) < 1e-3 && fabs(ratio) < 100) return "a factor that the backward function forgets, or a term that is missing";
    return "a term that is missing or wrong in the backward function; it inverts the forward one line by line";
}

static double check_number(struct check_case *c, struct rig *r, const struct gradient *g, const lab_real *direction, size_t at)
{
    double analytic = direction ? dot(direction, g->analytic, g->n) : (double)g->analytic[at], numeric = 0, least = INFINITY;
    double scale = direction ? fmax(1, fabs(analytic)) + largest(g->analytic, g->n) : largest(g->analytic, g->n);
    for (int i = 0; i < COUNT(step); i++) {
        double found = difference(r, g->x, direction, g->n, at, step[i] * (direction ? 0.1 : 1));
        double error = fabs(found - analytic) / fmax(scale, fabs(found));
        if (error < least) least = error, numeric = found;
        if (least <= allowed) return least;
    }
    char place[80], note[160];
    snprintf(place, sizeof place, direction ? "%.60s in a random direction" : "%.60s[%zu]", g->name, at);
    snprintf(note, sizeof note, "an error of at most %g of the largest gradient, at least 1", allowed);
    check_fail(c, note, likely(numeric, analytic, scale), "d loss / d %s is %.9g, differences say %.9g", place, analytic, numeric);
}

static double worst;
static void check_tensor(struct check_case *c, struct rig *r, const char *name, const struct rig_array *x, const struct rig_array *dx)
{
    struct lab_err ignored;
    struct lab_rng rng = lab_rng_at(c->seed, 0x96ad, 0, 0);
    struct gradient g = { name, rig_reals(x), NULL, rig_count(x) };
    lab_real *direction = mem_alloc(g.n * sizeof *direction, &ignored);
    if (g.n == 0) { free(direction); return; }
    g.analytic = mem_alloc(g.n * sizeof *g.analytic, &ignored);
    memcpy(g.analytic, rig_reals(dx), g.n * sizeof *g.analytic);
    int some = g.n > SAMPLED;
    for (size_t i = 0; i < g.n; i++) direction[i] = (lab_real)rng_normal(&rng);
    for (size_t i = 0; i < (some ? SAMPLED : g.n); i++) {
        size_t at = some ? lab_rng_below(&rng, (uint32_t)g.n) : i;
        if (r->hook == LAB_H_VALUE) {                        /* nothing is asked about masked weights */
            const struct rig_shape *s = &r->shape;
            int j = (int)(at % (size_t)s->Tk), q = (int)(at / (size_t)s->Tk % (size_t)s->Tq), b = (int)(at / ((size_t)s->Tk * s->Tq * s->H));
            if (x == r->in[0] && !rig_visible(r, b, q, j)) continue;
        }
        double error = check_number(c, r, &g, NULL, at);
        if (error > worst) worst = error;
    }
    if (some) {
        double error = check_number(c, r, &g, direction, 0);
        if (error > worst) worst = error;
    }
    free(direction), free(g.analytic);
}

static void check_hook(struct check_case *c, struct rig *r)
{
    const struct rig_instance *n = r->instance;
    rig_forward(r);
    rig_backward(r);
    for (int i = 0; i < r->n_in; i++) check_tensor(c, r, r->in[i]->name, r->in[i], r->din[i]);
    rig_forward(r);
    rig_backward(r);
    for (int i = 0; i < n->n_param; i++) if (r->grad[i]) check_tensor(c, r, n->param[i].name, r->param[i], r->grad[i]);
}

static void test_gradient(struct check_case *c)
{
    if (!rig_has(c->encoder, c->test->hook)) check_skip(c, "no %s hook", rig_hook_name[c->test->hook]);
    if (!each_rig(c, c->test->hook, check_hook)) check_skip(c, "init refuses the small models of this test");
    check_note(c, "error at most %.1g", worst);
}

/* ---- linear hooks: <J dx, w> = <dx, J' w> to all digits, in float too ---- */

static lab_real *outputs(struct rig *r, size_t *n)
{
    struct lab_err ignored;
    *n = 0;
    for (int i = 0; i < r->n_out; i++) *n += rig_count(r->out[i]);
    lab_real *all = mem_alloc(*n * sizeof *all, &ignored), *at = all;
    for (int i = 0; i < r->n_out; i++) memcpy(at, r->out[i]->at, r->out[i]->bytes), at += rig_count(r->out[i]);
    return all;
}

static void scale_inputs(struct rig *r, lab_real by)
{
    for (int i = 0; i < r->n_in; i++)
        for (size_t k = 0; k < rig_count(r->in[i]); k++) rig_reals(r->in[i])[k] *= by;
}

/* f(0) = 0, f(2x) = 2 f(x) and f(-x) = -f(x), to a rounding error. */
static int is_linear(struct rig *r)
{
    size_t n, at;
    int linear = 1;
    rig_forward(r);
    lab_real *once = outputs(r, &n);
    for (int i = 0; i < 2; i++) {
        lab_real by = i ? -1 : 2;
        scale_inputs(r, by);
        rig_forward(r);
        lab_real *scaled = outputs(r, &n);
        for (size_t k = 0; k < n; k++) scaled[k] /= by;
        if (fabs(rig_difference(once, scaled, n, &at)) > (IN_DOUBLE ? 1e-12 : 1e-5)) linear = 0;
        scale_inputs(r, 1 / by);
        free(scaled);
    }
    free(once);
    return linear;
}

static int n_linear;
static void check_adjoint(struct check_case *c, struct rig *r)
{
    double left, right = 0, size = 0;
    if (!r->n_in || !is_linear(r)) return;
    n_linear++;
    left = loss(r);                              /* f is its own derivative */
    rig_backward(r);
    for (int i = 0; i < r->n_in; i++) {
        right += dot(rig_reals(r->in[i]), rig_reals(r->din[i]), rig_count(r->in[i]));
        for (size_t k = 0; k < rig_count(r->in[i]); k++) size += fabs((double)rig_reals(r->in[i])[k] * (double)rig_reals(r->din[i])[k]);
    }
    if (fabs(left - right) > (IN_DOUBLE ? 1e-12 : 1e-5) * fmax(1, size))
        check_fail(c, "f(x) . w = x . backward(w), the hook being linear", "the backward function is not the transpose of the forward one",
                   "%.12g and %.12g", left, right);
}

static void test_adjoint(struct check_case *c)
{
    each_rig(c, -1, check_adjoint);
    if (!n_linear) check_skip(c, "no linear hook");
}

/* ---- twice ---- */

static void check_twice(struct check_case *c, struct rig *r)
{
    const struct rig_array *all[3 + RIG_PARAMS];
    const char *name[3 + RIG_PARAMS];
    lab_real *once[3 + RIG_PARAMS];
    struct lab_err ignored;
    int n = 0;
    for (int i = 0; i < r->n_in; i++) all[n] = r->din[i], name[n++] = r->din[i]->name;
    for (int i = 0; i < r->instance->n_param; i++) if (r->grad[i]) all[n] = r->grad[i], name[n++] = r->instance->param[i].name;
    rig_forward(r);
    rig_backward(r);
    for (int i = 0; i < n; i++) once[i] = memcpy(mem_alloc(all[i]->bytes, &ignored), all[i]->at, all[i]->bytes);
    rig_zero(r->scratch);
    rig_call(r, 1);
    rig_mask(r);
    for (int i = 0; i < n; i++) {
        size_t at, count = rig_count(all[i]);
        if (r->hook == LAB_H_VALUE && all[i] == r->din[0]) rig_mask(r);
        for (size_t k = 0; k < count; k++) rig_reals(all[i])[k] /= 2;
        if (fabs(rig_difference(once[i], rig_reals(all[i]), count, &at)) > (IN_DOUBLE ? 1e-12 : 1e-5))
            check_fail(c, "gradients that are added to: two backward calls give twice the gradient of one",
                       "= where += belongs in the backward function",
                       "gradient of %.60s [%zu]: once %.7g, twice %.7g", name[i], at, (double)once[i][at], 2 * (double)rig_reals(all[i])[at]);
        free(once[i]);
    }
}

static void test_twice(struct check_case *c)
{
    if (!each_rig(c, -1, check_twice)) check_skip(c, "no hooks");
}

#define HOOK(name, hook, what) { "gradients." name, "is " name "_bwd the derivative of " name ", for " what "?", "numbers.repeatable", test_gradient, hook }
const struct check_test check_gradient_tests[] = {
    HOOK("embed", LAB_H_EMBED, "every parameter"),
    HOOK("qk", LAB_H_QK, "queries, keys and every parameter"),
    HOOK("bias", LAB_H_BIAS, "every parameter"),
    HOOK("logits", LAB_H_LOGITS, "queries, keys, scores and every parameter"),
    HOOK("value", LAB_H_VALUE, "attention weights and every parameter"),
    { "gradients.adjoint", "linear hooks: is the backward function the transpose, to all digits?",
      "gradients.qk gradients.logits gradients.value", test_adjoint, 0 },
    { "gradients.twice", "do two backward calls give twice the gradient?", "numbers.repeatable", test_twice, 0 },
    { NULL, NULL, NULL, NULL, 0 } };
