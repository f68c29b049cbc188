/* fuzz_query -- names of saved queries.  A name is looked up in a list and never becomes part of a path: whatever is asked for,
 * only the names of files in results/queries get as far as the database, which is not there. */
#include "fuzz/fuzz.h"
#include <string.h>
#include <unistd.h>
#include "base/str.h"
#include "cli/cmd.h"

static int is_query_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n && !text[n];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct cmd cmd = { .name = "query", .arguments = "", .summary = "", .example = "" };
    struct str name = { 0 };
    if (chdir(TEST_BUILD "/../..") != 0) exit(1);
    str_add(&name, "@");
    str_addn(&name, data, size);
    char *argv[] = { (char *)"query", name.text, (char *)"--db", (char *)"nowhere/lab.db", NULL };
    int code = cmd_query(&cmd, 4, argv);
    MUST(code == EXIT_DATABASE || code == EXIT_USAGE);
    MUST(code == EXIT_USAGE || is_query_name(name.text + 1));
    MUST(code == EXIT_DATABASE || strcmp(name.text, "@compare_encoders"));
    str_free(&name);
    return 0;
}
