/* cmd_doctor -- lab doctor: does this machine, and what lab was built from and finds here, let it do its work?
 *
 * One line for each thing looked at: ok, warn or fail, what was found, and for the last two what to do.  It measures
 * nothing, changes nothing, and writes nothing, not even a file to see whether it could.
 */
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "answer/table.h"
#include "base/clock.h"
#include "build.h"
#include "cli/cmd.h"
#include "exp/env.h"
#include "nn/gemm.h"
#include "nn/kern.h"
#include "nn/linear.h"
#include "run/sched.h"

enum level { OK, WARN, FAIL };
static const char *const level_name[] = { "ok", "warn", "fail" };

struct doctor {
    const char *db;
    const struct cli_many *plugin;
    int json, count[FAIL + 1];
    struct str out;
};

/* What was found, and what to do about it; advice NULL exactly if level is OK. */
__attribute__((format(printf, 5, 6)))
static void say(struct doctor *d, enum level level, const char *check, const char *advice, const char *fmt, ...)
{
    char found[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(found, sizeof found, fmt, ap);
    va_end(ap);
    int first = !(d->count[OK] + d->count[WARN] + d->count[FAIL]);
    d->count[level]++;
    if (d->json) {
        str_printf(&d->out, "%s{\"check\": \"%s\", \"state\": \"%s\", \"found\": ", first ? "\n" : ",\n", check, level_name[level]);
        str_json(&d->out, found);
        str_add(&d->out, ", \"advice\": ");
        if (advice) str_json(&d->out, advice);
        else str_add(&d->out, "null");
        str_add(&d->out, "}");
        return;
    }
    str_printf(&d->out, "%-5s %-10s ", level_name[level], check);
    table_show(&d->out, found);
    if (advice) str_add(&d->out, "\n                 -> "), table_show(&d->out, advice);
    str_add(&d->out, "\n");
}

/* The first line of a file of /proc or /sys, without its end; 0 if there is none. */
static int read_line(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "re");
    int got = f && fgets(line, size, f);
    if (f) fclose(f);
    if (got) line[strcspn(line, "\n")] = '\0';
    return got;
}

/* ---- the program and the system ---- */

static void check_program(struct doctor *d)
{
    struct utsname name = { .sysname = "unknown" };
    uname(&name);
    say(d, OK, "lab", NULL, "%s, commit %.12s%s, %s, plugins of ABI %u.%u, %s precision", LAB_VERSION, BUILD_COMMIT,
        BUILD_DIRTY ? " with changes" : "",
        BUILD_COMPILER, LAB_ABI_MAJOR, LAB_ABI_MINOR, sizeof(lab_real) == sizeof(double) ? "double" : "single");
    say(d, OK, "system", NULL, "%s %s on %s, glibc %s", name.sysname, name.release, name.machine, gnu_get_libc_version());
}

static void check_sqlite(struct doctor *d)
{
    const char *bug = store_sqlite_bug(0);
    if (!bug) say(d, OK, "sqlite", NULL, "%s", store_sqlite());
    else say(d, WARN, "sqlite", "let one `lab run` at a time work on a database, or install SQLite 3.51.3 or later (unless your system's package is "
             "mended: see its changelog)", "%s has %s", store_sqlite(), bug);
}

static int has_avx2(void)
{
    for (const struct kern *const *k = kern_all(); *k; k++) if (!strcmp((*k)->isa, "avx2")) return 1;
    return 0;
}

static void check_blas(struct doctor *d)
{
    static const char *const old[] = { "Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Katmai", "Generic", "GENERIC" };
    const char *library = gemm_library(), *core = strrchr(library, ' '), *forced = getenv("OPENBLAS_CORETYPE");
    core = core ? core + 1 : library;
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (!strcmp(core, old[i]) && has_avx2()) {
            say(d, WARN, "blas", forced ? "unset OPENBLAS_CORETYPE" : "OPENBLAS_CORETYPE=Haswell may make training several times faster; try `lab bench` with it",
                "%s: slower kernels than this processor can use (it has avx2)%s%.40s", library, forced ? ", by OPENBLAS_CORETYPE=" : "", forced ? forced : "");
            return;
        }
    say(d, OK, "blas", NULL, "%s%s%.40s", library, forced ? ", by OPENBLAS_CORETYPE=" : "", forced ? forced : "");
}

