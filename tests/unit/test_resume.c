/* test_resume -- a run that is stopped and goes on ends as if it had never stopped: records, result hash, weights, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "exp/ckpt.h"
#include "exp/train.h"

#define OK(call) do { struct lab_err err; if ((call) != 0) fail_msg("%s", err.msg); } while (0)

/* Everything that keeps a state, or draws by chance: dropout, lengths drawn anew, a schedule, clipping, an encoder with parameters.
 * Points of the curve every 7 steps, evaluations every 5: most stops fall between two points. */
#define SETTINGS \
    "[run]\nencoder = learned\ntask = reverse\nseed = 3\n[model]\nd_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\ndropout = 0.1\n" \
    "[train]\nlength = 3..6\nsteps = 60\nbatch = 4\nlog_every = 7\nschedule = cosine\nwarmup = 9\nclip = 0.5\nweight_decay = 0.01\n" \
    "[positions]\nsource = random\nmax = 16\n[encoder.learned]\nmax_len = 16\n[eval]\nlengths = 4, 6\nsequences = 20\nevery = 5\nevery_sequences = 10\n"
enum { STEPS = 60, RECORDS = 400 };

struct run {
    struct registry registry; struct conf conf; struct run_config config;
    char folder[32], base[64], weights[64];
};
struct story {                       /* what a run told: what is entered into the database, and how it ended */
    unsigned char frame[RECORDS][RECORD_FRAME_MAX];
    size_t size[RECORDS];
    int n, stop_at, hang_up_at;      /* after so many records: a signal; nobody reads any more.  0 = never */
    int64_t from;                    /* step that it went on from */
    int64_t saved;                   /* step of the last checkpoint that was told */
    volatile sig_atomic_t stop;
    struct record selected;          /* .step 0: none */
    char result[HASH_HEX];
};

static int open_with(void **state, const char *settings)
{
    static struct run run;
    const char *file[] = { TEST_BUILD "/plugins/encoders/learned.so", TEST_BUILD "/plugins/tasks/reverse.so" };
    struct lab_err err;
    run = (struct run){ .folder = "/tmp/lab-resume-XXXXXX" };
    if (!mkdtemp(run.folder)) return -1;
    snprintf(run.base, sizeof run.base, "%s/run", run.folder);
    snprintf(run.weights, sizeof run.weights, "%s/w", run.folder);
    *state = &run;
    return registry_load_files(&run.registry, file, 2, &err) != 0 || conf_read_text(&run.conf, "test", settings, strlen(settings), &err) != 0 ||
           config_build(&run.config, run.conf.entry, run.conf.n, &run.registry, &err) != 0;
}

static int open_run(void **state) { return open_with(state, SETTINGS); }
static int open_best(void **state) { return open_with(state, SETTINGS "select = best_valid\n"); }       /* with weights put aside */

static int close_run(void **state)
{
    struct run *run = *state;
    char command[64];
    config_free(&run->config);
    conf_free(&run->conf);
    registry_free(&run->registry);
    snprintf(command, sizeof command, "rm -r %s", run->folder);
    return system(command);
}

static int is_result(const struct record *r) { return r->type == RECORD_METRIC || r->type == RECORD_EVAL || r->type == RECORD_EVAL_POSITION; }

static int listen(void *ctx, const struct record *r)
{
    struct story *s = ctx;
    if (s->hang_up_at && s->n >= s->hang_up_at) return -1;
    if (r->type == RECORD_CHECKPOINT) s->saved = r->step;
    if (r->type == RECORD_SELECTED) s->selected = *r;
    if (r->type == RECORD_DONE) memcpy(s->result, r->sha256, sizeof s->result);
    if (!is_result(r)) return 0;
    assert_true(s->n < RECORDS);
    s->size[s->n] = record_encode(r, s->frame[s->n]);
    s->n++;
    if (s->n == s->stop_at) s->stop = 1;
    return 0;
}

