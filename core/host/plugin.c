/* plugin -- see plugin.h.  The only file that includes dlfcn.h.
 *
 * What comes out of a shared object is judged in an order in which each step may rely on
 * those before it: the magic number first, then the versions that say how to read the rest.
 * A refused plugin leaves its reason in the registry and nothing else; its code stays
 * mapped, as all plugins' does, because nobody can tell what its constructors started.
 */
#include "host/plugin.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/str.h"
#include "host/option.h"

static const char *const kind_name[] = { "encoder", "task" };

/* ---- judging ---- */

static const char *real_name(uint32_t size)
{
    return size == sizeof(float) ? "float" : size == sizeof(double) ? "double" : "unknown";
}

/* Up to the end of its last field in 1.0, which every plugin of this major has.  What a later minor adds, an older plugin lacks. */
#define SIZE_1_0(S, last) (offsetof(struct S, last) + sizeof ((struct S *)0)->last)
enum { PLUGIN_1_0 = SIZE_1_0(lab_plugin, tasks), ENCODER_1_0 = SIZE_1_0(lab_encoder, value_bwd), TASK_1_0 = SIZE_1_0(lab_task, score) };

static int check_size(const char *what, uint32_t found, size_t oldest, size_t ours, struct lab_err *err)
{
    if (found >= oldest && found <= ours) return 0;
    if (oldest < ours)
        return lab_fail(err, "%s: size is %u bytes, this lab expects %zu to %zu; rebuild it against this lab's headers", what, found, oldest, ours);
    return lab_fail(err, "%s: size is %u bytes, this lab expects %zu; rebuild it against this lab's headers", what, found, ours);
}

static int check_plugin(const struct lab_plugin *p, struct lab_err *err)
{
    if (p->magic != LAB_MAGIC)
        return lab_fail(err, "magic is 0x%08x, expected 0x%08x; build it with lab_plugin.h's LAB_PLUGIN(...)", p->magic,
                        LAB_MAGIC);
    if (p->abi_major != LAB_ABI_MAJOR)
        return lab_fail(err, "abi_major is %u, this lab's is %u; rebuild it against this lab's lab_plugin.h", p->abi_major,
                        LAB_ABI_MAJOR);
    if (p->abi_minor > LAB_ABI_MINOR)
        return lab_fail(err, "abi_minor is %u, this lab offers up to %u; update lab, or build the plugin with -DLAB_ABI_MINOR=%u "
                        "if it needs nothing newer", p->abi_minor, LAB_ABI_MINOR, LAB_ABI_MINOR);
    if (check_size("struct lab_plugin", p->size, PLUGIN_1_0, sizeof *p, err) != 0) return -1;
    if (p->real_size != sizeof(lab_real))
        return lab_fail(err, "real_size is %u (%s), this lab computes in %zu (%s); rebuild with%s -DLAB_REAL_DOUBLE", p->real_size,
                        real_name(p->real_size), sizeof(lab_real), real_name(sizeof(lab_real)),
                        sizeof(lab_real) == sizeof(float) ? "out" : "");
    if (!p->name || !str_is_name(p->name))
        return lab_fail(err, "name is '%.80s', expected 1 to 63 of a-z, 0-9 and _; rename it in LAB_PLUGIN(...)",
                        p->name ? p->name : "");
    if ((!p->encoders || !*p->encoders) && (!p->tasks || !*p->tasks))
        return lab_fail(err, "brings neither encoders nor tasks; give LAB_PLUGIN(...) a NULL-terminated list of one or the other");
    return 0;
}

struct common {                      /* what the two vtables have in common */
    const char *kind;
    uint32_t size, flags;
    size_t oldest, ours;             /* sizes: in 1.0, and as this lab has it */
    uint32_t known;                  /* flags */
    const char *name;
    size_t self_size;
    const struct lab_option *options;
};

