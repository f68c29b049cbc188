/* about -- what `lab doctor` asks of the store: which SQLite this is, what is wrong with it, and where a database would lie. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "store/db.h"

const char *store_sqlite(void) { return sqlite3_libversion(); }

/* https://sqlite.org/wal.html, "The WAL-Reset Bug": in 3.7.0 to 3.51.2, mended in 3.51.3, and in 3.44.6 and 3.50.7 of the older lines. */
static int has_wal_reset_bug(int version)
{
    static const struct { int from, mended, line_end; } line[] = {
        { 3007000, 3044006, 3045000 }, { 3045000, 3050007, 3051000 }, { 3051000, 3051003, 3052000 } };
    for (size_t i = 0; i < sizeof line / sizeof *line; i++)
        if (version >= line[i].from && version < line[i].line_end) return version < line[i].mended;
    return 0;
}

const char *store_sqlite_bug(int version)
{
    if (version == 0) version = sqlite3_libversion_number();
    return has_wal_reset_bug(version) ? "the WAL-reset bug: two processes that write or tidy up one database in the same instant may damage it" : NULL;
}

void store_network(const char *folder, char type[32])
{
    struct stat st;
    type[0] = '\0';
    if (stat(folder, &st) == 0) db_network("/proc/self/mountinfo", major(st.st_dev), minor(st.st_dev), type);
}
