/* check_encoder -- the tests of an encoder, but for its gradients: description, life, memory, numbers, speed.
 *
 * Every test goes over all choices of the options, the shapes of its table that init accepts, and all hooks.
 */
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "answer/check_test.h"
#include "answer/object.h"
#include "base/clock.h"
#include "base/mem.h"

#define COUNT(table) (int)(sizeof table / sizeof *table)
static const double close_enough = sizeof(lab_real) == sizeof(float) ? 2e-5 : 1e-12;      /* of the largest number */

/* ---- going over everything ---- */

typedef void rig_test(struct check_case *, struct rig *);

static const struct rig_shape few[] = {          /* B, H, dh, Tq, Tk, causal, padded, positions */
    { 2, 4, 8, 7, 7, 0, 0, RIG_FROM_ZERO }, { 2, 4, 8, 12, 12, 1, 0, RIG_ROWS } };
static const struct rig_shape many[] = {
    { 2, 4, 8, 7, 7, 0, 0, RIG_FROM_ZERO }, { 1, 4, 8, 1, 1, 0, 0, RIG_FROM_FAR }, { 2, 4, 16, 33, 33, 1, 0, RIG_GAPS },
    { 3, 3, 6, 12, 12, 0, 1, RIG_ROWS }, { 1, 2, 8, 5, 9, 0, 0, RIG_FROM_FAR }, { 2, 2, 8, 16, 16, 1, 1, RIG_UNSORTED },
    { 1, 1, 8, 5, 9, 1, 0, RIG_FROM_ZERO } };

static struct lab_dims dims_of(const struct rig_shape *s)
{
    return (struct lab_dims){ .n_layer = 2, .n_head = s->H, .d_head = s->dh, .train_len = s->Tk > s->Tq ? s->Tk : s->Tq, .causal = s->causal };
}

static int fits(const struct lab_encoder *e, const struct rig_shape *s) { return s->causal || !(e->flags & LAB_E_CAUSAL_ONLY); }

static void each_hook(struct check_case *c, const struct rig_instance *n, const struct rig_shape *s, int guarded, rig_test *test)
{
    for (int hook = 0; hook < RIG_HOOKS; hook++) {
        struct rig rig;
        if (!rig_has(n->encoder, hook)) continue;
        rig_make(&rig, n, hook, s, guarded, c->seed);
        char text[192];
        rig_describe(&rig, text);
        check_doing(c, "%s", text);
        test(c, &rig);
        rig_free(&rig);
    }
}

static void each_rig(struct check_case *c, const struct rig_shape *shape, int n_shape, int guarded, rig_test *test)
{
    for (int variant = 0; variant < rig_variants(c->encoder->options); variant++)
        for (int i = 0; i < n_shape; i++) {
            struct rig_instance n;
            struct lab_err ignored;
            if (!fits(c->encoder, &shape[i]) || rig_open(&n, c->encoder, variant, dims_of(&shape[i]), &ignored) != 0) continue;
            each_hook(c, &n, &shape[i], guarded, test);
            rig_close(&n);
        }
    check_doing(c, "%s", "");
}

static void need_hooks(struct check_case *c)
{
    for (int hook = 0; hook < RIG_HOOKS; hook++) if (rig_has(c->encoder, hook)) return;
    check_skip(c, "no hooks");
}

/* ---- all that a hook made, as one list of numbers ---- */

static lab_real *collect(const struct rig *r, size_t *n, int backward)
{
    const struct rig_array *part[16 + RIG_PARAMS];
    struct lab_err ignored;
    int parts = 0;
    for (int i = 0; i < r->n_out; i++) part[parts++] = r->out[i];
    for (int i = 0; backward && i < r->n_in; i++) part[parts++] = r->din[i];
    for (int i = 0; backward && i < r->instance->n_param; i++) if (r->grad[i]) part[parts++] = r->grad[i];
    *n = 0;
    for (int i = 0; i < parts; i++) *n += rig_count(part[i]);
    lab_real *all = mem_alloc(*n * sizeof *all, &ignored), *at = all;
    for (int i = 0; all && i < parts; i++) memcpy(at, part[i]->at, part[i]->bytes), at += rig_count(part[i]);
    return all ? all : (abort(), all);
}

/* Which number of collect's list that is. */
static void name_number(const struct rig *r, size_t at, char text[96])
{
    const struct rig_array *const *group[] = { (const void *)r->out, (const void *)r->din, (const void *)r->grad };
    const int size[] = { r->n_out, r->n_in, r->instance->n_param };
    snprintf(text, 96, "number %zu", at);
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < size[g]; i++) {
            if (!group[g][i]) continue;
            if (at < rig_count(group[g][i])) {
                snprintf(text, 96, "%s%.60s[%zu]", g == 2 ? "gradient of " : "", g == 2 ? r->instance->param[i].name : group[g][i]->name, at);
                return;
            }
            at -= rig_count(group[g][i]);
        }
}

static lab_real *both_ways(struct rig *r, size_t *n)
{
    rig_forward(r);
    rig_backward(r);
    return collect(r, n, 1);
}

struct claim { const char *expected, *cause; };

static void compare(struct check_case *c, const struct rig *r, const lab_real *a, const lab_real *b, size_t n, double allowed, struct claim claim)
{
    size_t worst = 0;
    char name[96];
    if (!memcmp(a, b, n * sizeof *a)) return;
    if (allowed == 0) while (!memcmp(&a[worst], &b[worst], sizeof *a)) worst++;
    else if (fabs(rig_difference(a, b, n, &worst)) <= allowed) return;
    name_number(r, worst, name);
    check_fail(c, claim.expected, claim.cause, "%s is %.9g and %.9g", name, (double)a[worst], (double)b[worst]);
}

/* ---- describe ---- */

static int same_param(const struct lab_param *a, const struct lab_param *b)
{
    return a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) && a->init == b->init && a->flags == b->flags &&
           a->name && b->name && !strcmp(a->name, b->name);
}

