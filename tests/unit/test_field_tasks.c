/* test_field_tasks -- the tasks of the literature, checked the other way round: parse the tape, work the answer out anew.
 *
 * And lab's own four small ones.  LAB_TEST_EXAMPLES sets the number of examples for each task and length (make slow-test: 10000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "abi/lab_task.h"
#include "host/option.h"

enum { LONG = 2048, GUARD = 0x5a, MARGIN = 64 };     /* elements past the tape that are looked at */
struct example { struct lab_example e; int32_t in[LONG], target[LONG], pos[LONG]; float weight[LONG]; uint8_t counted[LONG]; int tape, len; };
struct fixture { const struct lab_task *task; void *self; struct lab_task_info info; };

/* settings: "key=value key=value" */
static struct fixture load(const char *plugin, const char *name, const char *settings)
{
    struct fixture f = { 0 };
    struct lab_err err;
    char path[256], text[256], *rest = text, *word;
    static char value[8][64];
    snprintf(path, sizeof path, TEST_BUILD "/plugins/tasks/%s.so", plugin);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s (build the plugins first: make lab)", dlerror());
    const struct lab_plugin *(*entry)(void) = (const struct lab_plugin *(*)(void))dlsym(handle, "lab_plugin_entry");
    for (const struct lab_task *const *t = entry()->tasks; *t; t++) if (!strcmp((*t)->name, name)) f.task = *t;
    if (!f.task) fail_msg("%s brings no task %s", plugin, name);
    f.self = calloc(1, f.task->self_size);
    f.info.size = sizeof f.info;
    assert_int_equal(option_defaults(f.task->options, f.self, NULL, &err), 0);
    snprintf(text, sizeof text, "%s", settings);
    for (int i = 0; (word = strsep(&rest, " ")) && *word; i++) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        snprintf(value[i], sizeof value[i], "%s", equals + 1);
        if (option_set(option_find(f.task->options, word), f.self, value[i], &err) != 0) fail_msg("%s", err.msg);
    }
    if (f.task->init(f.self, &f.info, &err) != 0) fail_msg("%s: %s", name, err.msg);
    return f;
}

/* Draws and checks what every example must satisfy: ids in range, nothing written past the tape, positions in range. */
static const struct example *draw(const struct fixture *f, uint64_t seed, int split, int64_t n, int len)
{
    static struct example slot[2];
    static int next;
    struct example *x = &slot[next++ % 2];
    struct lab_err err;
    memset(x, GUARD, sizeof *x);
    x->len = len;
    x->tape = f->task->tape ? f->task->tape(f->self, len) : len;
    if (x->tape < 1 || x->tape > LONG) fail_msg("%s: a tape of %d at length %d", f->task->name, x->tape, len);
    x->e = (struct lab_example){ .in = x->in, .target = x->target, .weight = x->weight, .pos = x->pos, .counted = x->counted };
    for (int t = 0; t < x->tape; t++) x->weight[t] = 1, x->pos[t] = t, x->counted[t] = 1;
    if (f->task->sample(f->self, seed, split, n, len, &x->e, &err) != 0) fail_msg("%s: %s", f->task->name, err.msg);
    int scored = 0, max_pos = f->info.max_pos ? f->info.max_pos : x->tape;
    for (int t = 0; t < x->tape; t++) {
        if (x->in[t] < 0 || x->in[t] >= f->info.vocab_in) fail_msg("%s, length %d: token %d at %d", f->task->name, len, x->in[t], t);
        if (x->target[t] < -1 || x->target[t] >= f->info.vocab_out) fail_msg("%s, length %d: target %d at %d", f->task->name, len, x->target[t], t);
        if (x->pos[t] < 0 || x->pos[t] >= max_pos) fail_msg("%s, length %d: position %d at %d", f->task->name, len, x->pos[t], t);
        if (x->weight[t] != 1) fail_msg("%s: weight %g", f->task->name, (double)x->weight[t]);
        scored += x->target[t] >= 0 && x->counted[t];
    }
    if (!scored) fail_msg("%s, length %d: nothing is scored", f->task->name, len);
    for (int t = x->tape; t < LONG && t < x->tape + MARGIN; t++)
        if (x->in[t] != 0x5a5a5a5a || x->target[t] != 0x5a5a5a5a || x->counted[t] != GUARD) fail_msg("%s, length %d: wrote past the tape", f->task->name, len);
    if (x->e.slice < 0 || x->e.slice >= f->info.max_slice) fail_msg("%s: slice %d of %d", f->task->name, x->e.slice, f->info.max_slice);
    return x;
}

static void expect(int line, int len, const char *what, int found, int expected)
{
    if (found != expected) fail_msg("line %d: length %d: %s is %d, expected %d", line, len, what, found, expected);
}
#define EXPECT(what, found, expected) expect(__LINE__, x->len, what, found, expected)

/* ---- numbers of any size, in limbs of 16 bits, lowest first ---- */

enum { LIMBS = 160 };
struct big { uint32_t limb[LIMBS]; };

