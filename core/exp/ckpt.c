/* ckpt -- see ckpt.h.  Format: u64 length of the header, JSON header padded with blanks to 8 bytes, F32 (F64) data. */
#include "exp/ckpt.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/str.h"

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

static int write_all(int fd, const void *bytes, size_t n, struct hash *hash)
{
    const char *p = bytes;
    hash_add(hash, bytes, n);
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

/* After a rename the folder's entry itself must reach the disk. */
static int sync_folder(const char *path)
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int rc = fsync(fd);
    close(fd);
    return rc;
}

int ckpt_write(const char *path, const struct model *m, const char *config, char sha256[HASH_HEX], int64_t *bytes, struct lab_err *err)
{
    char temporary[4096];
    struct str head = { 0 };
    struct hash hash;
    int rc = -1, fd = -1;
    hash_init(&hash);
    header(&head, m, config);
    if (head.failed) { lab_fail(err, "out of memory for the header of %s", path); goto out; }
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >= sizeof temporary) {
        lab_fail(err, "%s: path is too long", path);
        goto out;
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) { lab_fail(err, "%s: cannot be created: %s", temporary, strerror(errno)); goto out; }
    int ok = write_all(fd, head.text, head.len, &hash) == 0;
    *bytes = (int64_t)head.len;
    for (int i = 0; i < m->n_param && ok; i++) {
        ok = write_all(fd, m->param[i].value, m->param[i].size * sizeof(lab_real), &hash) == 0;
        *bytes += (int64_t)(m->param[i].size * sizeof(lab_real));
    }
    if (!ok || fsync(fd) != 0 || rename(temporary, path) != 0 || sync_folder(path) != 0) {
        lab_fail(err, "%s: cannot be written: %s", path, strerror(errno));
        unlink(temporary);
        goto out;
    }
    hash_end(&hash, sha256);
    rc = 0;
out:
    if (fd >= 0) close(fd);
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
