/* replay -- a fuzz target without a fuzzer: runs it on the files and folders given, and on every beginning of each file. */
#include "fuzz/fuzz.h"
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

enum { WHOLE_PREFIXES = 4096 };      /* of longer files, beginnings at powers of two and around the end */
static long n_runs;

static void run(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);               /* exactly n bytes, so that a sanitizer or valgrind sees the end */
    if (!copy) exit(1);
    memcpy(copy, bytes, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    n_runs++;
}

static int run_file(const char *path)
{
    static uint8_t bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) return fprintf(stderr, "%s: cannot be read\n", path), -1;
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t k = 0; k <= n; k++)
        if (n <= WHOLE_PREFIXES || k + 16 > n || !(k & (k - 1))) run(bytes, k);
    return 0;
}

static int run_path(const char *path)
{
    struct stat st;
    char name[4096];
    int rc = 0;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return run_file(path);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir)); ) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.') rc = run_file(name);
    }
    if (dir) closedir(dir);
    return dir ? rc : -1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) if (run_path(argv[i]) != 0) return 1;
    printf("%ld inputs\n", n_runs);
    return n_runs ? 0 : 1;
}