static void check_param(struct check_case *c, const struct rig_instance *n, int i)
{
    static const char *const cause = "see struct lab_param";
    const struct lab_param *p = &n->param[i];
    if (!p->name || !str_is_name(p->name)) check_fail(c, "a name of a-z, 0-9 and _", cause, "parameter %d: '%.60s'", i, p->name ? p->name : "");
    for (int k = 0; k < i; k++)
        if (!strcmp(n->param[k].name, p->name)) check_fail(c, "names that differ", cause, "parameters %d and %d are both %.60s", k, i, p->name);
    if (p->ndim < 1 || p->ndim > 4) check_fail(c, "1 to 4 dimensions", cause, "%.60s has %d", p->name, p->ndim);
    for (int k = 0; k < p->ndim; k++) if (p->dim[k] < 1) check_fail(c, "dimensions of at least 1", cause, "%.60s: dim[%d] is %d",
                                                                    p->name, k, p->dim[k]);
    if (p->init < LAB_INIT_ZERO || p->init > LAB_INIT_CUSTOM) check_fail(c, "a start of enum lab_init", cause, "%.60s: %d", p->name, p->init);
    if (p->init == LAB_INIT_CUSTOM && !n->encoder->param_init)
        check_fail(c, "a param_init", cause, "%.60s starts LAB_INIT_CUSTOM and there is none", p->name);
    if (!isfinite(p->a) || !isfinite(p->b)) check_fail(c, "finite a and b", cause, "%.60s: %g, %g", p->name, p->a, p->b);
    if (p->flags & ~(uint32_t)(LAB_P_PER_LAYER | LAB_P_FROZEN | LAB_P_NO_DECAY))
        check_fail(c, "flags of enum lab_pflag", cause, "%.60s: 0x%x", p->name, p->flags);
}

static void test_parameters(struct check_case *c)
{
    struct rig_instance n;
    struct lab_err ignored;
    int most = 0;
    for (int variant = 0; variant < rig_variants(c->encoder->options); variant++) {
        const struct rig_shape *s = &few[c->encoder->flags & LAB_E_CAUSAL_ONLY ? 1 : 0];
        if (rig_open(&n, c->encoder, variant, dims_of(s), &ignored) != 0) continue;
        check_doing(c, "%s", n.variant);
        for (int i = 0; i < n.n_param; i++) check_param(c, &n, i);
        if (n.n_param == RIG_PARAMS) check_fail(c, "fewer than 16 parameters",
                                                "param must return 0 from the first that is not there on", "16 or more");
        struct lab_dims longer = n.dims;
        longer.max_len = longer.max_pos = n.dims.max_pos / 2 > n.dims.train_len ? n.dims.max_pos / 2 : n.dims.train_len;
        for (int i = 0; i < n.n_param; i++) {
            struct lab_param p = { 0 };
            if (!n.encoder->param(n.self, &longer, i, &p) || !same_param(&p, &n.param[i]))
                check_fail(c, "parameters that depend on the model alone", "max_len or max_pos in a shape: more evaluation would change the model",
                           "%.60s is another one with max_pos %d than with %d", n.param[i].name, longer.max_pos, n.dims.max_pos);
        }
        if (n.n_param > most) most = n.n_param;
        rig_close(&n);
    }
    check_note(c, "%d", most);
}

/* ---- life ---- */

static void test_init(struct check_case *c)
{
    struct lab_err err = { "" };
    int accepted = 0, refused = 0;
    for (int variant = 0; variant < rig_variants(c->encoder->options); variant++)
        for (int i = 0; i < COUNT(many); i++) {
            struct rig_instance n;
            if (!fits(c->encoder, &many[i])) continue;
            check_doing(c, "init with %d heads of %d", many[i].H, many[i].dh);
            if (rig_open(&n, c->encoder, variant, dims_of(&many[i]), &err) != 0) { refused++; continue; }
            accepted++;
            rig_close(&n);
        }
    check_doing(c, "%s", "");
    if (!accepted) check_fail(c, "some model that it works with", "limits that are too tight, or options without a usable default",
                              "init refuses %d of %d; the last time: %.200s", refused, refused, err.msg);
    if (refused) check_note(c, "refuses %d of the %d models that are tried", refused, refused + accepted);
}

static void check_refusal(struct check_case *c, const struct lab_dims *d, void *self, const char *what)
{
    struct lab_err err = { "" };
    const char *cause = "return lab_fail(err, ...): what was found, what is allowed, which key to change";
    check_doing(c, "init with %s, heads of %d, positions to %d", what, d->d_head, d->max_pos);
    if (c->encoder->init(self, d, &err) == 0) {
        if (c->encoder->fini) c->encoder->fini(self);
        return;
    }
    if (!*err.msg) check_fail(c, "a refusal that says why", cause, "init returns an error and no message");
    if (strchr(err.msg, '\n')) check_fail(c, "a message of one line", cause, "%.200s", err.msg);
}

static void test_refusals(struct check_case *c)
{
    static const struct { int heads, d_head, train_len, max_pos; } odd[] = {
        { 4, 8, 8, 64 }, { 1, 1, 1, 1 }, { 3, 5, 8, 64 }, { 7, 9, 500, 500 }, { 4, 8, 8, 1 << 17 }, { 2, 2, 8, 64 } };
    char text[96];
    if (!c->encoder->init) check_skip(c, "no init");
    void *self = calloc(1, c->encoder->self_size + 1);
    for (int i = 0; i < 2 * COUNT(odd); i++) {
        struct lab_dims d = { sizeof d, 2, odd[i / 2].heads, odd[i / 2].heads * odd[i / 2].d_head, odd[i / 2].d_head, odd[i / 2].train_len,
                              odd[i / 2].max_pos, odd[i / 2].max_pos, i % 2 };
        if (!d.causal && (c->encoder->flags & LAB_E_CAUSAL_ONLY)) continue;
        for (int variant = 0; variant < rig_variants(c->encoder->options); variant++) {
            memset(self, 0, c->encoder->self_size);
            rig_set_variant(c->encoder->options, self, variant, text);
            check_refusal(c, &d, self, *text ? text : "its defaults");
        }
        for (const struct lab_option *row = c->encoder->options; i < 2 && row && row->name; row++)
            for (int high = 0; high < 2; high++) {
                void *at = (char *)self + row->off;
                memset(self, 0, c->encoder->self_size);
                rig_set_variant(c->encoder->options, self, 0, text);
                if (row->type == LAB_T_INT) *(int32_t *)at = (int32_t)(high ? row->hi : row->lo);
                else if (row->type == LAB_T_REAL) *(double *)at = high ? row->hi : row->lo;
                else continue;
                snprintf(text, sizeof text, "%.60s at its %s bound", row->name, high ? "upper" : "lower");
                check_refusal(c, &d, self, text);
            }
    }
}