/* One attempt; goes on from the newest sound checkpoint if there is one. */
static enum train_status attempt(struct run *run, struct story *s)
{
    struct record_sink sink = { listen, s };
    struct train_job job = { .config = &run->config, .weights = run->weights, .checkpoint = run->base, .resume = -1, .attempt = "test",
                             .sink = &sink, .stop = &s->stop };
    struct lab_err err = { "" };
    for (int slot = 0; slot < CKPT_SLOTS; slot++) {
        struct ckpt_mark mark;
        char path[CKPT_PATH];
        OK(ckpt_path(path, run->base, slot, &err));
        if (ckpt_check(path, run->config.key, &mark, &err) == 0 && mark.step > job.from_step) job.resume = slot, job.from_step = mark.step;
    }
    s->from = job.from_step;
    enum train_status status = train_run(&job, &err);
    if (status == TRAIN_FAILED) fail_msg("%s", err.msg);
    return status;
}

static struct record record_of(const struct story *s, int i)
{
    struct record r;
    struct lab_err err;
    assert_true(record_decode(&r, s->frame[i], s->size[i], &err) > 0);
    return r;
}

static int step_of(const struct story *s, int i) { return (int)record_of(s, i).step; }

/* What counts of an attempt that was gone on from: the curve up to the checkpoint. */
static int counts(const struct record *r, int64_t from_step) { return r->step <= from_step && strcmp(r->split, "test"); }

static void append(struct story *whole, const struct story *piece)
{
    struct record last;
    while (whole->n && (last = record_of(whole, whole->n - 1), !counts(&last, piece->from))) whole->n--;
    for (int i = 0; i < piece->n; i++, whole->n++) {
        memcpy(whole->frame[whole->n], piece->frame[i], piece->size[i]);
        whole->size[whole->n] = piece->size[i];
    }
    memcpy(whole->result, piece->result, sizeof whole->result);
}

static void expect_same(const struct story *found, const struct story *wanted)
{
    assert_int_equal(found->n, wanted->n);
    for (int i = 0; i < wanted->n; i++)
        if (found->size[i] != wanted->size[i] || memcmp(found->frame[i], wanted->frame[i], wanted->size[i]))
            fail_msg("record %d (step %d) differs", i, step_of(wanted, i));
    assert_string_equal(found->result, wanted->result);
}

static void weights_hash(const struct run *run, char hex[HASH_HEX]) { OK(hash_file(run->weights, hex, &err)); }

static void clear_folder(const struct run *run)
{
    char command[64];
    snprintf(command, sizeof command, "rm -f %s/*", run->folder);
    assert_int_equal(system(command), 0);
}

static struct story undisturbed, whole, piece;
static char undisturbed_weights[HASH_HEX];

static void run_undisturbed(struct run *run)
{
    memset(&undisturbed, 0, sizeof undisturbed);
    assert_int_equal(attempt(run, &undisturbed), TRAIN_DONE);
    assert_int_equal(undisturbed.n, 8 + 1 + 12 * 2 + 2 + 4 + 6);         /* points, the last one, evaluations, final ones, by position */
    assert_int_equal(strlen(undisturbed.result), 64);
    weights_hash(run, undisturbed_weights);
}

static void expect_undisturbed(const struct run *run)
{
    char weights[HASH_HEX];
    expect_same(&whole, &undisturbed);
    weights_hash(run, weights);
    assert_string_equal(weights, undisturbed_weights);
}

/* ---- tests ---- */

/* The first of the best by the evaluations that were told; weights of that step, not of the last. */
static void the_best_in_validation_is_kept(void **state)
{
    struct run *run = *state;
    char last[HASH_HEX];
    double best = -1;
    int64_t step = 0;
    run_undisturbed(run);
    for (int i = 0; i < undisturbed.n; i++) {
        struct record four = record_of(&undisturbed, i), six;
        if (four.type != RECORD_EVAL || strcmp(four.split, "valid") || four.length != 4) continue;
        six = record_of(&undisturbed, i + 1);
        assert_int_equal(six.length, 6);
        assert_int_equal(six.step, four.step);
        double score = (double)four.n_tok_ok / (double)four.n_tok / 2 + (double)six.n_tok_ok / (double)six.n_tok / 2;
        if (score > best) best = score, step = four.step;
    }
    assert_int_equal(undisturbed.selected.step, step);
    assert_true(undisturbed.selected.value - best < 1e-12 && best - undisturbed.selected.value < 1e-12);
    assert_in_range(step, 5, STEPS - 5);                                /* else the test shows nothing: take another seed */
    memcpy(last, undisturbed_weights, sizeof last);
    run->config.eval.select = SELECT_LAST;                              /* the key is the other one's, which only the checkpoints know */
    clear_folder(run);
    memset(&whole, 0, sizeof whole);
    assert_int_equal(attempt(run, &whole), TRAIN_DONE);
    assert_int_equal(whole.selected.step, 0);
    char other[HASH_HEX];
    weights_hash(run, other);
    assert_string_not_equal(other, last);
    for (int i = 0; i < undisturbed.n; i++)                             /* training is the same */
        if (strcmp(record_of(&whole, i).split, "test") && (whole.size[i] != undisturbed.size[i] || memcmp(whole.frame[i], undisturbed.frame[i], whole.size[i])))
            fail_msg("record %d differs", i);
}