static void big_set_bit(struct big *b, int bit) { b->limb[bit / 16] |= 1u << (bit % 16); }
static int big_bit(const struct big *b, int bit) { return b->limb[bit / 16] >> (bit % 16) & 1; }
static struct big big_bits(const int32_t *bit, int n, int high_first)
{
    struct big b = { { 0 } };
    for (int i = 0; i < n; i++) if (bit[high_first ? n - 1 - i : i]) big_set_bit(&b, i);
    return b;
}
static void big_carry(uint64_t *wide, struct big *out)
{
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += wide[i];
        out->limb[i] = carry & 0xffff;
        carry >>= 16;
    }
}
static struct big big_add(const struct big *a, const struct big *b)
{
    uint64_t wide[LIMBS];
    struct big out;
    for (int i = 0; i < LIMBS; i++) wide[i] = (uint64_t)a->limb[i] + b->limb[i];
    big_carry(wide, &out);
    return out;
}
static struct big big_mul(const struct big *a, const struct big *b)
{
    uint64_t wide[LIMBS] = { 0 };
    struct big out;
    for (int i = 0; i < LIMBS; i++) for (int j = 0; a->limb[i] && i + j < LIMBS; j++) wide[i + j] += (uint64_t)a->limb[i] * b->limb[j];
    big_carry(wide, &out);
    return out;
}
static int big_compare(const struct big *a, const struct big *b)
{
    for (int i = LIMBS - 1; i >= 0; i--) if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}
static int big_length(const struct big *b)                       /* bits; 0 has one */
{
    int n = 16 * LIMBS;
    while (n > 1 && !big_bit(b, n - 1)) n--;
    return n;
}

/* ---- DeepMind's tape: inputs, then empty tokens, the answer there ---- */

struct split { const int32_t *in, *out; int inputs, outputs; };
static struct split dm_split(const struct example *x, int inputs, int outputs, int empty)
{
    EXPECT("the tape", x->tape, inputs + outputs);
    for (int t = 0; t < inputs; t++) EXPECT("a target at an input", x->target[t], -1);
    for (int t = inputs; t < x->tape; t++) {
        EXPECT("an empty token", x->in[t], empty);
        if (x->target[t] < 0) fail_msg("an output is not trained on");
    }
    return (struct split){ x->in, x->target + inputs, inputs, outputs };
}
static void all_counted(const struct example *x) { for (int t = 0; t < x->tape; t++) EXPECT("counted", x->counted[t], 1); }
/* The answer's n symbols, 2, zeros; counted up to the 2. */
static void terminated(const struct example *x, const struct split *s, int n)
{
    EXPECT("the terminator", s->out[n], 2);
    for (int i = 0; i < s->outputs; i++) {
        EXPECT("counted", x->counted[s->inputs + i], i <= n);
        if (i > n) EXPECT("padding", s->out[i], 0);
    }
}

static void even_pairs(const struct example *x)
{
    struct split s = dm_split(x, x->len, 1, 2);
    EXPECT("the class", s.out[0], s.in[0] != s.in[x->len - 1]);
    all_counted(x);
}
static void parity(const struct example *x)
{
    struct split s = dm_split(x, x->len, 1, 2);
    int ones = 0;
    for (int i = 0; i < x->len; i++) ones += s.in[i];
    EXPECT("the class", s.out[0], ones % 2);
    all_counted(x);
}
static void cycle_navigation(const struct example *x)
{
    struct split s = dm_split(x, x->len, 1, 3);
    int sum = 0;
    for (int i = 0; i < x->len; i++) sum += s.in[i] - 1;
    EXPECT("the place", s.out[0], ((sum % 5) + 5) % 5);
}
static void reverse_string(const struct example *x)
{
    struct split s = dm_split(x, x->len, x->len, 2);
    for (int i = 0; i < x->len; i++) EXPECT("a symbol", s.out[x->len - 1 - i], s.in[i]);
}
static void duplicate_string(const struct example *x)
{
    struct split s = dm_split(x, x->len, 2 * x->len, 2);
    for (int i = 0; i < 2 * x->len; i++) EXPECT("a symbol", s.out[i], s.in[i % x->len]);
}
static void missing_duplicate(const struct example *x)
{
    struct split s = dm_split(x, x->len, 1, 4);
    int half = x->len / 2, holes = 0;
    if (x->len == 1) {
        EXPECT("the constant", s.in[0], 1);
        EXPECT("its answer", s.out[0], 1);
        return;
    }
    if (x->len % 2) EXPECT("the padding", s.in[x->len - 1], 3);
    for (int i = 0; i < half; i++) {
        int a = s.in[i], b = s.in[half + i];
        if (a == 2 || b == 2) holes++, EXPECT("the hidden bit", s.out[0], a == 2 ? b : a);
        else EXPECT("the second copy", b, a);
    }
    EXPECT("holes", holes, 1);
}
static void odds(const struct example *x, int first)             /* first: 0-based place that comes first */
{
    struct split s = dm_split(x, x->len, x->len, 2);
    int leading = (x->len + 1 - first) / 2;
    for (int i = 0; i < x->len; i++) EXPECT("a symbol", s.out[i % 2 == first ? i / 2 : leading + i / 2], s.in[i]);
}
static void odds_code(const struct example *x) { odds(x, 1); }
static void odds_paper(const struct example *x) { odds(x, 0); }
static int ascending(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }
static void bucket_sort(const struct example *x)
{
    struct split s = dm_split(x, x->len, x->len, 5);
    int32_t sorted[LONG];
    memcpy(sorted, s.in, (size_t)x->len * sizeof *sorted);
    qsort(sorted, (size_t)x->len, sizeof *sorted, ascending);
    assert_memory_equal(s.out, sorted, (size_t)x->len * sizeof *sorted);
}
/* Backwards: from the last action to the first, how many deeper elements are popped, and which push survives. */
static void stack_manipulation(const struct example *x)
{
    struct split s = dm_split(x, x->len, x->len + 1, 5);
    int n = 0, bottom = 0, height, at = 0;
    while (bottom < x->len && s.in[bottom] < 2) bottom++;
    if (bottom < 1) fail_msg("no stack");
    height = bottom;
    int32_t stack[LONG];
    memcpy(stack, s.in, (size_t)bottom * sizeof *stack);
    for (int i = bottom; i < x->len; i++) {
        if (s.in[i] < 2) fail_msg("a bit among the actions");
        if (s.in[i] == 2) height -= height > 0;
        else stack[height++] = s.in[i] == 4;
    }
    for (n = height; at < n; at++) EXPECT("an element", s.out[at], stack[n - 1 - at]);
    terminated(x, &s, n);
}

