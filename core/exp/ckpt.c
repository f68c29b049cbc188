/* ckpt -- see ckpt.h.
 *
 * Weights: u64 length of the header, JSON header padded with blanks to 8 bytes, F32 (F64) data.
 * Checkpoint: 512 bytes of text that `head -8` shows, then value, m, v and what is put aside of each parameter (of a
 * frozen one the value alone) as they stand in memory, then the SHA-256 of all this as 64 digits.
 */
#include "exp/ckpt.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/str.h"
#include "base/whole.h"

/* ---- a file and the hash of what it holds ---- */

struct output { struct whole whole; struct hash hash; int64_t bytes; };

static int begin(struct output *o, const char *path, struct lab_err *err)
{
    whole_sweep(path);
    hash_init(&o->hash);
    o->bytes = 0;
    return whole_open(&o->whole, path, err);
}

static void put(struct output *o, const void *bytes, size_t n)
{
    hash_add(&o->hash, bytes, n);
    o->bytes += (int64_t)n;
    whole_put(&o->whole, bytes, n);
}

static void put_reals(struct output *o, const lab_real *x, size_t n) { if (x) put(o, x, n * sizeof *x); }

/* ---- final weights ---- */

/* The header of a model's file, length included. */
static void header(struct str *out, const struct model *m, const char *config)
{
    struct str json = { 0 };
    size_t at = 0;
    str_add(&json, "{\"__metadata__\":{\"format\":\"pt\",\"lab.config\":");
    str_json(&json, config);
    str_add(&json, "}");
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];
        size_t bytes = p->size * sizeof(lab_real);
        str_printf(&json, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", p->name, sizeof(lab_real) == 4 ? "F32" : "F64");
        for (int k = 0; k < p->ndim; k++) str_printf(&json, "%s%d", k ? "," : "", (int)p->dim[k]);
        str_printf(&json, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    str_add(&json, "}");
    while (json.len % 8 && !json.failed) str_add(&json, " ");
    for (int i = 0; i < 8; i++) str_addn(out, &(unsigned char){ (unsigned char)((uint64_t)json.len >> 8 * i) }, 1);
    str_addn(out, str_text(&json), json.len);
    out->failed |= json.failed;
    str_free(&json);
}

int ckpt_write(const char *path, const struct model *m, const char *config, char sha256[HASH_HEX], int64_t *bytes, struct lab_err *err)
{
    struct str head = { 0 };
    struct output o;
    header(&head, m, config);
    int rc = head.failed ? lab_fail(err, "out of memory for the header of %s", path) : begin(&o, path, err);
    if (rc == 0) {
        put(&o, head.text, head.len);
        for (int i = 0; i < m->n_param; i++) put_reals(&o, m->param[i].value, m->param[i].size);
        hash_end(&o.hash, sha256);
        *bytes = o.bytes;
        rc = whole_close(&o.whole, err);
    }
    str_free(&head);
    return rc;
}

int ckpt_read(const char *path, struct model *m, const char *config, struct lab_err *err)
{
    struct str head = { 0 };
    char *found = NULL;
    int rc = -1;
    FILE *f = fopen(path, "rbe");
    if (!f) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    header(&head, m, config);
    if (head.failed) { lab_fail(err, "out of memory for the header of %s", path); goto out; }
    if (!(found = mem_alloc(head.len, err))) goto out;
    if (fread(found, 1, head.len, f) != head.len || memcmp(found, head.text, head.len) != 0) {
        lab_fail(err, "%s: does not hold the weights of this run (its header differs)", path);
        goto out;
    }
    for (int i = 0; i < m->n_param; i++)
        if (fread(m->param[i].value, sizeof(lab_real), m->param[i].size, f) != m->param[i].size) {
            lab_fail(err, "%s: ends inside %s", path, m->param[i].name);
            goto out;
        }
    if (fgetc(f) != EOF) { lab_fail(err, "%s: has bytes after the last tensor", path); goto out; }
    rc = 0;
out:
    fclose(f);
    free(found);
    str_free(&head);
    return rc;
}

/* ---- checkpoints ---- */

enum { MARK_BYTES = 512, SUM_BYTES = HASH_HEX - 1 };

int ckpt_path(char path[CKPT_PATH], const char *base, int slot, struct lab_err *err)
{
    int n = snprintf(path, CKPT_PATH, "%s.%c", base, 'a' + slot);
    return n < CKPT_PATH ? 0 : lab_fail(err, "%.100s...: path is too long", base);
}

/* Bytes of the tensors. */
static int64_t content_bytes(const struct model *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_param; i++) n += (int64_t)m->param[i].size * ((m->param[i].m ? 3 : 1) + (m->param[i].best != NULL));
    return n * (int64_t)sizeof(lab_real);
}

/* %a is exact. */
static void print_mark(char out[MARK_BYTES], const char *key, int64_t content, const struct ckpt_mark *c)
{
    memset(out, '\n', MARK_BYTES);
    int n = snprintf(out, MARK_BYTES, "lab checkpoint 1\nrun %s\ncontent %" PRId64 "\nattempt %s\nstep %" PRId64 "\nlosses %" PRId64
                     " %a\nresult %s", key, content, c->attempt, c->step, c->in_window, c->window, *c->result ? c->result : "-");
    if (c->best_step) n += snprintf(out + n, (size_t)(MARK_BYTES - n), "\nbest %" PRId64 " %a", c->best_step, c->best);
    out[n] = '\n';
}