static void test_thousand(struct check_case *c)
{
    enum { TIMES = 1000, FIRST = 10 };
    const struct rig_shape *s = &few[c->encoder->flags & LAB_E_CAUSAL_ONLY ? 1 : 0];
    struct lab_dims d = dims_of(s);
    char text[96];
    size_t before = 0;
    if (!c->encoder->init) check_skip(c, "no init");
    void *self = calloc(1, c->encoder->self_size + 1);
    d.size = sizeof d, d.d_model = d.n_head * d.d_head, d.max_len = d.max_pos = d.train_len;
    for (int i = 0; i < TIMES; i++) {
        struct lab_err err = { "" };
        memset(self, 0, c->encoder->self_size);
        rig_set_variant(c->encoder->options, self, 0, text);
        check_doing(c, "init number %d", i + 1);
        if (c->encoder->init(self, &d, &err) == 0 && c->encoder->fini) c->encoder->fini(self);
        if (i == FIRST) before = mallinfo2().uordblks;
    }
    check_doing(c, "%s", "");
    size_t after = mallinfo2().uordblks;
    if (after > before + TIMES * 8)
        check_fail(c, "memory that fini gives back", "a malloc in init without its free in fini", "%zu bytes more after %d times init and fini",
                   after - before, TIMES - FIRST);
}

/* What the hooks of an instance make of the same data. */
static lab_real *sum_up(struct check_case *c, const struct rig_instance *n, const struct rig_shape *s, size_t *count)
{
    struct lab_err ignored;
    lab_real *all = NULL;
    size_t cap = 0;
    *count = 0;
    for (int hook = 0; hook < RIG_HOOKS; hook++) {
        struct rig rig;
        size_t more;
        if (!rig_has(n->encoder, hook)) continue;
        rig_make(&rig, n, hook, s, 0, c->seed);
        lab_real *x = both_ways(&rig, &more);
        if (mem_grow(&all, &cap, *count + more, sizeof *all, &ignored) != 0) abort();
        memcpy(all + *count, x, more * sizeof *x);
        *count += more;
        free(x);
        rig_free(&rig);
    }
    return all;
}

static void check_same(struct check_case *c, const lab_real *a, const lab_real *b, size_t n, const char *when)
{
    if (memcmp(a, b, n * sizeof *a) != 0)
        check_fail(c, "an instance that no other one can change", "options or tables in a static variable; keep them in *self",
                   "its results changed %s", when);
}

static void test_instances(struct check_case *c)
{
    struct lab_err ignored;
    const struct rig_shape *s = &few[c->encoder->flags & LAB_E_CAUSAL_ONLY ? 1 : 0];
    const struct rig_shape other = { 1, 2, 8, 5, 5, 1, 0, RIG_FROM_ZERO };
    size_t n, again;
    need_hooks(c);
    for (int variant = 0; variant < rig_variants(c->encoder->options); variant++) {
        struct rig_instance a, b;
        if (rig_open(&a, c->encoder, 0, dims_of(s), &ignored) != 0) check_skip(c, "init refuses the model");
        lab_real *before = sum_up(c, &a, s, &n);
        if (rig_open(&b, c->encoder, variant, dims_of(&other), &ignored) == 0) {
            free(sum_up(c, &b, &other, &again));
            check_same(c, before, sum_up(c, &a, s, &again), n, "when a second one was made");
            rig_close(&b);
            check_same(c, before, sum_up(c, &a, s, &again), n, "when a second one was ended");
        }
        rig_close(&a);
    }
}

static void call_often(struct check_case *c, struct rig *r)
{
    (void)c;
    for (int i = 0; i < 3; i++) {
        rig_forward(r);
        rig_backward(r);
        r->call.train = 0;
        rig_forward(r);
        r->call.train = 1;
    }
}
static void test_hooks(struct check_case *c)
{
    need_hooks(c);
    for (int i = 0; i < 3; i++) each_rig(c, many, COUNT(many), 0, call_often);
}

static void call_once(struct check_case *c, struct rig *r)
{
    (void)c;
    rig_forward(r);
    rig_backward(r);
}
static void test_silent(struct check_case *c)
{
    int memory = memfd_create("printed", 0);
    need_hooks(c);
    if (memory < 0) check_skip(c, "nowhere to catch what it prints");
    dup2(memory, 1), dup2(memory, 2);
    each_rig(c, few, 1, 0, call_once);
    each_rig(c, few + 1, 1, 0, call_once);
    fflush(NULL);
    off_t printed = lseek(memory, 0, SEEK_END);
    if (printed > 0) check_fail(c, "hooks that print nothing", "a debugging printf; host->log is for what must be said", "%lld bytes",
                                (long long)printed);
}

/* ---- memory ---- */

static void fill_around(const struct rig_array *a, int byte)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memset(a->map + page, byte, (size_t)(a->at - a->map) - page);
    memset(a->at + a->bytes, byte, a->room);
}

static void check_around(struct check_case *c, const struct rig_array *a, int byte)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *cause = "a loop that runs too far: compare its bounds with the shapes beside the hook in lab_plugin.h";
    for (const char *p = a->map + page; p < a->at; p++)
        if (*p != (char)byte) check_fail(c, "nothing written outside the arrays", cause, "wrote %td bytes before %s", a->at - p, a->name);
    for (const char *p = a->at + a->bytes; p < a->at + a->bytes + a->room; p++)
        if (*p != (char)byte) check_fail(c, "nothing written outside the arrays", cause, "wrote %td bytes past the end of %s",
                                         p - (a->at + a->bytes) + 1, a->name);
}

