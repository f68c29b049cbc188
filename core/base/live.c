/* live -- see live.h. */
#include "base/live.h"
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GAP = 2,                      /* blanks between columns */
       WIDE_CURVE = 16, SMALL_CURVE = 8, SHORT_NAME = 12 };

/* ---- the curve ---- */

void live_loss(struct live_worker *w, double loss)
{
    if (w->n_loss == LIVE_POINTS) memmove(w->loss, w->loss + 1, sizeof *w->loss * (size_t)--w->n_loss);
    w->loss[w->n_loss++] = loss;
}

/* Mean of the points that share a cell. */
static double cell_of(const double *loss, int n, int cells, int cell)
{
    int from = cell * n / cells, to = (cell + 1) * n / cells;
    double sum = 0;
    for (int i = from; i < to; i++) sum += loss[i];
    return sum / (to - from);
}

void live_curve(struct str *out, const double *loss, int n, int cells, int utf8)
{
    static const char *const block[] = { "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588" };
    static const char *const ink[] = { "_", ".", "-", ":", "=", "+", "*", "#" };
    enum { LEVELS = sizeof block / sizeof *block };
    double low = INFINITY, high = -INFINITY;
    if (cells > n) cells = n;
    for (int i = 0; i < cells; i++) {
        double x = cell_of(loss, n, cells, i);
        if (isfinite(x)) low = fmin(low, x), high = fmax(high, x);
    }
    for (int i = 0; i < cells; i++) {
        double x = cell_of(loss, n, cells, i);
        int level = !isfinite(x) || high <= low ? 0 : (int)((x - low) / (high - low) * (LEVELS - 1) + 0.5);
        str_add(out, !isfinite(x) ? "!" : (utf8 ? block : ink)[level]);
    }
}

int live_is_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    int utf8 = locale && !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");
    if (locale) freelocale(locale);
    return utf8;
}

/* ---- the lines ---- */

enum field { NAME, STEP, LOSS, CURVE, RATE, LEFT, NOTE, N_FIELD };
struct layout { int width[N_FIELD], curve; };        /* columns of each field, 0: left out; cells of the curve */

/* A byte that starts a character; others than ASCII may be two columns wide, and are counted so. */
static int columns_at(const char *p) { return ((unsigned char)*p & 0xc0) == 0x80 ? 0 : (unsigned char)*p < 0x80 ? 1 : 2; }

static int columns_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += columns_at(text);
    return n;
}

static void field_text(struct str *out, const struct live_worker *w, enum field f, int curve, int utf8)
{
    str_clear(out);
    switch (f) {
    case NAME: str_add(out, w->name); break;
    case STEP: str_printf(out, "%lld/%lld", (long long)w->step, (long long)w->steps); break;
    case LOSS: if (w->n_loss) str_printf(out, isfinite(w->loss[w->n_loss - 1]) ? "%.4f" : "%g", w->loss[w->n_loss - 1]); break;
    case CURVE: live_curve(out, w->loss, w->n_loss, curve, utf8); break;
    case RATE: if (w->rate > 0) str_printf(out, w->rate < 10 ? "%.1f steps/s" : "%.0f steps/s", w->rate); break;
    case LEFT:
        if (w->left < 0) break;
        str_duration(out, w->left);
        str_add(out, " left");
        break;
    case NOTE: str_add(out, w->note); break;
    case N_FIELD: break;
    }
}

static int total(const struct layout *l)
{
    int n = -GAP;
    for (int f = 0; f < N_FIELD; f++) if (l->width[f]) n += l->width[f] + GAP;
    return n;
}

/* What goes where there is no room, one after the other: a small curve does, then numbers, then the end of the name. */
static void make_room(struct layout *l, int width)
{
    static const enum field before[] = { RATE, LOSS, LEFT }, after[] = { CURVE, STEP };
    if (total(l) > width) l->width[NOTE] = 0;
    if (total(l) > width && l->width[CURVE] > SMALL_CURVE) l->width[CURVE] = l->curve = SMALL_CURVE;
    for (size_t i = 0; i < sizeof before / sizeof *before && total(l) > width; i++) l->width[before[i]] = 0;
    for (size_t i = 0; i < sizeof after / sizeof *after && total(l) - l->width[NAME] + SHORT_NAME > width; i++) l->width[after[i]] = 0;
    if (total(l) > width) l->width[NAME] -= total(l) - width;
    if (l->width[NAME] < 0) l->width[NAME] = 0;
}

static struct layout lay_out(const struct live_worker *w, int n, int width, int utf8)
{
    struct layout l = { .curve = WIDE_CURVE };
    struct str text = { 0 };
    for (int i = 0; i < n; i++)
        for (int f = 0; f < N_FIELD; f++) {
            field_text(&text, &w[i], (enum field)f, l.curve, utf8);
            int columns = f == CURVE ? (w[i].n_loss < l.curve ? w[i].n_loss : l.curve) : columns_of(str_text(&text));
            if (columns > l.width[f]) l.width[f] = columns;
        }
    str_free(&text);
    make_room(&l, width);
    return l;
}

static void pad(struct str *out, int n) { if (n > 0) str_printf(out, "%*s", n, ""); }

static void add_field(struct str *out, const struct layout *l, enum field f, const char *text, int columns)
{
    static const unsigned char right[N_FIELD] = { [STEP] = 1, [LOSS] = 1, [RATE] = 1, [LEFT] = 1 };
    if (right[f]) pad(out, l->width[f] - columns);
    str_add(out, text);
    if (!right[f]) pad(out, l->width[f] - columns);
}

static void add_name(struct str *out, const struct layout *l, const char *name)
{
    int n = 0, columns = 0;
    for (; name[n] && columns + columns_at(name + n) <= l->width[NAME]; n++) columns += columns_at(name + n);
    str_addn(out, name, (size_t)n);
    pad(out, l->width[NAME] - columns);
}

void live_lines(struct str *out, const struct live_worker *w, int n, int width, int utf8)
{
    struct layout l = lay_out(w, n, width, utf8);
    struct str text = { 0 };
    for (int i = 0; i < n; i++) {
        size_t start = out->len;
        for (int f = 0; f < N_FIELD; f++) {
            if (!l.width[f]) continue;
            if (out->len > start) pad(out, GAP);
            field_text(&text, &w[i], (enum field)f, l.curve, utf8);
            int cells = w[i].n_loss < l.curve ? w[i].n_loss : l.curve;
            if (f == NAME) add_name(out, &l, w[i].name);
            else add_field(out, &l, (enum field)f, str_text(&text), f == CURVE ? cells : columns_of(str_text(&text)));
        }
        while (out->len > start && out->text[out->len - 1] == ' ') out->text[--out->len] = '\0';
        str_add(out, "\n");
    }
    out->failed |= text.failed;
    str_free(&text);
}

/* ---- time ---- */

double live_left(double *desk, int n_desk, const double *queue, size_t n)
{
    double last = 0;
    for (size_t i = 0; i < n && n_desk > 0; i++) {
        int first = 0;
        for (int k = 1; k < n_desk; k++) if (desk[k] < desk[first]) first = k;
        desk[first] += queue[i];
    }
    for (int k = 0; k < n_desk; k++) last = fmax(last, desk[k]);
    return last;
}
