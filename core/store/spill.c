/* spill -- see spill.h. */
#include "store/spill.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/str.h"
#include "base/whole.h"
#include "store/db.h"

enum { HEAD = 128 };
static const char suffix[2][12] = { ".attempt", ".evaluation" };

/* ---- where ---- */

static int beside(struct str *out, const struct store *s)
{
    const char *slash = strrchr(s->path, '/');
    str_addn(out, s->path, slash ? (size_t)(slash - s->path) + 1 : 0);
    str_add(out, "spill");
    return out->failed ? -1 : 0;
}

/* /tmp is everybody's: a folder there that others could have made or may write to is not believed. */
static int of_user(struct str *out, const struct store *s)
{
    struct stat st;
    const char *tmp = getenv("TMPDIR");
    (void)s;
    str_printf(out, "%s/lab-spill-%ld", tmp && *tmp == '/' ? tmp : "/tmp", (long)getuid());
    if (out->failed) return -1;
    return lstat(out->text, &st) != 0 || (S_ISDIR(st.st_mode) && st.st_uid == getuid() && !(st.st_mode & 022)) ? 0 : -1;
}

static const struct { int (*name)(struct str *, const struct store *); mode_t mode; } place[] = { { beside, 0777 }, { of_user, 0700 } };
enum { N_PLACE = sizeof place / sizeof *place };

/* ---- writing ---- */

static struct record last_record(const struct store_end *end)
{
    struct record r = { .type = RECORD_DONE };
    if (!end) return r;
    snprintf(r.name, sizeof r.name, "%s", end->status);
    snprintf(r.text, sizeof r.text, "%s", end->reason ? end->reason : "");
    snprintf(r.sha256, sizeof r.sha256, "%s", end->result_sha256 ? end->result_sha256 : "");
    r.step = end->last_step, r.active_ns = end->active_ns, r.n = end->exit_code, r.n_exact = end->term_signal;
    return r;
}

static void put(struct whole *w, const struct record *r)
{
    unsigned char frame[RECORD_FRAME_MAX];
    whole_put(w, frame, record_encode(r, frame));
}

static int write_to(const struct store *s, const char *path, const struct spill *spill, struct lab_err *err)
{
    struct whole w;
    struct record end = last_record(spill->end);
    if (whole_open(&w, path, err) != 0) return -1;
    int n = fprintf(w.file, "lab spill 1\ndatabase %s\nattempt %s\ntold %" PRId64 "\n", s->uuid, spill->attempt, spill->told);
    for (; n < HEAD; n++) fputc('\n', w.file);
    for (size_t i = 0; i < spill->n; i++) put(&w, &spill->record[i]);
    put(&w, &end);
    return whole_close(&w, err);
}

int spill_write(struct store *s, const struct spill *spill, char path[SPILL_PATH], struct lab_err *err)
{
    int rc = -1;
    lab_fail(err, "%s: no place for what waits", s->path);
    for (int i = 0; i < N_PLACE && rc != 0; i++) {
        struct str folder = { 0 };
        if (place[i].name(&folder, s) == 0 && snprintf(path, SPILL_PATH, "%s/%s%s", folder.text, spill->attempt, suffix[!spill->end]) < SPILL_PATH) {
            mkdir(folder.text, place[i].mode);       /* if that fails, so does what comes next */
            rc = write_to(s, path, spill, err);
        }
        str_free(&folder);
    }
    return rc;
}

void spill_remove(const char *path)
{
    char folder[SPILL_PATH];
    const char *slash = strrchr(path, '/');
    unlink(path);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 0, path);
    rmdir(folder);                                   /* if it is empty now */
}

/* ---- reading ---- */

struct content { char database[DB_UUID], attempt[DB_UUID]; int64_t told; unsigned char *bytes; size_t n; };

static int read_all(struct content *c, int fd, struct lab_err *err)
{
    size_t cap = 0;
    for (ssize_t n = 1; n != 0; ) {
        if (mem_grow(&c->bytes, &cap, c->n + 4096, 1, err) != 0) return -1;
        n = read(fd, c->bytes + c->n, cap - c->n - 1);
        if (n < 0 && errno != EINTR) return lab_fail(err, "cannot be read: %s", strerror(errno));
        if (n > 0) c->n += (size_t)n;
    }
    c->bytes[c->n] = '\0';
    return 0;
}