static void stay_inside(struct check_case *c, struct rig *r)
{
    static const int byte[] = { 0x00, 0xff };
    lab_real *x[2];
    size_t n;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < r->n_array; k++) fill_around(&r->array[k], byte[i]);
        x[i] = both_ways(r, &n);
        for (int k = 0; k < r->n_array; k++) check_around(c, &r->array[k], byte[i]);
    }
    compare(c, r, x[0], x[1], n, 0, (struct claim){ "results that depend on the arguments alone",
            "it reads up to 63 bytes past the end of an array" });
    free(x[0]), free(x[1]);
}
static void test_bounds(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, many, COUNT(many), 1, stay_inside);
}

static void protect(const struct rig_array *a, int how) { if (a) mprotect(a->map, a->map_bytes, how); }

static void only_read(struct check_case *c, struct rig *r)
{
    const struct rig_array *input[] = { r->in[0], r->in[1], r->in[2], r->dout[0], r->dout[1], r->pos_q, r->pos_k, r->key_ok,
                                        &r->instance->block };
    (void)c;
    for (int backward = 0; backward < 2; backward++) {
        for (int i = 0; i < COUNT(input); i++) protect(input[i], PROT_READ);
        for (int i = 0; i < r->instance->n_param; i++) protect(r->param[i], PROT_READ);
        if (backward) rig_backward(r);
        else rig_forward(r);
        for (int i = 0; i < COUNT(input); i++) protect(input[i], PROT_READ | PROT_WRITE);
    }
}
static void test_inputs(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, many, COUNT(many), 0, only_read);
}

static void ignore_garbage(struct check_case *c, struct rig *r)
{
    static const int byte[] = { 0x00, 0xff, 0x3f };
    lab_real *x[3];
    size_t n;
    if (!r->scratch->bytes && !r->save->bytes) return;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < r->n_out; k++) rig_zero(r->out[k]);
        for (int k = 0; k < r->n_in; k++) rig_zero(r->din[k]);
        for (int k = 0; k < r->instance->n_param; k++) rig_zero(r->grad[k]);
        memset(r->scratch->at, byte[i], r->scratch->bytes);
        memset(r->save->at, byte[i], r->save->bytes);
        rig_call(r, 0);
        memset(r->scratch->at, byte[i], r->scratch->bytes);
        rig_call(r, 1);
        rig_mask(r);
        x[i] = collect(r, &n, 1);
        if (i) compare(c, r, x[0], x[i], n, 0, (struct claim){ "results that do not depend on what scratch held before",
                       "it reads scratch or save before it writes there" });
    }
    for (int i = 0; i < 3; i++) free(x[i]);
}
static void test_scratch(struct check_case *c)
{
    int uses = c->encoder->scratch_size || c->encoder->save_size;
    if (!uses) check_skip(c, "no scratch, no save");
    each_rig(c, many, COUNT(many), 0, ignore_garbage);
}

/* Onto ones and onto zeros: the same is added.  q_out and k_out are written, whatever was there. */
static void add_to(struct check_case *c, struct rig *r)
{
    size_t n, worst;
    rig_forward(r);
    lab_real *from_zero = collect(r, &n, 0);
    for (int i = 0; i < r->n_out; i++)
        for (size_t k = 0; k < rig_count(r->out[i]); k++) rig_reals(r->out[i])[k] = 1;
    rig_zero(r->scratch), rig_zero(r->save);
    rig_call(r, 0);
    for (int i = 0; r->hook != LAB_H_QK && i < r->n_out; i++)
        for (size_t k = 0; k < rig_count(r->out[i]); k++) rig_reals(r->out[i])[k] -= 1;
    rig_mask(r);
    lab_real *from_one = collect(r, &n, 0);
    if (fabs(rig_difference(from_zero, from_one, n, &worst)) > close_enough) {
        char name[96];
        name_number(r, worst, name);
        if (r->hook == LAB_H_QK) check_fail(c, "q_out and k_out to be written", "+= where = belongs", "%s depends on what it was before", name);
        check_fail(c, "outputs to be added to", "= where += belongs, or a sum that depends on what was there",
                   "%s: %.7g is added to 0, %.7g to 1", name, (double)from_zero[worst], (double)from_one[worst]);
    }
    free(from_zero), free(from_one);
}
static void test_accumulates(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, few, COUNT(few), 0, add_to);
}

static struct object the_object;
/* Not by memcpy: in a build with AddressSanitizer its guard bytes stand between the variables, and are read here, too. */
__attribute__((no_sanitize("address")))
static char byte_at(const volatile char *data, size_t i) { return data[i]; }
static void leave_globals(struct check_case *c, struct rig *r)
{
    char *before[8];
    for (int i = 0; i < the_object.n_writable; i++) {
        before[i] = malloc(the_object.writable[i].bytes);
        for (size_t k = 0; k < the_object.writable[i].bytes; k++) before[i][k] = byte_at(the_object.writable[i].at, k);
    }
    call_once(c, r);
    for (int i = 0; i < the_object.n_writable; i++) {
        for (size_t k = 0; k < the_object.writable[i].bytes; k++)
            if (before[i][k] != byte_at(the_object.writable[i].at, k))
                check_fail(c, "hooks that change no variable of the plugin",
                           "a static or global variable; any number of threads may run a hook at once",
                           "byte 0x%tx of the loaded file changed", the_object.writable[i].at + k - the_object.base);
        free(before[i]);
    }
}
static void test_globals(struct check_case *c)
{
    need_hooks(c);
    if (object_find(&the_object, c->path) != 0) check_skip(c, "the dynamic linker does not tell where its data is");
    each_rig(c, many, COUNT(many), 0, leave_globals);
}

static struct check_case *allocating;
static void __attribute__((noreturn)) caught(const char *name)
{
    check_fail(allocating, "hooks that allocate nothing", "ask for the memory with scratch_size or save_size, or make it in init",
               "%s is called", name);
}
#define ALLOCATOR(name) static void caught_##name(void) { caught(#name); }
ALLOCATOR(malloc) ALLOCATOR(calloc) ALLOCATOR(realloc) ALLOCATOR(reallocarray) ALLOCATOR(aligned_alloc) ALLOCATOR(posix_memalign)
ALLOCATOR(memalign) ALLOCATOR(valloc) ALLOCATOR(strdup) ALLOCATOR(strndup) ALLOCATOR(mmap)
static const struct { const char *name; void (*caught)(void); } allocators[] = {
    { "malloc", caught_malloc }, { "calloc", caught_calloc }, { "realloc", caught_realloc }, { "reallocarray", caught_reallocarray },
    { "aligned_alloc", caught_aligned_alloc }, { "posix_memalign", caught_posix_memalign }, { "memalign", caught_memalign },
    { "valloc", caught_valloc }, { "strdup", caught_strdup }, { "strndup", caught_strndup }, { "mmap", caught_mmap } };