/* expr := term (('+'|'-') term)*; term := factor ('*' factor)*; factor := digit | '-' factor | '(' expr ')' */
struct parser { const int32_t *at, *end; int open, x; };         /* x: the value behind the hidden digit, token x_token */
enum { X_TOKEN = 9 };
static long parse_sum(struct parser *p);
static long parse_factor(struct parser *p)
{
    if (p->at == p->end) fail_msg("the expression ends too early");
    int32_t t = *p->at++;
    if (t < 5) return t;
    if (t == 6) return -parse_factor(p);
    if (t == X_TOKEN && p->x >= 0) return p->x;
    if (t != p->open) fail_msg("token %d starts no factor", t);
    long value = parse_sum(p);
    if (p->at == p->end || *p->at++ != p->open + 1) fail_msg("a bracket is not closed");
    return value;
}
static long parse_sum(struct parser *p)
{
    long sum = 0, term = parse_factor(p);
    while (p->at < p->end && (*p->at == 5 || *p->at == 6 || (*p->at == 7 && p->open != 7))) {
        int32_t t = *p->at++;
        if (t == 7) term = term * parse_factor(p) % 5;
        else sum += term, term = (t == 5 ? 1 : -1) * parse_factor(p);
        sum %= 5;
    }
    return (sum + term) % 5;
}
static int evaluate(const int32_t *token, int n, int open, int hidden)
{
    struct parser p = { token, token + n, open, hidden };
    long value = parse_sum(&p);
    if (p.at != p.end) fail_msg("the expression goes on after its end");
    return (int)((value % 5 + 5) % 5);
}
static void modular_arithmetic(const struct example *x)
{
    int n = x->len % 2 ? x->len : x->len - 1;
    struct split s = dm_split(x, n < 1 ? 1 : n, 1, 9);
    EXPECT("the value", s.out[0], evaluate(s.in, s.inputs, 100, -1));
}
static void modular_arithmetic_brackets(const struct example *x)
{
    struct split s = dm_split(x, x->len, 1, 11);
    EXPECT("the value", s.out[0], evaluate(s.in, x->len, 8, -1));
}
static void solve_equation(const struct example *x)
{
    struct split s = dm_split(x, x->len, 1, 11);
    int solutions = 0;
    if (x->len < 3) {
        for (int i = 0; i < x->len; i++) EXPECT("a token", s.in[i], 0);
        EXPECT("the answer", s.out[0], 0);
        return;
    }
    EXPECT("the sign before the value", s.in[x->len - 2], 10);
    for (int digit = 0; digit < 5; digit++) {
        if (evaluate(s.in, x->len - 2, 7, digit) != s.in[x->len - 1]) continue;
        solutions++;
        EXPECT("the solution", s.out[0], digit);
    }
    EXPECT("solutions", solutions, 1);
}

/* The numbers of a binary task, and that they are what the definition draws. */
static int operands(const struct example *x, const struct split *s, struct big *a, struct big *b)
{
    int at = 0;
    while (at < x->len && s->in[at] != 2) at++;
    if (x->len <= 2) {
        EXPECT("separators", at, x->len);
        *a = big_bits(s->in, x->len, 0);
        if (big_length(a) == x->len && a->limb[0] == (1u << x->len) - 1) fail_msg("2^len - 1 is not drawn at these lengths");
        return 0;
    }
    if (at < 1 || at > x->len - 2) fail_msg("no second number");
    *a = big_bits(s->in, at, 0);
    *b = big_bits(s->in + at + 1, x->len - 1 - at, 0);
    struct big zero = { { 0 } };
    if (!big_compare(a, &zero) || !big_compare(b, &zero)) fail_msg("a number is 0");
    return 1;
}
static void little_endian(const struct example *x, const struct split *s, const struct big *value)
{
    int n = big_length(value);
    for (int i = 0; i < n; i++) EXPECT("a bit", s->out[i], big_bit(value, i));
    terminated(x, s, n);
}
static void binary_addition(const struct example *x)
{
    struct split s = dm_split(x, x->len, x->len + 1, 3);
    struct big a, b = { { 0 } };
    operands(x, &s, &a, &b);
    struct big sum = big_add(&a, &b);
    little_endian(x, &s, &sum);
}
static void binary_multiplication(const struct example *x)
{
    struct split s = dm_split(x, x->len, x->len, 3);
    struct big a, b, product;
    if (!operands(x, &s, &a, &b)) {
        terminated(x, &s, x->len - 1);
        return;
    }
    product = big_mul(&a, &b);
    little_endian(x, &s, &product);
}
static void compute_sqrt(const struct example *x)
{
    struct split s = dm_split(x, x->len, (x->len + 1) / 2, 2);
    struct big n = big_bits(s.in, x->len, 1), root = big_bits(s.out, s.outputs, 1), one = { { 1 } }, zero = { { 0 } };
    struct big next = big_add(&root, &one), square = big_mul(&root, &root), over = big_mul(&next, &next);
    if (!big_compare(&n, &zero)) fail_msg("0 is not drawn");
    if (big_compare(&square, &n) > 0 || big_compare(&over, &n) <= 0) fail_msg("length %d: not the root", x->len);
}

/* ---- prompt and answer ---- */