static int check_common(const struct common *c, struct lab_err *err)
{
    struct lab_err why;
    char what[96];
    if (!c->name || !str_is_name(c->name))
        return lab_fail(err, "%s: name is '%.80s', expected 1 to %d of a-z, 0-9 and _", c->kind, c->name ? c->name : "", PLUGIN_NAME_MAX);
    if (strlen(c->name) > PLUGIN_NAME_MAX)
        return lab_fail(err, "%s: name '%s' has %zu bytes, the limit is %d: no section [%s.NAME] of an experiment file could spell it", c->kind,
                        c->name, strlen(c->name), PLUGIN_NAME_MAX, c->kind);
    snprintf(what, sizeof what, "%s '%s'", c->kind, c->name);
    if (check_size(what, c->size, c->oldest, c->ours, err) != 0) return -1;
    if (c->flags & ~c->known)
        return lab_fail(err, "%s: flags are 0x%x, ABI %u.%u knows 0x%x; clear the others", what, c->flags, LAB_ABI_MAJOR,
                        LAB_ABI_MINOR, c->known);
    if (option_check_table(c->options, c->self_size, &why) != 0) return lab_fail(err, "%s: %.400s", what, why.msg);
    return 0;
}

#define HOOK(f) { #f, offsetof(struct lab_encoder, f), offsetof(struct lab_encoder, f##_bwd) }
static const struct { const char *name; size_t forward, backward; } hooks[] = {
    HOOK(embed), HOOK(qk), HOOK(bias), HOOK(logits), HOOK(value) };
#undef HOOK

static int is_given(const struct lab_encoder *e, size_t offset)
{
    void (*function)(void);
    memcpy(&function, (const char *)e + offset, sizeof function);
    return function != NULL;
}

static int check_encoder(const struct lab_encoder *e, struct lab_err *err)
{
    struct common common = { kind_name[PLUGIN_ENCODER], e->size, e->flags, ENCODER_1_0, sizeof *e,
                             LAB_E_SHIFT_INVARIANT | LAB_E_LAYER_INVARIANT | LAB_E_CAUSAL_ONLY,
                             e->name, e->self_size, e->options };
    if (check_common(&common, err) != 0) return -1;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        int forward = is_given(e, hooks[i].forward), backward = is_given(e, hooks[i].backward);
        if (forward && !backward)
            return lab_fail(err, "encoder '%s': %s has no backward; write %s_bwd, empty if no gradient flows through it", e->name,
                            hooks[i].name, hooks[i].name);
        if (backward && !forward)
            return lab_fail(err, "encoder '%s': %s_bwd has no forward; write %s or leave both out", e->name, hooks[i].name,
                            hooks[i].name);
    }
    return 0;
}

static int check_task(const struct lab_task *t, struct lab_err *err)
{
    struct common common = { kind_name[PLUGIN_TASK], t->size, t->flags, TASK_1_0, sizeof *t,
                             LAB_TASK_EXCHANGEABLE | LAB_TASK_CAUSAL | LAB_TASK_POSITIONS | LAB_TASK_REORDERS,
                             t->name, t->self_size, t->options };
    if (check_common(&common, err) != 0) return -1;
    if (!t->init) return lab_fail(err, "task '%s': no init; write one that fills struct lab_task_info", t->name);
    if (!t->sample) return lab_fail(err, "task '%s': no sample; a task must make examples", t->name);
    if ((t->flags & LAB_TASK_EXCHANGEABLE) && !t->solve)
        return lab_fail(err, "task '%s': LAB_TASK_EXCHANGEABLE without solve; write solve or clear the flag", t->name);
    return 0;
}

int plugin_validate(const struct lab_plugin *p, struct lab_err *err)
{
    if (!p) return lab_fail(err, "lab_plugin_entry returned NULL; it must return what LAB_PLUGIN(...) describes");
    if (check_plugin(p, err) != 0) return -1;
    for (const struct lab_encoder *const *e = p->encoders; e && *e; e++) {
        if (check_encoder(*e, err) != 0) return -1;
        for (const struct lab_encoder *const *before = p->encoders; before < e; before++)
            if (!strcmp((*before)->name, (*e)->name))
                return lab_fail(err, "encoder '%s' stands twice in this plugin; rename one", (*e)->name);
    }
    for (const struct lab_task *const *t = p->tasks; t && *t; t++) {
        if (check_task(*t, err) != 0) return -1;
        for (const struct lab_task *const *before = p->tasks; before < t; before++)
            if (!strcmp((*before)->name, (*t)->name))
                return lab_fail(err, "task '%s' stands twice in this plugin; rename one", (*t)->name);
    }
    return 0;
}

/* ---- plugins of an earlier minor ---- */