static void check_simd(struct doctor *d)
{
    const struct kern *picked;
    struct lab_err err;
    struct str has = { 0 };
    const char *best = "";
    for (const struct kern *const *k = kern_all(); *k; k++) str_printf(&has, "%s%s", has.len ? ", " : "", best = (*k)->isa);
    if (kern_pick(&picked, &err) != 0) say(d, FAIL, "simd", "unset LAB_SIMD", "%s", err.msg);
    else if (linear_check(&err) != 0) say(d, FAIL, "simd", "unset LAB_GEMM", "%s", err.msg);
    else if (strcmp(picked->isa, best)) say(d, WARN, "simd", "unset LAB_SIMD, unless you compare kernels",
                                            "%s kernels, by LAB_SIMD; the processor has %s", picked->isa, str_text(&has));
    else say(d, OK, "simd", NULL, "%s kernels; the processor has %s", picked->isa, str_text(&has));
    str_free(&has);
}

/* ---- what it may use ---- */

/* Cores that a container grants (cgroup 2), 0: no limit is known. */
static double granted_cores(void)
{
    char line[64];
    double quota, period;
    if (!read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) || sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0) return 0;
    return quota / period;
}

static void check_cores(struct doctor *d)
{
    char advice[96];
    int cores = sched_cores();
    double granted = granted_cores();
    snprintf(advice, sizeof advice, "`lab run --jobs %d` runs as many at once as the container grants", granted > 1 ? (int)granted : 1);
    if (granted > 0 && granted < cores - 0.5) say(d, WARN, "cores", advice, "%d, but this container is granted the time of %.1f", cores, granted);
    else say(d, OK, "cores", NULL, "%d of %ld; so many runs at once unless --jobs says otherwise", cores, sysconf(_SC_NPROCESSORS_ONLN));
}

static void check_memory(struct doctor *d)
{
    enum { RUN_MB = 128 };                           /* an ordinary run's, amply */
    char line[128];
    long long available_kb = -1, limit = -1;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && available_kb < 0 && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %lld", &available_kb);
    if (f) fclose(f);
    if (read_line("/sys/fs/cgroup/memory.max", line, sizeof line)) sscanf(line, "%lld", &limit);
    if (available_kb < 0) { say(d, WARN, "memory", "mount /proc", "not known: /proc/meminfo cannot be read"); return; }
    long long mb = available_kb / 1024;
    if (limit >= 0 && limit >> 20 < mb) mb = limit >> 20;
    if (mb < (long long)RUN_MB * sched_cores()) say(d, WARN, "memory", "run fewer at once (--jobs), or end other programs",
                                                    "%lld MB are free, for %d runs at once", mb, sched_cores());
    else say(d, OK, "memory", NULL, "%lld MB are free", mb);
}

static void check_limits(struct doctor *d)
{
    static const struct { int resource; const char *name, *option; rlim_t least; } table[] = {
        { RLIMIT_AS, "address space", "-v", RLIM_INFINITY }, { RLIMIT_FSIZE, "size of a file", "-f", RLIM_INFINITY },
        { RLIMIT_CPU, "processor time", "-t", RLIM_INFINITY }, { RLIMIT_NOFILE, "open files", "-n", 0 }, { RLIMIT_NPROC, "processes", "-u", 0 } };
    int narrow = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rlimit limit;
        char advice[96];
        rlim_t least = table[i].least ? table[i].least : 64 + 4 * (rlim_t)sched_cores();        /* two pipes and a log for each worker */
        if (getrlimit(table[i].resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= least) continue;
        snprintf(advice, sizeof advice, "`ulimit %s unlimited` in this shell, or ask who set it", table[i].option);
        say(d, WARN, "limits", advice, "%s: at most %llu", table[i].name, (unsigned long long)limit.rlim_cur);
        narrow = 1;
    }
    if (!narrow) say(d, OK, "limits", NULL, "none on memory, time and files that lab would meet");
}