struct dialogue { const int32_t *x, *y; int nx, ny; };
/* <bos> x <sep> y, targets y <eos>, then padding; bos = first special.  sep < 0: none. */
static struct dialogue dialogue(const struct example *x, int bos, int sep, int eos, int pad)
{
    struct dialogue d = { x->in + 1, x->in + x->e.prompt, x->e.prompt - 1 - (sep >= 0), 0 };
    EXPECT("the first token", x->in[0], bos);
    if (sep >= 0) EXPECT("the end of the prompt", x->in[x->e.prompt - 1], sep);
    for (int t = 0; t < x->e.prompt - 1; t++) EXPECT("a target in the prompt", x->target[t], -1);
    int t = x->e.prompt - 1;
    for (; t < x->tape && x->target[t] != eos; t++, d.ny++)
        if (t + 1 >= x->tape || x->in[t + 1] != x->target[t]) fail_msg("the target at %d is not the next token", t);
    EXPECT("the last target", x->target[t], eos);
    for (t++; t < x->tape; t++) {
        EXPECT("padding", x->in[t], pad);
        EXPECT("a target of padding", x->target[t], -1);
    }
    for (int i = 0; i < d.nx; i++) if (d.x[i] == bos || d.x[i] == eos || d.x[i] == pad) fail_msg("a special token in x");
    all_counted(x);
    return d;
}
static struct dialogue lacoco(const struct example *x, int symbols) { return dialogue(x, symbols, symbols + 1, symbols + 2, symbols + 3); }
static void majority_of(const struct example *x, const int32_t *bit, int n, int stride, int answer)
{
    int ones = 0;
    for (int i = 0; i < n; i++) ones += bit[i * stride];
    if (2 * ones == n) fail_msg("a tie");
    EXPECT("the majority", answer, 2 * ones > n);
}
static void lacoco_bin_majority(const struct example *x)
{
    struct dialogue d = lacoco(x, 2);
    EXPECT("tokens of x", d.nx, x->len);
    majority_of(x, d.x, d.nx, 1, d.y[0]);
    EXPECT("tokens of y", d.ny, 1);
}
static void lacoco_bin_majority_interleave(const struct example *x)
{
    struct dialogue d = lacoco(x, 2);
    EXPECT("tokens of x", d.nx, x->len - x->len % 3);
    for (int s = 0; s < 3; s++) majority_of(x, d.x + s, d.nx / 3, 3, d.y[s]);
    EXPECT("tokens of y", d.ny, 3);
}
static void lacoco_majority(const struct example *x)
{
    struct dialogue d = lacoco(x, 26);
    EXPECT("tokens of x", d.nx, x->len);
    for (int a = 0, mine = 0; a < 26; a++) {
        int count = 0;
        mine = 0;
        for (int i = 0; i < d.nx; i++) count += d.x[i] == a, mine += d.x[i] == d.y[0];
        if (a != d.y[0] && count >= mine) fail_msg("letter %d occurs %d times, the answer %d", a, count, mine);
    }
}
static void all_different(const struct dialogue *d, int symbols)
{
    for (int i = 0; i < d->nx; i++) {
        if (d->x[i] >= symbols) fail_msg("symbol %d", d->x[i]);
        for (int j = 0; j < i; j++) if (d->x[i] == d->x[j]) fail_msg("symbol %d twice", d->x[i]);
    }
}
static void copied(const struct example *x, const struct dialogue *d)
{
    EXPECT("tokens of x", d->nx, x->len);
    EXPECT("tokens of y", d->ny, x->len);
    for (int i = 0; i < x->len; i++) EXPECT("a symbol", d->y[i], d->x[i]);
}
static void lacoco_unique_copy(const struct example *x)
{
    struct dialogue d = lacoco(x, 500);
    all_different(&d, 500);
    copied(x, &d);
}
static void lacoco_repeat_copy(const struct example *x)
{
    struct dialogue d = lacoco(x, 2);
    copied(x, &d);
}
static void lacoco_sort(const struct example *x)
{
    struct dialogue d = lacoco(x, 500);
    int32_t sorted[LONG];
    all_different(&d, 500);
    EXPECT("tokens of y", d.ny, x->len);
    memcpy(sorted, d.x, (size_t)d.nx * sizeof *sorted);
    qsort(sorted, (size_t)d.nx, sizeof *sorted, ascending);
    assert_memory_equal(d.y, sorted, (size_t)d.nx * sizeof *sorted);
}
static void lacoco_parity(const struct example *x)
{
    struct dialogue d = lacoco(x, 4);
    int ones = 0;
    for (int i = 0; i < d.nx; i++) ones += d.x[i];
    EXPECT("tokens of x", d.nx, x->len);
    EXPECT("the answer", d.y[0], 2 + ones % 2);
}
static void lacoco_addition(const struct example *x)
{
    struct dialogue d = dialogue(x, 4, -1, 6, 7);
    int plus = 0;
    EXPECT("tokens of x", d.nx, x->len);
    EXPECT("the last token of x", d.x[d.nx - 1], 3);
    while (d.x[plus] < 2) plus++;
    int nb = x->len - 2 - plus;
    if ((plus > 1 && !d.x[0]) || (nb > 1 && !d.x[plus + 1])) fail_msg("a leading zero");
    struct big a = big_bits(d.x, plus, 1), b = big_bits(d.x + plus + 1, nb, 1), sum = big_add(&a, &b), y = big_bits(d.y, d.ny, 1);
    EXPECT("the sum", big_compare(&sum, &y), 0);
    EXPECT("its length", d.ny, big_length(&sum));
}