/* A struct as this lab has it: itself, or a copy in which what it lacks is zero.  One whose size cannot be is left to the judge. */
static const void *whole(const void *from, size_t size, size_t oldest, size_t ours, struct lab_err *err)
{
    if (size < oldest || size >= ours) return from;
    void *copy = mem_alloc(ours, err);               /* zeroed */
    return copy ? memcpy(copy, from, size) : NULL;
}

/* The same for what a list points to; each of them begins with its size. */
static const void *const *whole_list(const void *const *list, size_t oldest, size_t ours, struct lab_err *err)
{
    size_t n = 0;
    uint32_t size;
    while (list && list[n]) n++;
    if (n == 0) return list;
    const void **all = mem_alloc((n + 1) * sizeof *all, err);
    for (size_t i = 0; all && i < n; i++) {
        memcpy(&size, list[i], sizeof size);
        if (!(all[i] = whole(list[i], size, oldest, ours, err))) return NULL;
    }
    return all;
}

struct adopted { struct lab_plugin plugin; struct adopted *before; };
static struct adopted *adopted;      /* all of them stay, as their code does, to the end of the process */

/* What came out of a file, with every struct as large as ours, so that nobody else asks how old it is.  NULL: out of memory. */
static const struct lab_plugin *adopt(const struct lab_plugin *p, struct lab_err *err)
{
    int grown = sizeof *p > PLUGIN_1_0 || sizeof(struct lab_encoder) > ENCODER_1_0 || sizeof(struct lab_task) > TASK_1_0;
    int readable = p && p->magic == LAB_MAGIC && p->abi_major == LAB_ABI_MAJOR && p->size >= PLUGIN_1_0 && p->size <= sizeof *p;
    if (!grown || !readable) return p;
    struct adopted *mine = mem_alloc(sizeof *mine, err);
    if (!mine) return NULL;
    mine->before = adopted, adopted = mine;
    struct lab_plugin *copy = memcpy(&mine->plugin, p, p->size);
    copy->encoders = (const struct lab_encoder *const *)whole_list((const void *const *)p->encoders, ENCODER_1_0, sizeof(struct lab_encoder), err);
    copy->tasks = (const struct lab_task *const *)whole_list((const void *const *)p->tasks, TASK_1_0, sizeof(struct lab_task), err);
    return (p->encoders && !copy->encoders) || (p->tasks && !copy->tasks) ? NULL : copy;
}

/* ---- one file ---- */

/* Code from a place where others may put it is never run.  A group of the owner's own number is the
 * owner's private group, which a umask of 002 lets write to everything. */
static int check_writers(const char *path, const struct stat *s, struct lab_err *err)
{
    int others = (s->st_mode & S_IWOTH) || ((s->st_mode & S_IWGRP) && s->st_gid != s->st_uid);
    if (!others) return 0;
    return lab_fail(err, "others may write to it (mode %04o, expected no more than 0755); if you trust what is there now: "
                    "chmod go-w %s", (unsigned)s->st_mode & 07777, path);
}

/* Who may write to its folder may put another file in its place, unless the folder is sticky, as /tmp is. */
static int check_folder(const char *path, struct lab_err *err)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct lab_err why;
    struct stat s;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
    if (stat(folder, &s) != 0 || s.st_mode & S_ISVTX || check_writers(folder, &s, &why) == 0) return 0;
    return lab_fail(err, "its folder: %s", why.msg);
}

int plugin_open(const char *path, const struct lab_plugin **out, struct lab_err *err)
{
    const struct lab_plugin *(*entry)(void);
    char local[PATH_MAX];
    struct stat s;
    *out = NULL;
    if (stat(path, &s) != 0) return lab_fail(err, "cannot be read: %s", strerror(errno));
    if (!S_ISREG(s.st_mode)) return lab_fail(err, "not a file");
    if (check_writers(path, &s, err) != 0 || check_folder(path, err) != 0) return -1;
    snprintf(local, sizeof local, "%s%s", strchr(path, '/') ? "" : "./", path);   /* a bare name would be searched for elsewhere */
    void *object = dlopen(local, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *why = dlerror();             /* often begins with the path, which the caller prints anyway */
        size_t n = strlen(local);
        if (!strncmp(why, local, n) && !strncmp(why + n, ": ", 2)) why += n + 2;
        return lab_fail(err, "not a shared object that can be loaded: %.400s", why);
    }
    *(void **)&entry = dlsym(object, "lab_plugin_entry");
    if (!entry) return lab_fail(err, "exports no lab_plugin_entry; a plugin ends with LAB_PLUGIN(...)");
    const struct lab_plugin *found = entry(), *p = adopt(found, err);
    if ((found && !p) || plugin_validate(p, err) != 0) return -1;
    *out = p;
    return 0;
}