/* init may allocate, so all instances are ready before the imports are led astray; this process makes no other one. */
static void test_allocation(struct check_case *c)
{
    enum { MOST = 32 };
    static struct rig_instance instance[MOST];
    const struct rig_shape *s = &few[c->encoder->flags & LAB_E_CAUSAL_ONLY ? 1 : 0];
    struct object o;
    struct lab_err ignored;
    int n = 0;
    need_hooks(c);
    if (object_find(&o, c->path) != 0) check_skip(c, "the dynamic linker does not tell what it imports");
    for (int variant = 0; variant < rig_variants(c->encoder->options) && n < MOST; variant++)
        n += rig_open(&instance[n], c->encoder, variant, dims_of(s), &ignored) == 0;
    allocating = c;
    for (int i = 0; i < COUNT(allocators); i++) object_redirect(&o, allocators[i].name, allocators[i].caught);
    for (int i = 0; i < n; i++) each_hook(c, &instance[i], s, 0, call_once);
}

/* ---- numbers ---- */

static void be_finite(struct check_case *c, struct rig *r)
{
    for (int i = 0; i < 10; i++) {
        size_t n;
        char name[96];
        lab_real *x = both_ways(r, &n);
        for (size_t k = 0; k < n; k++)
            if (!isfinite((double)x[k])) {
                name_number(r, k, name);
                check_fail(c, "finite numbers", "a division by zero, a logarithm or power of something negative, or an overflow far out",
                           "%s is %g", name, (double)x[k]);
            }
        free(x);
    }
}
static void test_finite(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, many, COUNT(many), 0, be_finite);
}

static void repeat_bits(struct check_case *c, struct rig *r)
{
    struct rig other;
    size_t n;
    lab_real *first = both_ways(r, &n);
    rig_make(&other, r->instance, r->hook, &r->shape, 0, c->seed);
    lab_real *second = both_ways(&other, &n), *third = both_ways(r, &n);
    struct claim claim = { "the same bits from the same arguments", "a variable that remembers, an address or a clock in the result" };
    compare(c, r, first, second, n, 0, claim);
    compare(c, r, first, third, n, 0, claim);
    rig_free(&other);
    free(first), free(second), free(third);
}
static void test_repeatable(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, many, COUNT(many), 0, repeat_bits);
}

enum { THREADS = 8, TURNS = 50 };
struct thread { struct rig rig; pthread_t id; };
static pthread_barrier_t all_here;
static void *turn(void *data)
{
    struct thread *t = data;
    pthread_barrier_wait(&all_here);             /* else the first ones may be done before the last are made, and nobody meets anybody */
    for (int i = 0; i < TURNS; i++) rig_forward(&t->rig), rig_backward(&t->rig);
    return NULL;
}
/* Each thread has data of its own, which a shared buffer would mix. */
static void run_threads(struct check_case *c, struct rig *r)
{
    static struct thread thread[THREADS];
    size_t n;
    if (pthread_barrier_init(&all_here, NULL, THREADS) != 0) check_skip(c, "no threads to be had");
    for (int i = 0; i < THREADS; i++) rig_make(&thread[i].rig, r->instance, r->hook, &r->shape, 0, c->seed + (uint64_t)i);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i].id, NULL, turn, &thread[i]) != 0) check_skip(c, "no threads to be had");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i].id, NULL);
    pthread_barrier_destroy(&all_here);
    for (int i = 0; i < THREADS; i++) {
        lab_real *together = collect(&thread[i].rig, &n, 1), *alone = both_ways(&thread[i].rig, &n);
        compare(c, r, alone, together, n, 0, (struct claim){ "eight threads to get what one gets", "a static buffer; use scratch" });
        free(together), free(alone);
        rig_free(&thread[i].rig);
    }
}
static void test_threads(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, few, COUNT(few), 0, run_threads);
}

/* A batch is its rows side by side; the gradients of parameters are sums over them. */
static void split_batch(struct check_case *c, struct rig *r)
{
    struct rig one;
    struct rig_shape single = r->shape;
    size_t n, part, parts;
    struct lab_err ignored;
    if (r->shape.B < 2 || r->hook == LAB_H_BIAS) return;
    single.B = 1;
    lab_real *whole = both_ways(r, &n), *sum = mem_alloc(n * sizeof *sum, &ignored);
    for (int b = 0; b < r->shape.B; b++) {
        lab_real *to = sum;
        rig_make(&one, r->instance, r->hook, &single, 0, c->seed);
        if (r->shape.positions == RIG_ROWS) one.call.stride_q = one.call.stride_k = 0;
        rig_take_row(&one, r, b);
        lab_real *x = both_ways(&one, &parts), *from = x;
        const struct rig_array *row[] = { one.out[0], one.out[1], one.din[0], one.din[1], one.din[2] };
        for (int i = 0; i < 5; i++) {
            if (!row[i]) continue;
            part = rig_count(row[i]);
            memcpy(to + (size_t)b * part, from, part * sizeof *to);
            to += (size_t)r->shape.B * part, from += part;
        }
        for (; from < x + parts; from++) *to++ += *from;
        free(x);
        rig_free(&one);
    }
    compare(c, r, whole, sum, n, 10 * close_enough, (struct claim){ "a batch to give what its sequences give one by one",
            "a row's offset, or stride_q and stride_k, are not used" });
    free(whole), free(sum);
}
static void test_batch(struct check_case *c)
{
    need_hooks(c);
    each_rig(c, many, COUNT(many), 0, split_batch);
}