/* Decimal text, highest digit first, into limbs. */
static struct big decimal(const int32_t *digit, int n)
{
    struct big out = { { 0 } }, ten = { { 10 } };
    for (int i = 0; i < n; i++) {
        struct big d = { { (uint32_t)digit[i] } };
        if (digit[i] > 9) fail_msg("token %d is no digit", digit[i]);
        out = big_mul(&out, &ten);
        out = big_add(&out, &d);
    }
    return out;
}
static void mcgill_addition(const struct example *x)
{
    struct dialogue d = dialogue(x, 12, 11, 13, 14);
    int na = 0;
    while (na < d.nx && d.x[na] != 10) na++;
    int nb = d.nx - na - 1;
    EXPECT("the longer operand", na > nb ? na : nb, x->len);
    EXPECT("the slice", x->e.slice, na < nb ? na : nb);
    if ((na > 1 && !d.x[0]) || (nb > 1 && !d.x[na + 1]) || (d.ny > 1 && !d.y[0])) fail_msg("a leading zero");
    struct big a = decimal(d.x, na), b = decimal(d.x + na + 1, nb), sum = big_add(&a, &b), y = decimal(d.y, d.ny);
    EXPECT("the sum", big_compare(&sum, &y), 0);
}
static void coupled_addition(const struct example *x)
{
    struct dialogue d = dialogue(x, 12, 11, 13, 14);
    int32_t y[LONG];
    EXPECT("tokens of x", d.nx, 2 * x->len + 1);
    EXPECT("tokens of y", d.ny, x->len + 1);
    EXPECT("plus", d.x[x->len], 10);
    for (int i = 0; i < d.ny; i++) y[d.ny - 1 - i] = d.y[i];
    struct big a = decimal(d.x, x->len), b = decimal(d.x + x->len + 1, x->len), sum = big_add(&a, &b), found = decimal(y, d.ny);
    EXPECT("the sum", big_compare(&sum, &found), 0);
    /* a digit of weight 10^k has one position wherever it stands; the next higher place has the one below */
    for (int k = 0; k <= x->len; k++) {
        int units = x->pos[x->e.prompt], p = units - k;
        EXPECT("an answer's position", x->pos[x->e.prompt + k], p);
        if (k == x->len) break;
        EXPECT("an operand's position", x->pos[x->len - k], p);
        EXPECT("an operand's position", x->pos[2 * x->len + 1 - k], p);
    }
    EXPECT("the position of bos", x->pos[0], 0);
    EXPECT("the position of +", x->pos[x->len + 1], x->pos[x->len] + 1);
    EXPECT("the position of =", x->pos[2 * x->len + 2], x->pos[x->len] + 1);
}

static struct dialogue mcgill(const struct example *x) { return dialogue(x, 100, 101, 103, 104); }
static void expect_part(const struct example *x, const int32_t *y, const int32_t *s, int n, int backward)
{
    for (int i = 0; i < n; i++) EXPECT("a symbol", y[i], s[backward ? n - 1 - i : i]);
}
static void mcgill_cmc(const struct example *x)
{
    struct dialogue d = mcgill(x);
    copied(x, &d);
}
static void two_parts(const struct example *x, int first_backward, int second_backward)
{
    struct dialogue d = mcgill(x);
    EXPECT("tokens of y", d.ny, 2 * x->len + 1);
    expect_part(x, d.y, d.x, x->len, first_backward);
    EXPECT("between the parts", d.y[x->len], 102);
    expect_part(x, d.y + x->len + 1, d.x, x->len, second_backward);
}
static void mcgill_cmc2x(const struct example *x) { two_parts(x, 0, 0); }
static void mcgill_mc2x(const struct example *x) { two_parts(x, 1, 1); }
static void mcgill_mcrv(const struct example *x) { two_parts(x, 1, 0); }
static void mcgill_mc(const struct example *x)
{
    struct dialogue d = mcgill(x);
    EXPECT("tokens of y", d.ny, x->len);
    expect_part(x, d.y, d.x, x->len, 1);
}
static void repeated(const struct example *x, int times)
{
    struct dialogue d = mcgill(x);
    EXPECT("tokens of x", d.nx, x->len);
    EXPECT("tokens of y", d.ny, times * x->len);
    for (int i = 0; i < d.nx; i++) EXPECT("a symbol of x", d.x[i], d.x[0]);
    for (int i = 0; i < d.ny; i++) EXPECT("a symbol of y", d.y[i], d.x[0]);
}
static void mcgill_rsc(const struct example *x) { repeated(x, 1); }
static void mcgill_rsc2x(const struct example *x) { repeated(x, 2); }
static void mcgill_rdc(const struct example *x)
{
    struct dialogue d = mcgill(x);
    EXPECT("tokens of x", d.nx, x->len + 3);
    EXPECT("a second sep", d.x[2], 101);
    if (d.x[0] == d.x[1]) fail_msg("a symbol replaces itself");
    for (int i = 0; i < x->len; i++) {
        EXPECT("a symbol of x", d.x[3 + i], d.x[0]);
        EXPECT("a symbol of y", d.y[i], d.x[1]);
    }
}

static void mqar(const struct example *x)
{
    int K = x->e.slice, queries = 0;
    EXPECT("the tape", x->tape, x->len / 2 * 2);
    for (int i = 0; i < K; i++) {
        if (x->in[2 * i] < 1 || x->in[2 * i] >= 1024 || x->in[2 * i + 1] < 1024) fail_msg("pair %d is %d, %d", i, x->in[2 * i], x->in[2 * i + 1]);
        for (int j = 0; j < i; j++) if (x->in[2 * i] == x->in[2 * j] || x->in[2 * i + 1] == x->in[2 * j + 1]) fail_msg("a key or value twice");
    }
    for (int t = 0, at; t < x->tape; t++) {
        if (x->target[t] < 0) continue;
        if (t < 2 * K || t % 2) fail_msg("a query at %d", t);
        for (at = 0; at < K && x->in[2 * at] != x->in[t]; at++) {}
        if (at == K) fail_msg("the query at %d is none of the keys", t);
        EXPECT("the value", x->target[t], x->in[2 * at + 1]);
        queries++;
    }
    EXPECT("queries", queries, K);
}