/* ---- the registry ---- */

/* Who asked for a place: what is wrong with it is an error, a note, or nothing if it is only missing. */
enum source { SOURCE_USER, SOURCE_ENVIRONMENT, SOURCE_DEFAULT };
struct place { const char *path; enum source source; int id; };

static struct plugin_file *push_file(struct registry *r, const char *path, const struct place *place, struct lab_err *err)
{
    if (mem_grow(&r->file, &r->cap_file, r->n_file + 1, sizeof *r->file, err) != 0) return NULL;
    struct plugin_file *f = &r->file[r->n_file];
    *f = (struct plugin_file){ .path = mem_strdup(path, err), .place = place->id };
    if (!f->path) return NULL;
    r->n_file++;
    return f;
}

static int push_refused(struct registry *r, const char *path, const struct place *place, const char *reason, struct lab_err *err)
{
    struct plugin_file *f = push_file(r, path, place, err);
    if (!f) return -1;
    f->given = place->source == SOURCE_USER;
    snprintf(f->refusal, sizeof f->refusal, "%s", reason);
    return 0;
}

/* The entry in use of that kind and name, or -1. */
static int find_entry(const struct registry *r, enum plugin_kind kind, const char *name)
{
    for (size_t i = 0; i < r->n_entry; i++)
        if (r->entry[i].kind == kind && r->entry[i].shadowed_by < 0 && !strcmp(r->entry[i].name, name)) return (int)i;
    return -1;
}

/* Another file of the same place must not bring the same name: which of the two is meant is anybody's guess. */
static int check_clash(const struct registry *r, int place, enum plugin_kind kind, const char *name, struct lab_err *err)
{
    int i = find_entry(r, kind, name);
    const struct plugin_file *other = i < 0 ? NULL : &r->file[r->entry[i].file];
    if (!other || other->place != place) return 0;
    return lab_fail(err, "%s '%s' is also in %s; remove or rename one of the two", kind_name[kind], name, other->path);
}

static int check_clashes(const struct registry *r, int place, const struct lab_plugin *p, struct lab_err *err)
{
    for (const struct lab_encoder *const *e = p->encoders; e && *e; e++)
        if (check_clash(r, place, PLUGIN_ENCODER, (*e)->name, err) != 0) return -1;
    for (const struct lab_task *const *t = p->tasks; t && *t; t++)
        if (check_clash(r, place, PLUGIN_TASK, (*t)->name, err) != 0) return -1;
    return 0;
}

static int push_entry(struct registry *r, struct plugin_entry entry, struct lab_err *err)
{
    if (mem_grow(&r->entry, &r->cap_entry, r->n_entry + 1, sizeof *r->entry, err) != 0) return -1;
    entry.file = (int)r->n_file - 1;
    entry.shadowed_by = find_entry(r, entry.kind, entry.name);
    r->entry[r->n_entry++] = entry;
    return 0;
}

static int push_entries(struct registry *r, const struct lab_plugin *p, struct lab_err *err)
{
    for (const struct lab_encoder *const *e = p->encoders; e && *e; e++)
        if (push_entry(r, (struct plugin_entry){ .kind = PLUGIN_ENCODER, .name = (*e)->name, .encoder = *e }, err) != 0) return -1;
    for (const struct lab_task *const *t = p->tasks; t && *t; t++)
        if (push_entry(r, (struct plugin_entry){ .kind = PLUGIN_TASK, .name = (*t)->name, .task = *t }, err) != 0) return -1;
    return 0;
}

/* Loads one file, once, under its resolved path: workers start elsewhere, and two routes may lead to it.
 * -1 only when memory ran out; a refusal is recorded. */