/* Logits, for a qk hook: q_out . k_out of each head. */
static lab_real *products(const struct rig *r, size_t *n)
{
    const struct rig_shape *s = &r->shape;
    struct lab_err ignored;
    *n = (size_t)s->B * s->H * s->Tq * s->Tk;
    lab_real *x = mem_alloc(*n * sizeof *x, &ignored), *at = x;
    for (int row = 0; row < s->B * s->H; row++)
        for (int i = 0; i < s->Tq; i++)
            for (int j = 0; j < s->Tk; j++, at++) {
                const lab_real *q = rig_reals(r->out[0]) + ((size_t)row * s->Tq + i) * s->dh;
                const lab_real *k = rig_reals(r->out[1]) + ((size_t)row * s->Tk + j) * s->dh;
                double sum = 0;
                for (int d = 0; d < s->dh; d++) sum += (double)q[d] * (double)k[d];
                *at = (lab_real)sum;
            }
    return x;
}

/* What becomes of the logits, the embedding or the output. */
static lab_real *result(const struct rig *r, size_t *n) { return r->hook == LAB_H_QK ? products(r, n) : collect(r, n, 0); }

static void move_positions(struct rig *r, int by)
{
    for (size_t i = 0; i < r->pos_k->bytes / sizeof(int32_t); i++) ((int32_t *)(void *)r->pos_k->at)[i] += by;
    for (size_t i = 0; r->pos_q != r->pos_k && i < r->pos_q->bytes / sizeof(int32_t); i++) ((int32_t *)(void *)r->pos_q->at)[i] += by;
}

static int last_position(const struct rig *r)
{
    int last = 0;
    for (size_t i = 0; i < r->pos_k->bytes / sizeof(int32_t); i++)
        if (((int32_t *)(void *)r->pos_k->at)[i] > last) last = ((int32_t *)(void *)r->pos_k->at)[i];
    return last;
}

static void shift_positions(struct check_case *c, struct rig *r)
{
    static const int by[] = { 1, 37, 1000 };
    size_t n;
    rig_forward(r);
    lab_real *here = result(r, &n);
    for (int i = 0; i < COUNT(by); i++) {
        size_t worst;
        if (last_position(r) + by[i] >= r->instance->dims.max_pos) continue;
        move_positions(r, by[i]);
        rig_forward(r);
        lab_real *there = result(r, &n);
        if (fabs(rig_difference(here, there, n, &worst)) > 10 * close_enough)
            check_fail(c, "the same logits when all positions grow by one number",
                       "LAB_E_SHIFT_INVARIANT is claimed, but the result depends on where, not "
                       "only on how far", "%.7g became %.7g, positions + %d", (double)here[worst], (double)there[worst], by[i]);
        move_positions(r, -by[i]);
        free(there);
    }
    free(here);
}
static void test_shift(struct check_case *c)
{
    need_hooks(c);
    if (!(c->encoder->flags & LAB_E_SHIFT_INVARIANT)) check_skip(c, "not claimed");
    each_rig(c, many, COUNT(many), 0, shift_positions);
}

static void other_layer(struct check_case *c, struct rig *r)
{
    size_t n;
    if (r->hook != LAB_H_BIAS) return;
    rig_forward(r);
    lab_real *here = collect(r, &n, 0);
    r->call.layer = 0;
    rig_forward(r);
    lab_real *there = collect(r, &n, 0);
    compare(c, r, here, there, n, 0, (struct claim){ "the same bias in every layer", "LAB_E_LAYER_INVARIANT is claimed, but call->layer matters" });
    free(here), free(there);
}
static void test_layers(struct check_case *c)
{
    if (!(c->encoder->flags & LAB_E_LAYER_INVARIANT)) check_skip(c, "not claimed");
    each_rig(c, many, COUNT(many), 0, other_layer);
}

/* ---- what may not be seen ---- */

/* Other numbers in row t of every input [.., T, dh], and in the columns t of every input [.., Tq, Tk]. */
static void disturb(struct rig *r, int b, int t, struct lab_rng *rng)
{
    const struct rig_shape *s = &r->shape;
    for (int i = 0; i < r->n_in; i++) {
        int square = rig_count(r->in[i]) == (size_t)s->B * s->H * s->Tq * s->Tk && (r->hook == LAB_H_VALUE || i == 2);
        lab_real *x = rig_reals(r->in[i]);
        if (!square && i == 0) continue;         /* queries: the last ones are not keys of their own */
        for (int h = 0; h < s->H; h++)
            for (int k = 0; k < (square ? s->Tq : s->dh); k++) {
                size_t at = square ? ((size_t)(b * s->H + h) * s->Tq + k) * s->Tk + t : ((size_t)(b * s->H + h) * s->Tk + t) * s->dh + k;
                if (r->hook != LAB_H_VALUE && (!square || !rig_visible(r, b, k, t))) x[at] = (lab_real)(10 * lab_rng_unit(rng) - 5);
            }
    }
}

static int row_length(const struct rig *r)
{
    if (r->hook == LAB_H_EMBED) return r->call.d;
    return r->hook == LAB_H_LOGITS ? r->shape.Tk : r->shape.dh;
}

/* Results of the tokens [0, last[b]) of each sequence, masked ones zero, are as they were.  Of q_out and k_out only the
 * products count: what turns or scales both cancels out. */
static void rows_unchanged(struct check_case *c, const struct rig *r, const lab_real *before, const int *last, struct claim claim)
{
    const struct rig_shape *s = &r->shape;
    int qk = r->hook == LAB_H_QK, heads = r->hook == LAB_H_EMBED ? 1 : s->H, width = qk ? s->Tk : row_length(r);
    size_t n;
    lab_real *after = result(r, &n);
    for (int row = 0; row < s->B * heads; row++)
        for (int t = 0; t < last[row / heads]; t++) {
            size_t at = ((size_t)row * s->Tq + t) * width, worst;
            int count = qk ? last[row / heads] : width;
            if (fabs(rig_difference(before + at, after + at, (size_t)count, &worst)) > (qk ? 10 * close_enough : 0))
                check_fail(c, claim.expected, claim.cause, "%s[%zu] was %.9g, is now %.9g", qk ? "q_out . k_out" : r->out[0]->name, at + worst,
                           (double)before[at + worst], (double)after[at + worst]);
        }
    free(after);
}

