/* test_colours -- the colours of the report's lines, read from its style sheet: told apart by eyes that miss a kind of cone, and
 * seen against the page.  Markers differ in shape too, so colour is never all there is.
 *
 * Colour blindness as Machado, Oliveira and Fernandes 2009 (A Physiologically-based Model for Simulation of Color Vision
 * Deficiency) give it at full severity, on linear RGB; differences as CIE 1976 in L*a*b* under D65, where 2.3 is just
 * noticeable side by side; contrast as WCAG 2.1 defines it, which asks for 3 of lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLOURS = 8 };
#define APART 25.0                   /* of any two lines for any eyes */
#define CONTRAST 3.0

static const struct { const char *eyes; double m[3][3]; } vision[] = {
    { "all cones", { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } } },
    { "protanopia", { { 0.152286, 1.052583, -0.204868 }, { 0.114503, 0.786281, 0.099216 }, { -0.003882, -0.048116, 1.051998 } } },
    { "deuteranopia", { { 0.367322, 0.860646, -0.227968 }, { 0.280085, 0.672501, 0.047413 }, { -0.011820, 0.042940, 0.968881 } } },
    { "tritanopia", { { 1.255528, -0.076749, -0.178779 }, { -0.078411, 0.930809, 0.147602 }, { 0.004733, 0.691367, 0.303900 } } } };
enum { N_VISION = sizeof vision / sizeof *vision };

struct rgb { double v[3]; };         /* linear, 0 to 1 */

static double linear(int byte)
{
    double x = byte / 255.0;
    return x <= 0.04045 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4);
}

/* "--name:#rgb" or "#rrggbb" at its n-th place in the sheet: by day, in the dark. */
static struct rgb colour(const char *css, const char *name, int place)
{
    char what[16];
    unsigned r, g, b;
    snprintf(what, sizeof what, "--%s:#", name);
    for (css = strstr(css, what); css && place-- > 0; ) css = strstr(css + 1, what);
    if (!css) fail_msg("the style sheet has no --%s", name);
    css += strlen(what);
    if (strspn(css, "0123456789abcdef") >= 6) sscanf(css, "%2x%2x%2x", &r, &g, &b);
    else sscanf(css, "%1x%1x%1x", &r, &g, &b), r *= 17, g *= 17, b *= 17;
    return (struct rgb){ { linear((int)r), linear((int)g), linear((int)b) } };
}

static struct rgb seen_by(int eyes, struct rgb c)
{
    struct rgb out = { { 0 } };
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) out.v[i] += vision[eyes].m[i][k] * c.v[k];
        out.v[i] = fmin(1, fmax(0, out.v[i]));
    }
    return out;
}

static double luminance(struct rgb c) { return 0.2126 * c.v[0] + 0.7152 * c.v[1] + 0.0722 * c.v[2]; }

static double lab_f(double t) { return t > 216.0 / 24389 ? cbrt(t) : (24389.0 / 27 * t + 16) / 116; }

static void to_lab(struct rgb c, double lab[3])
{
    double x = lab_f((0.4124564 * c.v[0] + 0.3575761 * c.v[1] + 0.1804375 * c.v[2]) / 0.95047);
    double y = lab_f(0.2126729 * c.v[0] + 0.7151522 * c.v[1] + 0.0721750 * c.v[2]);
    double z = lab_f((0.0193339 * c.v[0] + 0.1191920 * c.v[1] + 0.9503041 * c.v[2]) / 1.08883);
    lab[0] = 116 * y - 16, lab[1] = 500 * (x - y), lab[2] = 200 * (y - z);
}

static double difference(struct rgb a, struct rgb b)
{
    double p[3], q[3];
    to_lab(a, p), to_lab(b, q);
    return sqrt((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1]) + (p[2] - q[2]) * (p[2] - q[2]));
}

static const char *sheet(void)
{
    static char text[32768];
    FILE *f = fopen("core/answer/report.css", "r");
    if (!f) fail_msg("core/answer/report.css cannot be read: run from the top of the source");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void the_measures_are_right(void **state)
{
    (void)state;
    struct rgb white = { { 1, 1, 1 } }, black = { { 0, 0, 0 } }, red = { { 1, 0, 0 } };
    double lab[3];
    to_lab(red, lab);                                                    /* L* 53.24, a* 80.09, b* 67.20 */
    assert_true(fabs(lab[0] - 53.24) < 0.01 && fabs(lab[1] - 80.09) < 0.01 && fabs(lab[2] - 67.20) < 0.01);
    assert_true(fabs(difference(white, black) - 100) < 0.01);
    assert_true(fabs(linear(0x80) - 0.21586) < 1e-5);
}

static void no_two_lines_look_alike(void **state)
{
    (void)state;
    const char *css = sheet();
    for (int dark = 0; dark < 2; dark++)
        for (int eyes = 0; eyes < N_VISION; eyes++) {
            double nearest = INFINITY;
            int pair[2] = { 0, 0 };
            for (int i = 0; i < COLOURS; i++)
                for (int k = 0; k < i; k++) {
                    double d = difference(seen_by(eyes, colour(css, (char[]){ 's', (char)('0' + i), 0 }, dark)),
                                          seen_by(eyes, colour(css, (char[]){ 's', (char)('0' + k), 0 }, dark)));
                    if (d < nearest) nearest = d, pair[0] = k, pair[1] = i;
                }
            print_message("             %s, %s: the nearest, s%d and s%d, are %.1f apart\n", dark ? "dark" : "light", vision[eyes].eyes, pair[0], pair[1], nearest);
            if (nearest < APART) fail_msg("%s, %s: s%d and s%d are %.1f apart, less than %g", dark ? "dark" : "light", vision[eyes].eyes, pair[0],
                                          pair[1], nearest, APART);
        }
}

static void every_line_stands_out_from_the_page(void **state)
{
    (void)state;
    const char *css = sheet();
    for (int dark = 0; dark < 2; dark++) {
        double paper = luminance(colour(css, "paper", dark));
        for (int i = 0; i < COLOURS; i++) {
            double ink = luminance(colour(css, (char[]){ 's', (char)('0' + i), 0 }, dark));
            double contrast = (fmax(ink, paper) + 0.05) / (fmin(ink, paper) + 0.05);
            if (contrast < CONTRAST) fail_msg("%s: s%d has a contrast of %.2f, less than %g", dark ? "dark" : "light", i, contrast, CONTRAST);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_measures_are_right), cmocka_unit_test(no_two_lines_look_alike), cmocka_unit_test(every_line_stands_out_from_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
