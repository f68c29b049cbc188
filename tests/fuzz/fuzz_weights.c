/* fuzz_weights -- files of weights and checkpoints.  What is not this run's is refused and, of a checkpoint, leaves the model as it
 * was.  The first byte: even, weights; odd, a checkpoint; bit 1 puts a checkpoint's checksum right first. */
#include "fuzz/fuzz.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "exp/ckpt.h"

static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static struct model *model(void)
{
    static const struct lab_encoder nothing = { .size = sizeof nothing, .name = "nothing", .summary = "no positions" };
    static struct model m;
    struct lab_err err;
    struct model_setup setup = { .options = { .d_model = 4, .heads = 1, .layers = 1, .d_ff = 4 }, .vocab_in = 3, .vocab_out = 3, .encoder = &nothing,
        .dims = { .size = sizeof(struct lab_dims), .n_layer = 1, .n_head = 1, .d_model = 4, .d_head = 4, .train_len = 2, .max_len = 2, .max_pos = 2 },
        .train_batch = 1, .train_len = 2, .infer_tokens = 2, .infer_len = 2, .seed = 1 };
    if (!m.n_param && model_init(&m, &setup, &err) != 0) fprintf(stderr, "%s\n", err.msg), exit(1);
    return &m;
}

static void fill(struct model *m, lab_real x)
{
    for (int i = 0; i < m->n_param; i++) for (size_t k = 0; k < m->param[i].size; k++) m->param[i].value[k] = m->param[i].m[k] = m->param[i].v[k] = x;
}

static int is_filled(const struct model *m, lab_real x)
{
    for (int i = 0; i < m->n_param; i++)
        for (size_t k = 0; k < m->param[i].size; k++) if (m->param[i].value[k] != x || m->param[i].m[k] != x || m->param[i].v[k] != x) return 0;
    return 1;
}

static void mend(uint8_t *bytes, size_t n)
{
    char hex[HASH_HEX];
    if (n < HASH_HEX - 1) return;
    hash_bytes(bytes, n - (HASH_HEX - 1), hex);
    memcpy(bytes + n - (HASH_HEX - 1), hex, HASH_HEX - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static uint8_t bytes[1 << 16];
    char path[64];
    struct model *m = model();
    struct ckpt_mark mark;
    struct lab_err err = { "" };
    if (size < 1 || size > sizeof bytes) return 0;
    if (fd < 0) fd = memfd_create("weights", 0);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 2) mend(bytes, size - 1);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, size - 1, 0) != (ssize_t)size - 1) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fill(m, 7);
    if (!(data[0] & 1)) {
        if (ckpt_read(path, m, "{}", &err) != 0) MUST(*err.msg);
        return 0;
    }
    int sound = ckpt_check(path, key, &mark, &err) == 0, loaded = ckpt_load(path, m, key, &mark, &err) == 0;
    MUST(sound || !loaded);
    MUST(loaded || is_filled(m, 7));
    MUST(!sound || (strlen(mark.attempt) < CKPT_NAME && strlen(mark.result) < HASH_HEX));
    return 0;
}