/* Other keys, scores and positions behind position t: what stands before stays. */
static void hide_future(struct check_case *c, struct rig *r)
{
    const struct rig_shape *s = &r->shape;
    struct lab_rng rng = lab_rng_at(c->seed, 0xf07, 0, 0);
    int t = s->Tk / 2, last[8];
    size_t n;
    if (r->hook == LAB_H_BIAS) return;           /* masked by the host */
    rig_forward(r);
    lab_real *before = result(r, &n);
    for (int b = 0; b < s->B; b++) {
        last[b] = t;
        for (int k = t; k < s->Tk; k++) disturb(r, b, k, &rng);
    }
    int32_t *pos = (int32_t *)(void *)r->pos_k->at, swapped = pos[s->Tk - 1];           /* still different ones in range */
    pos[s->Tk - 1] = pos[t], pos[t] = swapped;
    rig_forward(r);
    rows_unchanged(c, r, before, last, (struct claim){ "a causal model that sees nothing of the future",
                                                       "something of later tokens counts; only keys j <= i + Tk - Tq may" });
    free(before);
}
static void test_causality(struct check_case *c)
{
    static const struct rig_shape causal[] = { { 2, 4, 8, 12, 12, 1, 0, RIG_GAPS }, { 1, 2, 8, 33, 33, 1, 0, RIG_FROM_ZERO } };
    need_hooks(c);
    each_rig(c, causal, COUNT(causal), 0, hide_future);
}

static void hide_padding(struct check_case *c, struct rig *r)
{
    const struct rig_shape *s = &r->shape;
    struct lab_rng rng = lab_rng_at(c->seed, 0xbad, 0, 0);
    int last[8];
    size_t n;
    if (!r->key_ok || r->hook == LAB_H_BIAS) return;
    rig_forward(r);
    lab_real *before = result(r, &n);
    for (int b = 0; b < s->B; b++) {
        last[b] = s->Tk - 1 - b > 1 ? s->Tk - 1 - b : 1;
        for (int k = last[b]; k < s->Tk; k++) disturb(r, b, k, &rng);
    }
    rig_forward(r);
    rows_unchanged(c, r, before, last, (struct claim){ "padding that changes nothing", "a sum over keys that does not ask key_ok" });
    free(before);
}
static void test_padding(struct check_case *c)
{
    static const struct rig_shape padded[] = { { 3, 4, 8, 12, 12, 0, 1, RIG_ROWS }, { 2, 4, 8, 12, 12, 1, 1, RIG_FROM_ZERO } };
    need_hooks(c);
    each_rig(c, padded, COUNT(padded), 0, hide_padding);
}

/* ---- positions are data ---- */

/* Tokens index[0..n) of the whole, in that order and with their positions, give those parts of the whole's result. */
static void take_part(struct check_case *c, const struct rig *whole, const int *index, int n, const char *what)
{
    struct rig sub;
    struct rig_shape shape = whole->shape;
    size_t count, worst;
    shape.Tq = shape.Tk = n;
    rig_make(&sub, whole->instance, whole->hook, &shape, 0, c->seed);
    rig_pick(&sub, whole, index);
    rig_forward(&sub);
    lab_real *all = result(whole, &count), *found = result(&sub, &count), *want = result(&sub, &count);
    rig_pick_out(&sub, whole, index, all, want);
    if (fabs(rig_difference(want, found, count, &worst)) > 10 * close_enough)
        check_fail(c, "results that follow the positions that are given", "a loop index is used where pos_q[i] or pos_k[j] belongs",
                   "%s: %s[%zu] is %.7g, should be %.7g", what, whole->hook == LAB_H_QK ? "q_out . k_out" : sub.out[0]->name, worst,
                   (double)found[worst], (double)want[worst]);
    free(all), free(found), free(want);
    rig_free(&sub);
}

static void follow_positions(struct check_case *c, struct rig *r)
{
    enum { N = 12 };
    static const int middle[] = { 4, 5, 6, 7, 8 }, gaps[] = { 0, 3, 4, 9, 11 }, mixed[N] = { 7, 2, 11, 0, 5, 9, 1, 10, 3, 8, 4, 6 };
    int whole_only = r->hook == LAB_H_LOGITS || r->hook == LAB_H_VALUE;      /* these may add up over all keys */
    rig_forward(r);
    if (!whole_only) take_part(c, r, middle, COUNT(middle), "part of a sequence"), take_part(c, r, gaps, COUNT(gaps), "positions with gaps");
    if (!whole_only || !r->shape.causal) take_part(c, r, mixed, N, "positions that are not sorted");
}
static void test_positions(struct check_case *c)
{
    static const struct rig_shape shape[] = { { 1, 4, 8, 12, 12, 0, 0, RIG_GAPS }, { 1, 4, 8, 12, 12, 1, 0, RIG_FROM_FAR } };
    need_hooks(c);
    for (int variant = 0; variant < rig_variants(c->encoder->options); variant++)
        for (int i = 0; i < COUNT(shape); i++) {
            struct rig_instance n;
            struct lab_err ignored;
            struct lab_dims d = dims_of(&shape[i]);
            d.train_len = 0;                     /* as long as it gets: no scaling for lengths past training */
            if (!fits(c->encoder, &shape[i]) || rig_open(&n, c->encoder, variant, d, &ignored) != 0) continue;
            if (n.dims.max_pos < 1000 + 48) check_note(c, "up to %d, init accepts no more", n.dims.max_pos - 1);
            each_hook(c, &n, &shape[i], 0, follow_positions);
            rig_close(&n);
        }
}

/* ---- speed ---- */

enum { SLOWEST_NS = 2000 };                      /* an element; a logit of FIRE, its network and all, takes a tenth of it */

/* The best of five.  What took its time is not asked as often, unless it is so slow that somebody else may have had the processor. */
static double ns_each(struct rig *r, int backward)
{
    enum { TIMES = 5, BUDGET_NS = 30000000 };
    double best = 1e30;
    size_t n = rig_count(r->out[0]);
    for (int i = 0, spent = 0; i < TIMES && (spent < BUDGET_NS || best > SLOWEST_NS * (double)n); i++) {
        int64_t start = clock_ns();
        rig_call(r, backward);
        int64_t took = clock_ns() - start;
        if ((double)took < best) best = (double)took;
        spent += took < BUDGET_NS ? (int)took : BUDGET_NS;
    }
    return best / (double)n;
}