static void stopped_anywhere_it_goes_on_as_if_never_stopped(void **state)
{
    struct run *run = *state;
    run_undisturbed(run);
    for (int at = 1; at <= undisturbed.n; at++) {
        clear_folder(run);
        memset(&whole, 0, sizeof whole);
        memset(&piece, 0, sizeof piece);
        whole.stop_at = at;
        enum train_status status = attempt(run, &whole);
        if (status == TRAIN_DONE && at > undisturbed.n - 7) continue;    /* the signal came while the last result was told */
        assert_int_equal(status, TRAIN_STOPPED);
        assert_int_equal(attempt(run, &piece), TRAIN_DONE);
        assert_int_equal(piece.from, step_of(&whole, whole.n - 1));     /* the step was finished, and nothing is told twice */
        for (int i = 0; i < piece.n; i++) assert_true(step_of(&piece, i) > piece.from || !strcmp(record_of(&piece, i).split, "test"));
        append(&whole, &piece);
        expect_undisturbed(run);
    }
}

static void stopped_again_and_again_it_comes_to_the_same(void **state)
{
    struct run *run = *state;
    run_undisturbed(run);
    for (int each = 1; each <= 9; each += 4) {
        int attempts = 0;
        enum train_status status = TRAIN_STOPPED;
        clear_folder(run);
        memset(&whole, 0, sizeof whole);
        for (; status != TRAIN_DONE; attempts++) {
            memset(&piece, 0, sizeof piece);
            piece.stop_at = attempts < 100 ? each : 0;                  /* the final evaluation needs one to itself */
            status = attempt(run, &piece);
            append(&whole, &piece);
        }
        assert_in_range(attempts, 4, 101);
        expect_undisturbed(run);
    }
}

/* A worker that is killed saves nothing more: it goes on from the checkpoint before, and tells some of it again, alike. */
static void killed_anywhere_it_goes_on_from_the_last_checkpoint(void **state)
{
    struct run *run = *state;
    run_undisturbed(run);
    run->config.limits.checkpoint = 1e-9;                               /* after every step */
    for (int at = 1; at < undisturbed.n; at += 4) {
        clear_folder(run);
        memset(&whole, 0, sizeof whole);
        memset(&piece, 0, sizeof piece);
        whole.hang_up_at = at;
        assert_int_equal(attempt(run, &whole), TRAIN_STOPPED);
        assert_int_equal(attempt(run, &piece), TRAIN_DONE);
        append(&whole, &piece);
        expect_undisturbed(run);
    }
    run->config.limits.checkpoint = 60;
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(c ^ 1, f), c ^ 1);
    assert_int_equal(fclose(f), 0);
}

