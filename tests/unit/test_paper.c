/* test_paper -- the section [paper]: what it holds, and what is refused with the line and the cure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "exp/paper.h"

static int read_text(struct paper *p, struct conf *c, const char *text, struct lab_err *err)
{
    if (conf_read_text(c, "p.ini", text, strlen(text), err) != 0) fail_msg("%s", err->msg);
    return paper_read(p, c, err);
}

static void cells_are_read(void **unused)
{
    (void)unused;
    struct paper p;
    struct conf c;
    struct lab_err err = { "" };
    const char *text = "[paper]\nsource = table 1\nmetric = sequence\nseeds = max\nrope.51-100 = 0.99, 0.02\nsort.t5.64 = 1,0\norder.9-16 = none >t5> rope\n";
    if (read_text(&p, &c, text, &err) != 0) fail_msg("%s", err.msg);
    assert_string_equal(p.source, "table 1");
    assert_int_equal(p.metric, PAPER_SEQUENCE);
    assert_int_equal(p.seeds, PAPER_MAX);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.cell[0].task, "");
    assert_string_equal(p.cell[0].encoder[0], "rope");
    assert_int_equal(p.cell[0].lo, 51);
    assert_int_equal(p.cell[0].hi, 100);
    assert_true(p.cell[0].value == 0.99 && p.cell[0].band == 0.02);
    assert_string_equal(p.cell[1].task, "sort");
    assert_string_equal(p.cell[1].encoder[0], "t5");
    assert_int_equal(p.cell[1].lo, 64);
    assert_int_equal(p.cell[1].hi, 64);
    assert_int_equal(p.cell[2].n, 3);
    assert_string_equal(p.cell[2].encoder[0], "none");
    assert_string_equal(p.cell[2].encoder[2], "rope");
    paper_free(&p);
    conf_free(&c);
    if (read_text(&p, &c, "[train]\nlr = 1\n", &err) != 0) fail_msg("%s", err.msg);
    assert_int_equal(p.n, 0);
    conf_free(&c);
}

static void refusals(void **unused)
{
    (void)unused;
    static const struct { const char *line, *message; } bad[] = {
        { "sorce = x", "p.ini:3: unknown key 'sorce' in [paper]; it has source" }, { "metric = loss", "p.ini:3: metric" },
        { "rope.9-5 = 1, 0", "p.ini:3: unknown key 'rope.9-5'" }, { "rope.a-5 = 1, 0", "p.ini:3: unknown key 'rope.a-5'" }, { "a.b.c.5 = 1, 0", "p.ini:3: 'a.b.c.5': expected" },
        { "rope.5 = 1", "p.ini:3: rope.5 = 1: expected a value and a band" }, { "rope.5 = 99, 1", "p.ini:3: rope.5 = 99, 1: expected" },
        { "rope.5 = 0.5, x", "p.ini:3: rope.5 = 0.5, x: expected" }, { "order.5 = rope", "an order has two names at least" },
        { "order.5 = rope > ", "expected names with > between" }, { "order.5 = rope t5", "expected names with > between" },
        { "order.5 = a>b>c>d>e>f>g>h>i", "too many names; the limit is 8" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct paper p;
        struct conf c;
        struct lab_err err = { "" };
        char text[128];
        snprintf(text, sizeof text, "[paper]\nsource = x\n%s\n", bad[i].line);
        assert_int_equal(read_text(&p, &c, text, &err), -1);
        if (!strstr(err.msg, bad[i].message)) fail_msg("%s: '%s', expected '%s'", bad[i].line, err.msg, bad[i].message);
        conf_free(&c);
    }
    struct paper p;
    struct conf c;
    struct lab_err err = { "" };
    assert_int_equal(read_text(&p, &c, "[paper]\nrope.5 = 1, 0\n", &err), -1);
    assert_non_null(strstr(err.msg, "[paper] has no source"));
    conf_free(&c);
}

/* A cell that speaks of nothing that is run is a mistake of the file, found before anything starts. */
static void cells_must_be_run(void **unused)
{
    (void)unused;
    static const struct { const char *cell, *message; } row[] = {
        { "rope.5-12 = 1, 0", NULL }, { "copy.rope.12 = 1, 0", NULL }, { "order.12 = rope > none", NULL },
        { "t5.12 = 1, 0", "p.ini:10: [paper] t5.12: no run with t5 is evaluated at a length in 12..12" },
        { "rope.13-20 = 1, 0", "no run with rope is evaluated at a length in 13..20" },
        { "sort.rope.12 = 1, 0", "no run with rope and task sort is evaluated at a length in 12..12" } };
    static const char *const folder[] = { TEST_BUILD "/plugins/encoders", TEST_BUILD "/plugins/tasks" };
    struct registry registry;
    struct lab_err err = { "" };
    if (registry_load(&registry, folder, 2, &err) != 0) fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct conf c;
        struct sweep s;
        char text[256];
        snprintf(text, sizeof text, "[sweep]\nencoder = none, rope\ntask = copy\n[train]\nlength = 8\n[eval]\nlengths = 8, 12\n[paper]\nsource = x\n%s\n", row[i].cell);
        if (conf_read_text(&c, "p.ini", text, strlen(text), &err) != 0) fail_msg("%s", err.msg);
        int rc = sweep_build(&s, &c, &registry, &err);
        if (rc != (row[i].message ? -1 : 0)) fail_msg("%s: %d, %s", row[i].cell, rc, err.msg);
        if (row[i].message && !strstr(err.msg, row[i].message)) fail_msg("'%s', expected '%s'", err.msg, row[i].message);
        if (rc == 0) sweep_free(&s);
        conf_free(&c);
    }
    registry_free(&registry);
}

int main(void)
{
    const struct CMUnitTest test[] = { cmocka_unit_test(cells_are_read), cmocka_unit_test(refusals), cmocka_unit_test(cells_must_be_run) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
