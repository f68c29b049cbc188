/* hash -- SHA-256 in hexadecimal, for identities and for files.  The digest itself is libmd's. */
#ifndef LAB_BASE_HASH_H
#define LAB_BASE_HASH_H
#include <stddef.h>
#include <sys/types.h>
#include <sha2.h>
#include "abi/lab_plugin.h"

#define HASH_HEX 65                  /* 64 digits and NUL */

struct hash { SHA2_CTX ctx; };
void hash_init(struct hash *);
void hash_add(struct hash *, const void *bytes, size_t n);
void hash_end(struct hash *, char hex[HASH_HEX]);

void hash_bytes(const void *bytes, size_t n, char hex[HASH_HEX]);
int  hash_file(const char *path, char hex[HASH_HEX], struct lab_err *err);
#endif