static void a_damaged_checkpoint_is_seen_and_the_one_before_it_used(void **state)
{
    struct run *run = *state;
    char path[2][CKPT_PATH];
    struct ckpt_mark mark[2];
    struct stat st;
    struct lab_err err;
    run_undisturbed(run);
    clear_folder(run);
    run->config.limits.checkpoint = 1e-9;
    memset(&whole, 0, sizeof whole);
    whole.stop_at = 20;
    assert_int_equal(attempt(run, &whole), TRAIN_STOPPED);
    run->config.limits.checkpoint = 60;
    for (int i = 0; i < 2; i++) {
        OK(ckpt_path(path[i], run->base, i, &err));
        OK(ckpt_check(path[i], run->config.key, &mark[i], &err));
    }
    int newer = mark[1].step > mark[0].step;
    assert_int_equal(mark[newer].step, mark[!newer].step + 1);
    assert_int_equal(stat(path[newer], &st), 0);
    for (long at = 0; at < st.st_size; at += at < 600 ? 1 : 97) {       /* every byte of the mark; some of the rest */
        flip(path[newer], at);
        assert_int_equal(ckpt_check(path[newer], run->config.key, &mark[newer], &err), -1);
        assert_non_null(strstr(err.msg, path[newer]));
        flip(path[newer], at);
    }
    OK(ckpt_check(path[newer], run->config.key, &mark[newer], &err));
    assert_int_equal(ckpt_check(path[newer], "another run's key", &mark[newer], &err), -1);
    for (off_t size = 0; size < st.st_size; size += st.st_size / 9 + 1) {
        assert_int_equal(truncate(path[newer], size), 0);
        assert_int_equal(ckpt_check(path[newer], run->config.key, &mark[newer], &err), -1);
    }
    memset(&piece, 0, sizeof piece);
    assert_int_equal(attempt(run, &piece), TRAIN_DONE);                 /* from the older one */
    append(&whole, &piece);
    expect_undisturbed(run);
}

static void a_checkpoint_that_cannot_be_written_stops_nothing(void **state)
{
    struct run *run = *state;
    run_undisturbed(run);
    clear_folder(run);
    char base[64];
    memcpy(base, run->base, sizeof base);
    snprintf(run->base, sizeof run->base, "%s/no/such/folder/run", run->folder);
    run->config.limits.checkpoint = 1e-9;
    int out = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2);                                                      /* it complains at each step */
    memset(&whole, 0, sizeof whole);
    enum train_status status = attempt(run, &whole);
    dup2(out, 2);
    close(out), close(null);
    assert_int_equal(status, TRAIN_DONE);
    expect_undisturbed(run);
    assert_int_equal(whole.saved, 0);
    memcpy(run->base, base, sizeof base);
    run->config.limits.checkpoint = 60;
}

/* What a dead one left goes; what a living one, of another database say, has under its hands stays. */
static void a_killed_writer_leaves_nothing_in_the_way(void **state)
{
    struct run *run = *state;
    char path[CKPT_PATH + 32], living[sizeof path];
    int folder = (int)(strrchr(run->base, '/') - run->base) + 1;
    snprintf(path, sizeof path, "%.*s.tmp-%s.a.a1B2c3", folder, run->base, run->base + folder);
    snprintf(living, sizeof living, "%.*s.tmp-%s.a.d4E5f6", folder, run->base, run->base + folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100000; i++) fputc('x', f);
    fclose(f);
    int fd = open(living, O_WRONLY | O_CREAT, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    memset(&piece, 0, sizeof piece);
    piece.stop_at = 3;
    assert_int_equal(attempt(run, &piece), TRAIN_STOPPED);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access(living, F_OK), 0);
    close(fd);
    unlink(living);
    struct ckpt_mark mark;
    snprintf(path, sizeof path, "%s.a", run->base);
    OK(ckpt_check(path, run->config.key, &mark, &err));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_run, close_run)
#define BEST(f) { #f " (best_valid)", f, open_best, close_run, NULL }
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stopped_anywhere_it_goes_on_as_if_never_stopped), TEST(stopped_again_and_again_it_comes_to_the_same),
        TEST(killed_anywhere_it_goes_on_from_the_last_checkpoint), TEST(a_damaged_checkpoint_is_seen_and_the_one_before_it_used),
        TEST(a_checkpoint_that_cannot_be_written_stops_nothing), TEST(a_killed_writer_leaves_nothing_in_the_way),
        BEST(the_best_in_validation_is_kept), BEST(stopped_anywhere_it_goes_on_as_if_never_stopped), BEST(stopped_again_and_again_it_comes_to_the_same),
        BEST(killed_anywhere_it_goes_on_from_the_last_checkpoint), BEST(a_damaged_checkpoint_is_seen_and_the_one_before_it_used) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