static int read_head(struct content *c, struct lab_err *err)
{
    if (c->n < HEAD || sscanf((char *)c->bytes, "lab spill 1 database %36s attempt %36s told %" SCNd64, c->database, c->attempt, &c->told) != 3)
        return lab_fail(err, "is not a lab's, or is cut short");
    return 0;
}

static int content_read(struct content *c, const char *path, struct lab_err *err)
{
    *c = (struct content){ .n = 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return lab_fail(err, "cannot be read: %s", strerror(errno));
    int rc = read_all(c, fd, err);
    close(fd);
    return rc == 0 ? read_head(c, err) : -1;
}

/* The records in turn; 1: r is the next, 0: the one before was the last, -1: damaged. */
static int next_record(const struct content *c, size_t *at, struct record *r, struct lab_err *err)
{
    if (*at > HEAD && r->type == RECORD_DONE) return *at == c->n ? 0 : lab_fail(err, "has bytes after its end");
    long used = record_decode(r, c->bytes + *at, c->n - *at, err);
    if (used == 0) return lab_fail(err, "is cut short");
    if (used > 0) *at += (size_t)used;
    return used > 0 ? 1 : -1;
}

/* Every frame, before the first is entered; the last one is left in end. */
static int content_check(const struct content *c, struct record *end, struct lab_err *err)
{
    size_t at = HEAD;
    int more;
    do more = next_record(c, &at, end, err); while (more > 0);
    return more;
}

/* ---- entering ---- */

struct owner { int64_t attempt_id, told; int running, lost; struct db_process process; };

/* 1 it is there, 0 it is not, -1. */
static int find_owner(struct store *s, const char *attempt, struct owner *o, struct lab_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT attempt_id, told, status = 'running', status = 'lost', pid, pid_start, lock_at, boot_id FROM attempt WHERE attempt_uuid = ?",
                                -1, &st, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(st, 1, attempt, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        const char *boot = (const char *)sqlite3_column_text(st, 7);
        *o = (struct owner){ sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int(st, 2), sqlite3_column_int(st, 3),
                             { sqlite3_column_int64(st, 4), sqlite3_column_int64(st, 5), sqlite3_column_int64(st, 6), "" } };
        snprintf(o->process.boot_id, sizeof o->process.boot_id, "%s", boot ? boot : "");
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_fail(s, err);
    sqlite3_finalize(st);
    return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
}

/* Taken for lost, but here is what it found: if nobody else has begun or done the run, it counts. */
static int revive(struct store *s, struct owner *o, struct lab_err *err)
{
    char sql[400];
    snprintf(sql, sizeof sql, "UPDATE attempt SET status = 'running', ended_us = NULL WHERE attempt_id = %" PRId64 " AND status = 'lost' AND NOT EXISTS"
             " (SELECT 1 FROM attempt o WHERE o.run_id = attempt.run_id AND o.status IN ('running', 'done'))", o->attempt_id);
    if (o->lost && sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK) return db_fail(s, err);
    return 0;
}

struct records { struct record *item; size_t n, cap; };

/* All but the last. */
static int list_records(struct records *list, const struct content *c, struct lab_err *err)
{
    struct record r = { .type = RECORD_START };
    for (size_t at = HEAD; next_record(c, &at, &r, err) > 0 && r.type != RECORD_DONE; ) {
        if (mem_grow(&list->item, &list->cap, list->n + 1, sizeof *list->item, err) != 0) return -1;
        list->item[list->n++] = r;
    }
    return 0;
}

/* 1: it was entered before its file could be removed. */
static int enter_attempt(struct store *s, const struct records *list, struct owner *o, const struct record *last, struct lab_err *err)
{
    struct store_end end = { last->name, *last->text ? last->text : NULL, *last->sha256 ? last->sha256 : NULL, last->active_ns, last->step,
                             (int)last->n, (int)last->n_exact };
    if (!o->running && !o->lost) return 1;
    if (revive(s, o, err) != 0) return -1;
    for (size_t i = 0; i < list->n; i++) if (store_put_record(s, o->attempt_id, &list->item[i], err) != 0) return -1;
    return store_attempt_end(s, o->attempt_id, &end, err) < 0 ? -1 : 0;
}

static int enter(struct store *s, const struct content *c, struct owner *o, const struct record *last, struct lab_err *err)
{
    struct records list = { NULL, 0, 0 };
    int rc = list_records(&list, c, err);
    if (rc == 0) rc = *last->name ? enter_attempt(s, &list, o, last, err) : store_put_evaluation(s, o->attempt_id, list.item, list.n, err);
    free(list.item);
    return rc;
}

static void note_waiting(struct spill_count *count, const char *path, const char *why)
{
    count->waiting++;
    snprintf(count->why, sizeof count->why, "%.300s %.200s", path, why);
}

/* Within a transaction if it is to enter.  1 or 2: the file has done its work, now or before. */
static int take_content(struct store *s, const char *path, const struct content *c, int to_enter, struct spill_count *count, struct lab_err *err)
{
    struct record last = { .type = RECORD_START };
    struct owner owner;
    struct lab_err why;
    if (content_check(c, &last, &why) != 0) return note_waiting(count, path, why.msg), 0;
    int found = find_owner(s, c->attempt, &owner, err);
    if (found < 0) return -1;
    if (!found || (*last.name && owner.told < c->told))
        return note_waiting(count, path, "goes on from what this database does not have: is it an older copy?"), 0;
    if (owner.running && db_is_alive(s, &owner.process)) return 0;
    if (!to_enter) return note_waiting(count, path, "waits to be entered"), 0;
    int rc = enter(s, c, &owner, &last, err);
    if (rc >= 0) return 1 + rc;
    if ((sqlite3_errcode(s->db) & 0xff) != SQLITE_CONSTRAINT) return -1;
    store_rollback(s);                               /* what can never be entered must not keep everybody out */
    return note_waiting(count, path, err->msg), 0;
}

static int take_file(struct store *s, const char *path, int to_enter, struct spill_count *count, struct lab_err *err)
{
    struct content c;
    struct lab_err why;
    int rc = 0;
    if (content_read(&c, path, &why) != 0) note_waiting(count, path, why.msg);
    else if (!strcmp(c.database, s->uuid)) {
        rc = to_enter ? store_begin(s, err) : 0;
        if (rc == 0) rc = take_content(s, path, &c, to_enter, count, err);
        if (rc >= 0 && to_enter && !sqlite3_get_autocommit(s->db) && store_commit(s, err) != 0) rc = -1;
        if (rc < 0) store_rollback(s);
        if (rc > 0) count->entered += rc == 1, spill_remove(path);    /* a kill may come between: then it is found done */
    }
    free(c.bytes);
    return rc < 0 ? -1 : 0;
}

static int is_ours(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < 2; i++) if (n == DB_UUID - 1 + strlen(suffix[i]) && !strcmp(name + DB_UUID - 1, suffix[i])) return 1;
    return 0;
}

/* What a killed writer did not finish, ".tmp-UUID.attempt.XXXXXX": nothing is in it that counts. */
static int remove_left(struct store *s, const char *path, const char *name, struct lab_err *err)
{
    char attempt[DB_UUID];
    struct owner owner;
    size_t n;
    const char *of = whole_of(name, &n);
    if (!of || n < sizeof attempt) return 0;
    snprintf(attempt, sizeof attempt, "%.36s", of);
    int found = find_owner(s, attempt, &owner, err);
    if (found == 1 && !db_is_alive(s, &owner.process)) spill_remove(path);
    return found < 0 ? -1 : 0;
}

static int take_folder(struct store *s, const char *folder, int to_enter, struct spill_count *count, struct lab_err *err)
{
    struct str path = { 0 };
    int rc = 0;
    DIR *dir = opendir(folder);                      /* mostly there is none */
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir)); ) {
        str_clear(&path);
        str_printf(&path, "%s/%s", folder, e->d_name);
        if (path.failed) rc = lab_fail(err, "%s: out of memory for what waits in %s", s->path, folder);
        else if (is_ours(e->d_name)) rc = take_file(s, path.text, to_enter, count, err);
        else if (to_enter) rc = remove_left(s, path.text, e->d_name, err);
    }
    if (dir) closedir(dir);
    str_free(&path);
    return rc;
}

int spill_enter(struct store *s, int to_enter, struct spill_count *count, struct lab_err *err)
{
    int rc = 0;
    *count = (struct spill_count){ .entered = 0 };
    for (int i = 0; i < N_PLACE && rc == 0; i++) {
        struct str folder = { 0 };
        if (place[i].name(&folder, s) == 0) rc = take_folder(s, folder.text, to_enter, count, err);
        str_free(&folder);
    }
    return rc;
}