/* ---- lab's own: every position is scored ---- */

static void own_reverse(const struct example *x) { for (int t = 0; t < x->len; t++) EXPECT("a token", x->target[t], x->in[x->len - 1 - t]); }
static void own_copy(const struct example *x) { for (int t = 0; t < x->len; t++) EXPECT("a token", x->target[t], x->in[t]); }
static void own_shift(const struct example *x) { for (int t = 0; t < x->len; t++) EXPECT("a token", x->target[(t + 1) % x->len], x->in[t]); }
/* As many of each symbol as there were, and none smaller than the one before. */
static void own_sort(const struct example *x)
{
    int count[10] = { 0 };
    for (int t = 0; t < x->len; t++) {
        count[x->in[t]]++, count[x->target[t]]--;
        if (t) EXPECT("the order of two neighbours", x->target[t - 1] <= x->target[t], 1);
    }
    for (int symbol = 0; symbol < 10; symbol++) EXPECT("a symbol too many", count[symbol], 0);
}

static const struct {
    const char *plugin, *task, *settings;
    void (*check)(const struct example *);
} kind[] = {
    { "reverse", "reverse", "", own_reverse },
    { "copy", "copy", "", own_copy },
    { "shift", "shift", "", own_shift },
    { "sort", "sort", "", own_sort },
    { "dm_strings", "even_pairs", "", even_pairs },
    { "dm_strings", "parity", "", parity },
    { "dm_strings", "cycle_navigation", "", cycle_navigation },
    { "dm_strings", "reverse_string", "", reverse_string },
    { "dm_strings", "duplicate_string", "", duplicate_string },
    { "dm_strings", "missing_duplicate", "", missing_duplicate },
    { "dm_strings", "odds_first", "", odds_code },
    { "dm_strings", "odds_first", "variant=paper", odds_paper },
    { "dm_strings", "bucket_sort", "", bucket_sort },
    { "dm_strings", "stack_manipulation", "", stack_manipulation },
    { "dm_arithmetic", "modular_arithmetic", "", modular_arithmetic },
    { "dm_arithmetic", "modular_arithmetic_brackets", "", modular_arithmetic_brackets },
    { "dm_arithmetic", "solve_equation", "", solve_equation },
    { "dm_binary", "binary_addition", "", binary_addition },
    { "dm_binary", "binary_multiplication", "", binary_multiplication },
    { "dm_binary", "compute_sqrt", "", compute_sqrt },
    { "lacoco", "lacoco_bin_majority", "", lacoco_bin_majority },
    { "lacoco", "lacoco_bin_majority_interleave", "", lacoco_bin_majority_interleave },
    { "lacoco", "lacoco_majority", "", lacoco_majority },
    { "lacoco", "lacoco_unique_copy", "symbols=500", lacoco_unique_copy },
    { "lacoco", "lacoco_repeat_copy", "", lacoco_repeat_copy },
    { "lacoco", "lacoco_sort", "symbols=500", lacoco_sort },
    { "lacoco", "lacoco_parity", "", lacoco_parity },
    { "lacoco", "lacoco_addition", "", lacoco_addition },
    { "addition", "mcgill_addition", "", mcgill_addition },
    { "addition", "coupled_addition", "max_position=1000", coupled_addition },
    { "mcgill", "mcgill_copy", "", mcgill_cmc },
    { "mcgill", "mcgill_copy", "variant=cmc2x", mcgill_cmc2x },
    { "mcgill", "mcgill_copy", "variant=rsc", mcgill_rsc },
    { "mcgill", "mcgill_copy", "variant=rsc2x", mcgill_rsc2x },
    { "mcgill", "mcgill_copy", "variant=rdc", mcgill_rdc },
    { "mcgill", "mcgill_reverse", "", mcgill_mc },
    { "mcgill", "mcgill_reverse", "variant=mc2x", mcgill_mc2x },
    { "mcgill", "mcgill_reverse", "variant=mcrv", mcgill_mcrv },
    { "mqar", "mqar", "vocab=2048", mqar },
    { "mqar", "mqar", "vocab=2048 pairs=1 pairs_most=2", mqar },
};
enum { N_KIND = sizeof kind / sizeof *kind };

static int examples(int otherwise)
{
    const char *text = getenv("LAB_TEST_EXAMPLES");
    return text ? atoi(text) : otherwise;
}

static void oracles_agree(void **unused)
{
    (void)unused;
    int few = examples(20);
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].plugin, kind[k].task, kind[k].settings);
        if (f.info.max_len < 500) fail_msg("%s goes to length %d only, expected 500", kind[k].task, f.info.max_len);
        for (int len = f.info.min_len; len <= 500; len = len == 64 ? 500 : len + 1)
            for (int n = 0; n < few; n++) kind[k].check(draw(&f, 3, n % 3, n, len));
        free(f.self);
    }
}