static int parse_mark(char text[MARK_BYTES + 1], char key[HASH_HEX], int64_t *content, struct ckpt_mark *c)
{
    text[MARK_BYTES] = '\0';
    int n = sscanf(text, "lab checkpoint 1 run %64s content %" SCNd64 " attempt %36s step %" SCNd64 " losses %" SCNd64 " %la result %64s best %" SCNd64 " %la",
                   key, content, c->attempt, &c->step, &c->in_window, &c->window, c->result, &c->best_step, &c->best);
    if (!strcmp(c->result, "-")) c->result[0] = '\0';
    return n == 7 || n == 9 ? 0 : -1;
}

int ckpt_save(const char *path, const struct model *m, const char *key, const struct ckpt_mark *mark, struct lab_err *err)
{
    struct output o;
    char text[MARK_BYTES], sum[HASH_HEX];
    if (begin(&o, path, err) != 0) return -1;
    print_mark(text, key, content_bytes(m), mark);
    put(&o, text, sizeof text);
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];
        put_reals(&o, p->value, p->size);
        put_reals(&o, p->m, p->size);
        put_reals(&o, p->v, p->size);
        put_reals(&o, p->best, p->size);
    }
    hash_end(&o.hash, sum);
    put(&o, sum, SUM_BYTES);
    return whole_close(&o.whole, err);
}

/* The SHA-256 of the next n bytes. */
static int hash_next(FILE *f, int64_t n, struct hash *hash)
{
    char piece[1 << 16];
    while (n > 0) {
        size_t want = n < (int64_t)sizeof piece ? (size_t)n : sizeof piece;
        if (fread(piece, 1, want, f) != want) return -1;
        hash_add(hash, piece, want);
        n -= (int64_t)want;
    }
    return 0;
}

/* Leaves f at the first tensor. */
static int check(FILE *f, const char *path, const char *key, int64_t *content, struct ckpt_mark *mark, struct lab_err *err)
{
    char text[MARK_BYTES + 1], owner[HASH_HEX] = "", sum[HASH_HEX] = "", found[HASH_HEX];
    struct hash hash;
    *mark = (struct ckpt_mark){ .step = 0 };
    hash_init(&hash);
    if (fread(text, 1, MARK_BYTES, f) != MARK_BYTES) return lab_fail(err, "%s: checkpoint is cut short", path);
    hash_add(&hash, text, MARK_BYTES);
    if (parse_mark(text, owner, content, mark) != 0) return lab_fail(err, "%s: is not a checkpoint of this lab", path);
    if (strcmp(owner, key)) return lab_fail(err, "%s: is a checkpoint of run %.16s, not of %.16s", path, owner, key);
    if (*content < 0 || hash_next(f, *content, &hash) != 0 || fread(sum, 1, SUM_BYTES, f) != SUM_BYTES)
        return lab_fail(err, "%s: checkpoint is cut short", path);
    hash_end(&hash, found);
    if (strcmp(sum, found) || fgetc(f) != EOF) return lab_fail(err, "%s: checkpoint is damaged: its checksum does not fit", path);
    return fseek(f, MARK_BYTES, SEEK_SET) == 0 ? 0 : lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
}

int ckpt_check(const char *path, const char *key, struct ckpt_mark *mark, struct lab_err *err)
{
    int64_t content;
    FILE *f = fopen(path, "rbe");
    if (!f && errno == ENOENT) return lab_fail(err, "%s: there is no checkpoint", path), 1;
    if (!f) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    int rc = check(f, path, key, &content, mark, err);
    fclose(f);
    return rc;
}

static int read_reals(FILE *f, lab_real *x, size_t n) { return !x || fread(x, sizeof *x, n, f) == n ? 0 : -1; }

int ckpt_load(const char *path, struct model *m, const char *key, struct ckpt_mark *mark, struct lab_err *err)
{
    int64_t content;
    FILE *f = fopen(path, "rbe");
    if (!f) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    int rc = check(f, path, key, &content, mark, err);
    if (rc == 0 && content != content_bytes(m))
        rc = lab_fail(err, "%s: holds %" PRId64 " bytes of tensors, expected %" PRId64, path, content, content_bytes(m));
    for (int i = 0; rc == 0 && i < m->n_param; i++) {
        struct model_param *p = &m->param[i];
        if (read_reals(f, p->value, p->size) != 0 || read_reals(f, p->m, p->size) != 0 || read_reals(f, p->v, p->size) != 0 ||
            read_reals(f, p->best, p->size) != 0)
            rc = lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    }
    fclose(f);
    return rc;
}

void ckpt_remove(const char *base)
{
    char path[CKPT_PATH];
    struct lab_err too_long;
    for (int slot = 0; slot < CKPT_SLOTS && ckpt_path(path, base, slot, &too_long) == 0; slot++) {
        unlink(path);
        whole_sweep(path);
    }
}