/* What `none` costs there: nothing but the pass over the numbers that the engine makes anyway. */
static double ns_of_none(const struct rig *r)
{
    double best = 1e30;
    size_t n = rig_count(r->out[0]);
    for (int i = 0; i < 5; i++) {
        int64_t start = clock_ns();
        memcpy(rig_reals(r->out[0]), rig_reals(r->dout[0]), n * sizeof(lab_real));
        __asm__ volatile("" ::: "memory");
        int64_t took = clock_ns() - start;
        if ((double)took < best) best = (double)took;
    }
    return best / (double)n;
}

static void measure(struct check_case *c, struct rig *r)
{
    struct str note = { 0 };
    double none = ns_of_none(r);
    rig_forward(r);
    double forward = ns_each(r, 0), backward = ns_each(r, 1);
    str_printf(&note, "%s%s%s %.3g ns an element, backward %.3g, none %.2g", c->answer->note, *c->answer->note ? "; " : "",
               rig_hook_name[r->hook], forward, backward, none);
    check_note(c, "%s", str_text(&note));
    str_free(&note);
    if (forward > SLOWEST_NS || backward > SLOWEST_NS)
        check_fail(c, "at most 2000 ns an element", "work for each element that could be done once for each position, or in init",
                   "%.0f ns forward, %.0f ns backward", forward, backward);
}
static void test_speed(struct check_case *c)
{
    static const struct rig_shape dm[] = { { 4, 8, 8, 40, 40, 0, 0, RIG_FROM_ZERO }, { 4, 8, 8, 40, 40, 1, 0, RIG_FROM_ZERO } };
    const struct rig_shape *s = &dm[c->encoder->flags & LAB_E_CAUSAL_ONLY ? 1 : 0];
    struct rig_instance n;
    struct lab_err ignored;
    need_hooks(c);
    if (rig_open(&n, c->encoder, 0, dims_of(s), &ignored) != 0) check_skip(c, "init refuses the model");
    each_hook(c, &n, s, 0, measure);
}

static void no_denormals(struct check_case *c, struct rig *r)
{
    size_t n, few_of = 0;
    lab_real *x = both_ways(r, &n);
    for (size_t i = 0; i < n; i++) few_of += fpclassify(x[i]) == FP_SUBNORMAL;
    if (few_of * 100 > n)
        check_fail(c, "ordinary numbers or zeros", "something that decays with distance; make it 0 from where it no longer matters",
                   "%zu of %zu numbers are denormal, with which a processor computes a hundred times slower", few_of, n);
    free(x);
}
static void test_denormals(struct check_case *c)
{
    static const struct rig_shape far[] = { { 1, 4, 8, 16, 16, 1, 0, RIG_FROM_FAR }, { 1, 4, 8, 64, 64, 1, 0, RIG_FROM_ZERO } };
    need_hooks(c);
    each_rig(c, far, COUNT(far), 0, no_denormals);
}

#define ROW(name, about, needs, run) { name, about, needs, run, 0 }
const struct check_test check_encoder_tests[] = {
    ROW("describe.words", "summary and paper: are they lines that can be printed?", NULL, check_words),
    ROW("describe.options", "help, defaults and bounds: does each value survive being written down?  are others refused?", NULL, check_options),
    ROW("life.init", "is there a model that it works with?", NULL, test_init),
    ROW("describe.parameters", "names, shapes and starts; none depends on how long the evaluation is", "life.init", test_parameters),
    ROW("life.refusals", "does every refusal say why?", "life.init", test_refusals),
    ROW("life.thousand", "init and fini, a thousand times: does memory stay?", "life.init", test_thousand),
    ROW("life.hooks", "does every hook return, in every shape, again and again?", "life.init", test_hooks),
    ROW("life.silent", "do hooks print nothing?", "life.hooks", test_silent),
    ROW("numbers.finite", "are all results and gradients finite?", "life.hooks", test_finite),
    ROW("numbers.repeatable", "do the same arguments give the same bits?", "numbers.finite", test_repeatable),
    ROW("life.instances", "do two instances leave each other alone?", "numbers.repeatable", test_instances),
    ROW("memory.bounds", "are arrays of the exact size enough?", "numbers.repeatable", test_bounds),
    ROW("memory.inputs", "are inputs, parameters and self only read?", "life.hooks", test_inputs),
    ROW("memory.scratch", "is scratch written before it is read?", "numbers.repeatable", test_scratch),
    ROW("memory.accumulates", "are outputs added to, q_out and k_out written?", "numbers.repeatable", test_accumulates),
    ROW("memory.globals", "do hooks leave the plugin's variables alone?", "life.hooks", test_globals),
    ROW("memory.allocation", "do hooks allocate nothing?", "life.hooks", test_allocation),
    ROW("numbers.threads", "do eight threads get what one gets?", "numbers.repeatable", test_threads),
    ROW("numbers.batch", "is a batch its sequences side by side?", "numbers.repeatable", test_batch),
    ROW("numbers.shift", "LAB_E_SHIFT_INVARIANT: do only differences of positions matter?", "numbers.repeatable", test_shift),
    ROW("numbers.layers", "LAB_E_LAYER_INVARIANT: is the bias equal in every layer?", "numbers.repeatable", test_layers),
    ROW("numbers.causality", "can nothing of the future be seen?", "numbers.repeatable", test_causality),
    ROW("numbers.padding", "can padding change no valid row?", "numbers.repeatable", test_padding),
    ROW("numbers.positions", "positions from 1000, with gaps, not sorted: do results follow them?", "numbers.repeatable", test_positions),
    ROW("speed.hooks", "how long does an element take?  not absurdly long?", "life.hooks", test_speed),
    ROW("speed.denormals", "are results free of denormal numbers?", "numbers.finite", test_denormals),
    ROW(NULL, NULL, NULL, NULL) };