static int add_file(struct registry *r, const char *path, const struct place *place, int given, struct lab_err *err)
{
    struct lab_err why;
    const struct lab_plugin *p = NULL;
    char real[PATH_MAX];
    if (!realpath(path, real)) snprintf(real, sizeof real, "%s", path);
    for (size_t i = 0; i < r->n_file; i++)
        if (!strcmp(r->file[i].path, real)) return r->file[i].given |= given, 0;
    struct plugin_file *f = push_file(r, real, place, err);
    if (!f) return -1;
    f->given = given;
    if (plugin_open(real, &p, &why) != 0 || hash_file(real, f->sha256, &why) != 0 || check_clashes(r, f->place, p, &why) != 0) {
        snprintf(f->refusal, sizeof f->refusal, "%s", why.msg);
        return 0;
    }
    f->plugin = p;
    return push_entries(r, p, err);
}

/* ---- the search path ---- */

static int is_object(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return d->d_name[0] != '.' && n > 3 && !strcmp(d->d_name + n - 3, ".so");
}

/* The shared objects of one folder, in the order of their names; adds their number to *seen.  -1 when memory ran out. */
static int add_objects(struct registry *r, const char *folder, const struct place *place, int *seen, struct lab_err *err)
{
    struct dirent **list = NULL;
    struct str path = { 0 };
    int rc = 0, n = scandir(folder, &list, is_object, alphasort);
    if (n < 0) return push_refused(r, folder, place, strerror(errno), err);
    for (int i = 0; i < n; i++) {
        str_clear(&path);
        str_printf(&path, "%s/%s", folder, list[i]->d_name);
        if (path.failed) lab_fail(err, "out of memory: could not list %s", folder);
        if (rc == 0) rc = path.failed ? -1 : add_file(r, path.text, place, 0, err);
        free(list[i]);
    }
    *seen += n;
    free(list);
    str_free(&path);
    return rc;
}

static int add_folder(struct registry *r, const struct place *place, struct lab_err *err)
{
    static const char *const part[] = { "", "/encoders", "/tasks" };
    int seen = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        struct lab_err why;
        struct stat s;
        char folder[PATH_MAX + 16];
        snprintf(folder, sizeof folder, "%s%s", place->path, part[i]);
        if (stat(folder, &s) != 0 || !S_ISDIR(s.st_mode)) continue;
        if (check_writers(folder, &s, &why) == 0) {
            if (add_objects(r, folder, place, &seen, err) != 0) return -1;
        } else if (seen++, push_refused(r, folder, place, why.msg, err) != 0) {
            return -1;
        }
    }
    if (place->source == SOURCE_USER && !seen)
        return push_refused(r, place->path, place, "holds no plugin: no *.so here, in encoders/ or in tasks/", err);
    return 0;
}

static int add_place(struct registry *r, const struct place *place, struct lab_err *err)
{
    struct stat s;
    if (stat(place->path, &s) == 0)
        return S_ISDIR(s.st_mode) ? add_folder(r, place, err) : add_file(r, place->path, place, place->source == SOURCE_USER, err);
    return place->source == SOURCE_DEFAULT ? 0 : push_refused(r, place->path, place, strerror(errno), err);
}

/* LAB_PLUGIN_PATH=A:B.  Empty parts are skipped: they must not come to mean the current folder. */
static int add_environment(struct registry *r, int *id, struct lab_err *err)
{
    const char *value = getenv("LAB_PLUGIN_PATH");
    char *copy = mem_strdup(value ? value : "", err), *rest = copy, *part;
    int rc = copy ? 0 : -1;
    while (rc == 0 && (part = strsep(&rest, ":")))
        if (*part) rc = add_place(r, &(struct place){ part, SOURCE_ENVIRONMENT, (*id)++ }, err);
    free(copy);
    return rc;
}

/* Where the program was built, and where it was installed, wherever that was moved to since. */
static int add_beside_program(struct registry *r, int *id, struct lab_err *err)
{
    static const char *const beside[] = { "plugins", "../lib/lab/plugins" };
    char path[PATH_MAX + 32], folder[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    if (n <= 0 || path[0] != '/') return 0;
    path[n] = '\0';
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        strcpy(name, beside[i]);
        if (realpath(path, folder) && add_place(r, &(struct place){ folder, SOURCE_DEFAULT, (*id)++ }, err) != 0) return -1;
    }
    return 0;
}

/* What the user named must load: the first such file that did not is the error. */
static int check_given(const struct registry *r, struct lab_err *err)
{
    for (size_t i = 0; i < r->n_file; i++)
        if (r->file[i].given && !r->file[i].plugin) return lab_fail(err, "%s: %s", r->file[i].path, r->file[i].refusal);
    return 0;
}

