/* hash -- see hash.h. */
#include "base/hash.h"
#include <errno.h>
#include <string.h>

void hash_init(struct hash *h) { SHA256Init(&h->ctx); }
void hash_add(struct hash *h, const void *bytes, size_t n) { SHA256Update(&h->ctx, bytes, n); }
void hash_end(struct hash *h, char hex[HASH_HEX]) { SHA256End(&h->ctx, hex); }

void hash_bytes(const void *bytes, size_t n, char hex[HASH_HEX])
{
    struct hash h;
    hash_init(&h);
    hash_add(&h, bytes, n);
    hash_end(&h, hex);
}

int hash_file(const char *path, char hex[HASH_HEX], struct lab_err *err)
{
    if (!SHA256File(path, hex)) return lab_fail(err, "%s: cannot be read: %s", path, strerror(errno));
    return 0;
}
