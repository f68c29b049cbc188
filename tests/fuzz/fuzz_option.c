/* fuzz_option -- values of options: the first byte chooses a row of the host's tables or of one with every type, the rest is
 * the value.  What is accepted is printed so that it reads back to the same bits, and lies within the row's bounds. */
#include "fuzz/fuzz.h"
#include <math.h>
#include <string.h>
#include "exp/config.h"

struct every { int32_t whole, yes, choice; double real; const char *text; struct option_range range; struct option_list list; };
static const struct lab_option every_table[] = {
    LAB_INT(struct every, whole, "0", -2147483647, 2147483647, "w"), LAB_REAL(struct every, real, "0", -1e308, 1e308, "r"), LAB_BOOL(struct every, yes, "no", "b"),
    LAB_ENUM(struct every, choice, "a", "a|ab|abc", "c"), LAB_STR(struct every, text, "", "t"), OPTION_RANGE_ROW(struct every, range, "1", 0, 2147483647, "g"),
    OPTION_LIST_ROW(struct every, list, "1", 0, 2147483647, "l"), LAB_OPTIONS_END };

union self { struct every every; struct model_options model; struct train_options train; struct eval_options eval; struct limits_options limits; };

static const struct lab_option *row_of(uint8_t choice)
{
    const struct lab_option *const table[] = { every_table, config_model_table, config_train_table, config_eval_table, config_limits_table };
    const struct lab_option *row[256];
    int n = 0;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) for (const struct lab_option *o = table[t]; o->name; o++) row[n++] = o;
    return row[choice % n];
}

static void check_real(const struct lab_option *row, const union self *self)
{
    double x;
    memcpy(&x, (const char *)self + row->off, sizeof x);
    MUST(isfinite(x) && x >= row->lo && x <= row->hi);
}

static void check_list(const struct lab_option *row, const union self *self)
{
    const struct option_list *l = (const struct option_list *)((const char *)self + row->off);
    MUST(l->n >= 1 && l->n <= OPTION_LIST_MAX);
    for (int i = 0; i < l->n; i++) MUST(l->v[i] >= row->lo && l->v[i] <= row->hi);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static union self first, second;
    struct lab_err err = { "" };
    struct str printed = { 0 }, again = { 0 }, json = { 0 }, value = { 0 };
    if (size < 1) return 0;
    const struct lab_option *row = row_of(data[0]);
    str_addn(&value, data + 1, size - 1);
    if (option_set(row, &first, str_text(&value), &err) != 0) { MUST(*err.msg); str_free(&value); return 0; }
    if (row->type == LAB_T_REAL) check_real(row, &first);
    if ((int)row->type == OPTION_LIST) check_list(row, &first);
    option_print(&printed, row, &first);
    option_print_json(&json, row, &first);
    MUST(option_set(row, &second, str_text(&printed), &err) == 0);
    option_print(&again, row, &second);
    MUST(!strcmp(str_text(&printed), str_text(&again)));
    str_free(&printed);
    str_free(&again);
    str_free(&json);
    str_free(&value);
    return 0;
}