int registry_load(struct registry *r, const char *const *given, int n_given, struct lab_err *err)
{
    int id = 0;
    *r = (struct registry){ 0 };
    for (int i = 0; i < n_given; i++)
        if (add_place(r, &(struct place){ given[i], SOURCE_USER, id++ }, err) != 0) goto fail;
    if (add_environment(r, &id, err) != 0 || add_beside_program(r, &id, err) != 0) goto fail;
    if (add_place(r, &(struct place){ LAB_PLUGIN_DIR, SOURCE_DEFAULT, id }, err) != 0) goto fail;
    if (check_given(r, err) == 0) return 0;
fail:
    registry_free(r);
    return -1;
}

int registry_load_files(struct registry *r, const char *const *paths, int n, struct lab_err *err)
{
    *r = (struct registry){ 0 };
    for (int i = 0; i < n; i++)
        if (add_file(r, paths[i], &(struct place){ paths[i], SOURCE_USER, i }, 1, err) != 0) goto fail;
    if (check_given(r, err) == 0) return 0;
fail:
    registry_free(r);
    return -1;
}

void registry_free(struct registry *r)
{
    for (size_t i = 0; i < r->n_file; i++) free(r->file[i].path);
    free(r->file);
    free(r->entry);
    *r = (struct registry){ 0 };
}

/* ---- finding ---- */

const struct plugin_file *registry_refused(const struct registry *r, const char *name)
{
    for (size_t i = 0; i < r->n_file; i++) {
        const char *base = strrchr(r->file[i].path, '/');
        base = base ? base + 1 : r->file[i].path;
        if (!r->file[i].plugin && !strncmp(base, name, strlen(name)) && !strcmp(base + strlen(name), ".so")) return &r->file[i];
    }
    return NULL;
}

static int by_name(const void *a, const void *b, void *registry)
{
    const struct registry *r = registry;
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    int order = strcmp(r->entry[i].name, r->entry[j].name);
    return order ? order : i < j ? -1 : 1;           /* of one name: the order of loading */
}

size_t registry_sorted(const struct registry *r, enum plugin_kind kind, size_t *order)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_entry; i++) if (r->entry[i].kind == kind) order[n++] = i;
    qsort_r(order, n, sizeof *order, by_name, (void *)r);
    return n;
}

const char *registry_nearest(const struct registry *r, const char *name)
{
    struct lab_err ignored;
    const char **names = mem_alloc((r->n_entry + 1) * sizeof *names, &ignored);
    for (size_t i = 0; names && i < r->n_entry; i++) names[i] = r->entry[i].name;
    const char *near = names ? str_nearest(name, names) : NULL;
    free(names);
    return near;
}

static void unknown(const struct registry *r, enum plugin_kind kind, const char *name, struct lab_err *err)
{
    struct str known = { 0 };
    struct lab_err ignored;
    const char **names = mem_alloc((r->n_entry + 1) * sizeof *names, &ignored);
    size_t *order = mem_alloc((r->n_entry + 1) * sizeof *order, &ignored);
    size_t n = 0, all = order ? registry_sorted(r, kind, order) : 0;
    for (size_t i = 0; i < all; i++) {
        if (r->entry[order[i]].shadowed_by >= 0) continue;
        str_printf(&known, "%s%s", known.len ? ", " : "", r->entry[order[i]].name);
        if (names) names[n++] = r->entry[order[i]].name;
    }
    const char *near = names ? str_nearest(name, names) : NULL;
    const struct plugin_file *refused = registry_refused(r, name);
    if (refused)
        lab_fail(err, "%s '%.80s' is not available: %s: %s", kind_name[kind], name, refused->path, refused->refusal);
    else if (!known.len)
        lab_fail(err, "unknown %s '%.80s': none were found; `make` builds them, --plugin names others", kind_name[kind], name);
    else
        lab_fail(err, "unknown %s '%.80s'%s%s%s; known: %s", kind_name[kind], name, near ? ": did you mean '" : "",
                 near ? near : "", near ? "'?" : "", str_text(&known));
    free(order);
    free(names);
    str_free(&known);
}

const struct plugin_entry *registry_find(const struct registry *r, enum plugin_kind kind, const char *name, struct lab_err *err)
{
    int i = find_entry(r, kind, name);
    if (i >= 0) return &r->entry[i];
    unknown(r, kind, name, err);
    return NULL;
}