static void check_clock(struct doctor *d)
{
    enum { LAB_BEGAN = 1735689600 };                 /* 2025-01-01: no clock that is right shows less */
    char source[64] = "unknown", utc[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(utc, sizeof utc, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    if (now < LAB_BEGAN) say(d, FAIL, "clock", "set it (`timedatectl`): attempts are ordered by their start", "it shows %s", utc);
    else if (!strcmp(source, "hpet") || !strcmp(source, "acpi_pm")) say(d, WARN, "clock",
                                                                        "times of parts in `lab bench` will be too long; training does not mind",
                                                                       "%s, read from %s, which is slow", utc, source);
    else say(d, OK, "clock", NULL, "%s, read from %s", utc, source);
}

/* ---- where results go ---- */

/* The folder of the database, or the nearest above it that is there. */
static void folder_of(const char *db, char *folder, size_t size)
{
    snprintf(folder, size, "%s", db);
    for (;;) {
        char *slash = strrchr(folder, '/');
        if (!slash) { snprintf(folder, size, "."); return; }
        slash[slash == folder] = '\0';
        if (access(folder, F_OK) == 0 || !strcmp(folder, "/")) return;
    }
}

static void check_folder(struct doctor *d)
{
    enum { WARN_MB = 1024, FAIL_MB = 50, FILES = 1000 };
    char folder[4096], network[32];
    struct statvfs v;
    struct stat st;
    folder_of(d->db, folder, sizeof folder);
    store_network(folder, network);
    if (*network) say(d, FAIL, "folder", "choose a database on a local disk with --db, and copy it when the runs are done",
                      "%s lies on a network file system (%s), where databases get damaged", folder, network);
    else if (stat(folder, &st) != 0 || !(st.st_mode & 0222) || access(folder, W_OK | X_OK) != 0)     /* the bits do not stop root, but lab */
        say(d, FAIL, "folder", "make it writable, or choose another database with --db", "%s: cannot be written", folder);
    else say(d, OK, "folder", NULL, "%s, on a local file system", folder);
    if (statvfs(folder, &v) != 0) { say(d, FAIL, "disk", "choose another folder with --db", "%s: %s", folder, strerror(errno)); return; }
    unsigned long long mb = (unsigned long long)v.f_bavail * v.f_frsize >> 20;
    int few_files = v.f_files && v.f_favail < FILES;
    if (few_files) say(d, WARN, "disk", "`lab gc` removes files that nobody needs", "room for %llu more files", (unsigned long long)v.f_favail);
    else say(d, mb < FAIL_MB ? FAIL : mb < WARN_MB ? WARN : OK, "disk",
             mb < WARN_MB ? "free some space; `lab gc` removes files that nobody needs" : NULL, "%llu MB are free", mb);
}

static int take_count(void *ctx, int n, const struct store_value *v) { (void)n; *(int64_t *)ctx = v[0].integer; return 0; }

static void check_database(struct doctor *d)
{
    struct store *store;
    struct lab_err err;
    int64_t done = 0, ahead = 0;
    struct store_rows count_done = { NULL, take_count, &done }, count_ahead = { NULL, take_count, &ahead };
    char now[32];
    if (access(d->db, F_OK) != 0 && errno == ENOENT) { say(d, OK, "database", NULL, "%s: not there yet; `lab run` makes it", d->db); return; }
    snprintf(now, sizeof now, "%lld", (long long)clock_utc_us());
    if (store_open(&store, d->db, STORE_READ, &err) != 0) {
        say(d, FAIL, "database", "choose another with --db, or do what the message says", "%s", err.msg);
        return;
    }
    if (store_query(store, "SELECT count(*) FROM attempt WHERE status = 'done'", NULL, 0, 10, &count_done, &err) != 0 ||
        store_query(store, "SELECT count(*) FROM attempt WHERE started_us > CAST(?1 AS INTEGER)", (const char *[]){ now }, 1, 10,
                    &count_ahead, &err) != 0)
        say(d, FAIL, "database", "`lab fsck` tells more", "%s", err.msg);
    else if (ahead) say(d, WARN, "database", "set the clock: attempts are ordered by their start",
                        "%s: %lld attempts started in the future", d->db, (long long)ahead);
    else say(d, OK, "database", NULL, "%s: %lld runs are done; `lab fsck` looks closer", d->db, (long long)done);
    store_close(store);
}

/* ---- plugins ---- */

static void check_plugins(struct doctor *d)
{
    struct registry r;
    struct lab_err err;
    int count[2] = { 0, 0 };
    if (cli_registry(&r, d->plugin, &err) != 0) { say(d, FAIL, "plugins", "mend or leave out what --plugin names", "%s", err.msg); return; }
    for (size_t i = 0; i < r.n_entry; i++) {
        const struct plugin_entry *e = &r.entry[i];
        count[e->kind]++;
        if (e->shadowed_by >= 0) say(d, WARN, "plugins", "remove or rename one of the two", "%s in %s is shadowed by %s", e->name,
                                     r.file[e->file].path,
                                     r.file[r.entry[e->shadowed_by].file].path);
    }
    for (size_t i = 0; i < r.n_file; i++)
        if (!r.file[i].plugin) say(d, WARN, "plugins", "`lab check` tells more; its encoders and tasks are not there for experiments",
                                   "refused: %s: %s", r.file[i].path, r.file[i].refusal);
    int none = !count[PLUGIN_ENCODER] || !count[PLUGIN_TASK];
    say(d, none ? FAIL : OK, "plugins", none ? "`make` builds them; LAB_PLUGIN_PATH or --plugin name other places" : NULL,
        "%d encoders and %d tasks", count[PLUGIN_ENCODER], count[PLUGIN_TASK]);
    registry_free(&r);
}

static void (*const check[])(struct doctor *) = { check_program, check_sqlite, check_blas, check_simd, check_cores, check_memory, check_limits,
                                                  check_clock, check_folder, check_database, check_plugins };

int cmd_doctor(const struct cmd *cmd, int argc, char **argv)
{
    struct cli_many plugin = { .n = 0 };
    struct doctor d = { .db = CLI_DEFAULT_DB, .plugin = &plugin };
    const struct cli_option option[] = { CLI_DB(&d.db), CLI_JSON(&d.json), CLI_PLUGIN(&plugin), CLI_END };
    struct lab_err err;
    int parsed = cli_parse(cmd, option, &argc, argv);
    if (parsed) return parsed > 0 ? EXIT_DONE : EXIT_USAGE;
    if (argc > 1) return lab_fail(&err, "takes no argument, found '%.80s'", argv[1]), cli_fail(cmd, EXIT_USAGE, &err);
    if (d.json) str_add(&d.out, "[");
    for (size_t i = 0; i < sizeof check / sizeof *check; i++) check[i](&d);
    if (d.json) str_add(&d.out, "\n]\n");
    else str_printf(&d.out, "\n%d ok, %d to think about, %d to mend\n", d.count[OK], d.count[WARN], d.count[FAIL]);
    int code = d.count[FAIL] ? EXIT_SOME_FAILED : EXIT_DONE;
    if (d.out.failed || fputs(str_text(&d.out), stdout) < 0 || fflush(stdout) != 0)
        lab_fail(&err, "the report cannot be written: %s", strerror(d.out.failed ? ENOMEM : errno)), code = cli_fail(cmd, EXIT_SOME_FAILED, &err);
    str_free(&d.out);
    return code;
}
