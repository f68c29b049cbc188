/* test_optim -- learning-rate schedules against their formulas.  (Updates are checked against PyTorch in test_golden.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include "nn/optim.h"

static void schedules(void **unused)
{
    (void)unused;
    enum { WARM = 10, STEPS = 110 };
    static const struct { int schedule, step; double expected; } row[] = {
        { OPTIM_CONSTANT, 0, 0.2 }, { OPTIM_CONSTANT, 9, 2 }, { OPTIM_CONSTANT, 109, 2 },
        { OPTIM_COSINE, 0, 0.2 },   { OPTIM_COSINE, 10, 2 },  { OPTIM_COSINE, 60, 1 },
        { OPTIM_LINEAR, 4, 1 },     { OPTIM_LINEAR, 10, 2 },  { OPTIM_LINEAR, 35, 1.5 }, { OPTIM_LINEAR, 109, 0.02 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct optim_options o = { .lr = 2, .warmup = WARM, .schedule = row[i].schedule, .steps = STEPS };
        double found = optim_lr(&o, row[i].step);
        if (fabs(found - row[i].expected) > 1e-12) fail_msg("schedule %d, step %d: %g, expected %g", row[i].schedule, row[i].step, found, row[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest test[] = { cmocka_unit_test(schedules) };
    return cmocka_run_group_tests(test, NULL, NULL);
}