static void examples_are_pure(void **unused)
{
    (void)unused;
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].plugin, kind[k].task, kind[k].settings);
        struct example first = *draw(&f, 1, LAB_TEST, 17, 20);
        draw(&f, 2, LAB_TRAIN, 18, 21);
        const struct example *again = draw(&f, 1, LAB_TEST, 17, 20);
        assert_memory_equal(again->in, first.in, sizeof first.in);
        assert_memory_equal(again->target, first.target, sizeof first.target);
        assert_memory_equal(again->counted, first.counted, sizeof first.counted);
        assert_memory_equal(again->pos, first.pos, sizeof first.pos);
        assert_int_equal(again->e.slice, first.e.slice);
        int differ = 0;
        for (int n = 18; n < 30; n++) differ |= memcmp(draw(&f, 1, LAB_TEST, n, 20)->in, first.in, sizeof first.in) != 0;
        if (!differ) fail_msg("%s: all examples are equal", kind[k].task);
        differ = memcmp(draw(&f, 1, LAB_VALID, 17, 20)->in, first.in, sizeof first.in) != 0;
        differ += memcmp(draw(&f, 2, LAB_TEST, 17, 20)->in, first.in, sizeof first.in) != 0;
        differ += memcmp(draw(&f, 1, LAB_TEST, 17 + (1ll << 40), 20)->in, first.in, sizeof first.in) != 0;
        if (!differ) fail_msg("%s: split, seed and the high half of n do not matter", kind[k].task);
        free(f.self);
    }
}

/* ---- the distributions that the definitions state; 99.9 % points, fixed data: no flicker ---- */

static void expect_distribution(const char *what, const int *count, const double *p, int n, double limit)
{
    double chi = 0, all = 0;
    for (int i = 0; i < n; i++) all += count[i];
    for (int i = 0; i < n; i++) chi += pow(count[i] - all * p[i], 2) / (all * p[i]);
    if (!(chi < limit)) fail_msg("%s: chi-square %.1f over %d degrees of freedom, expected below %.1f", what, chi, n - 1, limit);
}

/* The first key's gap: (g+1)^(alpha-1) over all slots, one of them when K = 1; and for a later key, given the first. */
static void expect_gaps(const char *settings, double alpha)
{
    enum { SPACE = 10, N = 40000 };
    struct fixture f = load("mqar", "mqar", settings);
    int first[SPACE] = { 0 }, second[SPACE] = { 0 };
    double p[SPACE], q[SPACE] = { 0 }, all = 0;
    for (int n = 0; n < N; n++) {
        const struct example *x = draw(&f, 0, LAB_TRAIN, n, 2 * SPACE + 4);
        for (int g = 0; g < SPACE; g++) {
            int t = 4 + 2 * g;
            if (x->target[t] >= 0) (x->in[t] == x->in[0] ? first : second)[g]++;
        }
    }
    for (int g = 0; g < SPACE; g++) all += p[g] = pow(g + 1, alpha - 1);
    for (int g = 0; g < SPACE; g++) p[g] /= all;
    for (int g = 0; g < SPACE; g++)
        for (int h = 0; h < SPACE; h++) if (h != g) q[g] += p[h] * p[g] / (1 - p[h]);
    expect_distribution("the first query's gap", first, p, SPACE, 27.9);
    expect_distribution("the second query's gap", second, q, SPACE, 27.9);
    free(f.self);
}
static void mqar_gaps(void **unused)
{
    (void)unused;
    expect_gaps("vocab=2048 pairs=2", 0.01);
    expect_gaps("vocab=2048 pairs=2 alpha=1", 1);                /* all alike */
}

/* Behind the pairs there is noise, which may be a key or a value, or with random_non_queries=no the token 0. */
static void mqar_noise(void **unused)
{
    (void)unused;
    for (int random = 0; random < 2; random++) {
        struct fixture f = load("mqar", "mqar", random ? "vocab=64 pairs=2" : "vocab=64 pairs=2 random_non_queries=no");
        int zero = 0, other = 0;
        for (int n = 0; n < 200; n++) {
            const struct example *x = draw(&f, 0, LAB_TRAIN, n, 32);
            for (int t = 4; t < 32; t++)
                if (x->target[t] < 0) *(x->in[t] ? &other : &zero) += 1;
        }
        if (random) assert_true(zero > 0 && other > 50 * zero / 4);
        else assert_true(zero == 200 * 26 && other == 0);
        free(f.self);
    }
}

static void numbers_of_ones(void **unused)
{
    (void)unused;
    enum { LEN = 9, N = 20000 };
    int ones[3][LEN + 1] = { { 0 } };
    double uniform[LEN + 1], binomial[LEN + 1], choose = 1;
    static const char *const task[][2] = { { "lacoco", "lacoco_parity" }, { "dm_strings", "parity" }, { "lacoco", "lacoco_bin_majority" } };
    for (int k = 0; k < 3; k++) {
        struct fixture f = load(task[k][0], task[k][1], "");
        for (int n = 0; n < N; n++) {
            const struct example *x = draw(&f, 0, LAB_TRAIN, n, LEN);
            int count = 0;
            for (int i = 0; i < LEN; i++) count += x->in[i + (k != 1)];
            ones[k][count]++;
        }
        free(f.self);
    }
    for (int i = 0; i <= LEN; choose = choose * (LEN - i) / (i + 1), i++) uniform[i] = 1.0 / (LEN + 1), binomial[i] = choose / (1 << LEN);
    expect_distribution("lacoco_parity's ones", ones[0], uniform, LEN + 1, 27.9);
    expect_distribution("parity's ones", ones[1], binomial, LEN + 1, 27.9);
    expect_distribution("lacoco_bin_majority's ones", ones[2], uniform, LEN + 1, 27.9);
}

/* Uniform on 1 .. 2^n - 1, and the first operand's length uniform. */
static void binary_numbers(void **unused)
{
    (void)unused;
    enum { LEN = 8, N = 28000 };
    struct fixture f = load("dm_binary", "binary_addition", "");
    int length[6] = { 0 }, value[15] = { 0 };
    double sixth[6], fifteenth[15];
    for (int n = 0; n < N; n++) {
        const struct example *x = draw(&f, 0, LAB_TRAIN, n, LEN);
        int at = 0;
        while (x->in[at] != 2) at++;
        length[at - 1]++;
        if (at == 4) value[x->in[0] + 2 * x->in[1] + 4 * x->in[2] + 8 * x->in[3] - 1]++;
    }
    for (int i = 0; i < 15; i++) fifteenth[i] = 1 / 15.0, sixth[i % 6] = 1 / 6.0;
    expect_distribution("the length of the first operand", length, sixth, 6, 20.5);
    expect_distribution("a number of four bits", value, fifteenth, 15, 36.1);
    free(f.self);
}

/* By hand, from the definitions' own examples where they give one. */
static void known_answers(void **unused)
{
    (void)unused;
    static const int32_t code[] = { 1, 3, 5, 0, 2, 4 }, paper[] = { 0, 2, 4, 1, 3, 5 };   /* places */
    for (int v = 0; v < 2; v++) {
        struct fixture f = load("dm_strings", "odds_first", v ? "variant=paper" : "");
        const struct example *x = draw(&f, 9, LAB_TRAIN, 1, 6);
        for (int i = 0; i < 6; i++) assert_int_equal(x->target[6 + i], x->in[(v ? paper : code)[i]]);
        free(f.self);
    }
    static const struct { const char *plugin, *task; int vocab_in, vocab_out; double chance; } known[] = {
        { "dm_strings", "even_pairs", 3, 2, 0.5 }, { "dm_strings", "cycle_navigation", 4, 5, 0.2 }, { "dm_strings", "bucket_sort", 6, 5, 0.2 },
        { "dm_arithmetic", "modular_arithmetic", 10, 5, 0.2 }, { "dm_arithmetic", "solve_equation", 12, 5, 0.2 },
        { "dm_binary", "binary_addition", 4, 3, 0.5 }, { "dm_binary", "compute_sqrt", 3, 2, 0.5 }, { "mqar", "mqar", 8192, 8192, 0.25 },
        { "lacoco", "lacoco_unique_copy", 154, 154, 1 / 150.0 }, { "mcgill", "mcgill_copy", 105, 105, 0.01 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct fixture f = load(known[i].plugin, known[i].task, "");
        assert_int_equal(f.info.vocab_in, known[i].vocab_in);
        assert_int_equal(f.info.vocab_out, known[i].vocab_out);
        if (fabs(f.info.chance - known[i].chance) > 1e-12) fail_msg("%s: chance %g", known[i].task, f.info.chance);
        assert_int_equal(f.info.version, 1);
        free(f.self);
    }
}

/* Training starts anywhere, evaluation at 1. */
static void coupled_starts(void **unused)
{
    (void)unused;
    struct fixture f = load("addition", "coupled_addition", "max_position=12");
    int seen[13] = { 0 };
    for (int n = 0; n < 400; n++) {
        seen[draw(&f, 0, LAB_TRAIN, n, 5)->pos[1]]++;
        assert_int_equal(draw(&f, 0, LAB_TEST, n, 5)->pos[1], 2);
    }
    for (int p = 0; p <= 12; p++) assert_int_equal(seen[p] > 0, p >= 2 && p <= 7);   /* start 1 .. 12 - 5 - 1 */
    free(f.self);
}

static void mqar_refuses_what_does_not_fit(void **unused)
{
    (void)unused;
    static const struct { const char *vocab, *pairs, *most, *message; } bad[] = {
        { "17", "4", "0", "vocab = 17 is odd" }, { "16", "4", "0", "vocab = 16 is too small for 4 pairs" }, { "64", "4", "2", "pairs_most = 2 is below pairs = 4" } };
    struct fixture f = load("mqar", "mqar", "");
    struct lab_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        option_set(option_find(f.task->options, "vocab"), f.self, bad[i].vocab, &err);
        option_set(option_find(f.task->options, "pairs"), f.self, bad[i].pairs, &err);
        option_set(option_find(f.task->options, "pairs_most"), f.self, bad[i].most, &err);
        assert_int_equal(f.task->init(f.self, &f.info, &err), -1);
        if (!strstr(err.msg, bad[i].message)) fail_msg("'%s', expected '%s'", err.msg, bad[i].message);
    }
    free(f.self);
}

static void lengths_out_of_range_are_refused(void **unused)
{
    (void)unused;
    static struct example x;
    x.e = (struct lab_example){ .in = x.in, .target = x.target, .weight = x.weight, .pos = x.pos, .counted = x.counted };
    for (int k = 0; k < N_KIND; k++) {
        struct fixture f = load(kind[k].plugin, kind[k].task, kind[k].settings);
        struct lab_err err = { "" };
        assert_int_equal(f.task->sample(f.self, 0, LAB_TRAIN, 0, f.info.min_len - 1, &x.e, &err), -1);
        if (!strstr(err.msg, "length ")) fail_msg("%s says '%s'", kind[k].task, err.msg);
        assert_int_equal(f.task->sample(f.self, 0, LAB_TRAIN, 0, f.info.max_len + 1, &x.e, &err), -1);
        free(f.self);
    }
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(oracles_agree), cmocka_unit_test(examples_are_pure), cmocka_unit_test(mqar_gaps), cmocka_unit_test(mqar_noise), cmocka_unit_test(numbers_of_ones),
        cmocka_unit_test(binary_numbers), cmocka_unit_test(known_answers), cmocka_unit_test(coupled_starts),
        cmocka_unit_test(mqar_refuses_what_does_not_fit), cmocka_unit_test(lengths_out_of_range_are_refused) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
