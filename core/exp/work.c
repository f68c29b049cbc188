/* work -- see work.h.
 *
 * A job is thirteen texts, each ended by NUL, so that a path may hold any character:
 * "lab job 3", kind, run key, encoder's file and its SHA-256, task's file and its SHA-256, weights' path, checkpoints' path,
 * attempt, the checkpoint to go on from (a or b and its step, or nothing), lengths and the run's settings.
 * Plugins run inside this process: whatever they do to it, the supervisor sees a pipe that ends.
 */
#include "exp/work.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "exp/ceiling.h"
#include "exp/ckpt.h"
#include "exp/train.h"

enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_INTERRUPTED = 75,
       JOB_MAX = 1 << 20,            /* bytes; a job of 512 lengths and all options takes a hundredth of it */
       FLUSH_NS = 100 * 1000 * 1000 };

/* ---- the job as text ---- */

static const char *const kind_name[] = { [WORK_TRAIN] = "train", [WORK_EVALUATE] = "evaluate", [WORK_CEILING] = "ceiling" };
enum { N_KIND = sizeof kind_name / sizeof *kind_name };

enum field { FORMAT, KIND, KEY, ENCODER_FILE, ENCODER_SHA256, TASK_FILE, TASK_SHA256, WEIGHTS, CHECKPOINT, ATTEMPT, RESUME, LENGTHS, SETTINGS, N_FIELD };
static const char format[] = "lab job 3";

static const struct lab_option lengths_row = { "lengths", OPTION_LIST, 0, NULL, 1, INT32_MAX, NULL, NULL };

static void add_field(struct str *out, const char *text) { str_addn(out, text, strlen(text) + 1); }

void work_write(struct str *out, const struct work_job *job)
{
    struct str lengths = { 0 };
    char resume[32] = "";
    if (job->resume >= 0) snprintf(resume, sizeof resume, "%c%lld", 'a' + job->resume, (long long)job->from_step);
    option_print(&lengths, &lengths_row, &job->lengths);
    add_field(out, format);
    add_field(out, kind_name[job->kind]);
    add_field(out, job->config->key);
    add_field(out, job->config->encoder_file->path);
    add_field(out, job->config->encoder_file->sha256);
    add_field(out, job->config->task_file->path);
    add_field(out, job->config->task_file->sha256);
    add_field(out, job->weights);
    add_field(out, job->checkpoint);
    add_field(out, job->attempt);
    add_field(out, resume);
    add_field(out, str_text(&lengths));
    add_field(out, job->config->settings);
    if (lengths.failed) out->failed = 1;
    str_free(&lengths);
}

struct job {                         /* as it arrives */
    const char *field[N_FIELD];
    enum work_kind kind;
    int resume;
    int64_t from_step;
    struct option_list lengths;
};

static int parse_resume(struct job *job, struct lab_err *err)
{
    const char *text = job->field[RESUME];
    job->resume = -1;
    if (!*text) return 0;
    job->resume = *text - 'a';
    if (job->resume >= 0 && job->resume < CKPT_SLOTS && str_to_int(text + 1, 0, INT64_MAX, &job->from_step)) return 0;
    return lab_fail(err, "unknown checkpoint '%.20s'", text);
}

static int parse_job(struct job *job, const struct str *text, struct lab_err *err)
{
    const char *p = str_text(text), *end = p + text->len;
    for (int i = 0; i < N_FIELD; i++) {
        const char *nul = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;
        if (!nul) return lab_fail(err, "the job ends after %d of %d fields", i, N_FIELD);
        job->field[i] = p;
        p = nul + 1;
    }
    if (p != end) return lab_fail(err, "the job goes on after its last field");
    if (strcmp(job->field[FORMAT], format))
        return lab_fail(err, "not a job for this lab: it starts with '%.20s', expected '%s'", job->field[FORMAT], format);
    int kind = 0;
    while (kind < N_KIND && strcmp(kind_name[kind], job->field[KIND])) kind++;
    if (kind == N_KIND) return lab_fail(err, "unknown kind of job '%.20s'", job->field[KIND]);
    job->kind = (enum work_kind)kind;
    if (parse_resume(job, err) != 0) return -1;
    return option_set(&lengths_row, &job->lengths, job->field[LENGTHS], err);
}

static int read_job(struct str *text, int fd, struct lab_err *err)
{
    char piece[4096];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return lab_fail(err, "cannot read the job: %s", strerror(errno));
        if (n == 0) return text->failed ? lab_fail(err, "out of memory for the job") : 0;
        if (text->len + (size_t)n > JOB_MAX) return lab_fail(err, "the job is over %d bytes", JOB_MAX);
        str_addn(text, piece, (size_t)n);
    }
}

/* ---- records on their way out: gathered, sent ten times a second and at each checkpoint ---- */

struct outlet {
    int fd, broken;                  /* broken: nobody reads any more */
    size_t n;
    int64_t flushed_ns;
    unsigned char bytes[64 * RECORD_FRAME_MAX];
};

static int flush(struct outlet *out)
{
    size_t sent = 0;
    while (sent < out->n && !out->broken) {
        ssize_t n = write(out->fd, out->bytes + sent, out->n - sent);
        if (n >= 0) sent += (size_t)n;
        else if (errno != EINTR) out->broken = 1;
    }
    out->n = 0;
    out->flushed_ns = clock_ns();
    return out->broken ? -1 : 0;
}

static int emit(void *ctx, const struct record *r)
{
    struct outlet *out = ctx;
    if (out->broken) return -1;
    out->n += record_encode(r, out->bytes + out->n);
    int room = out->n + RECORD_FRAME_MAX <= sizeof out->bytes;
    int waits = r->type != RECORD_CHECKPOINT && clock_ns() - out->flushed_ns < FLUSH_NS;
    return room && waits ? 0 : flush(out);
}

/* ---- the process ---- */

static volatile sig_atomic_t stop;
static void request_stop(int signal) { (void)signal; stop = 1; }

/* 0, or -1 when the supervisor is gone already. */
static int settle(int out_fd)
{
    struct sigaction on_stop = { .sa_handler = request_stop, .sa_flags = SA_RESTART }, ignore = { .sa_handler = SIG_IGN };
    sigaction(SIGTERM, &on_stop, NULL);
    sigaction(SIGINT, &on_stop, NULL);
    sigaction(SIGHUP, &on_stop, NULL);
    sigaction(SIGUSR1, &on_stop, NULL);
    sigaction(SIGUSR2, &on_stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });            /* a crashing plugin must not fill the disk */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd reader = { .fd = out_fd };                     /* it may have died before the line above: then nobody reads */
    return poll(&reader, 1, 0) == 1 && reader.revents & (POLLERR | POLLNVAL) ? -1 : 0;
}

/* One record; 0, 1 for a stop, -1 for a failure. */
static int compute_ceiling(int kind, int length, const struct run_config *config, const struct record_sink *sink, struct lab_err *err)
{
    struct ceiling ceiling;
    if (stop) return *err->msg = '\0', 1;
    if (ceiling_compute(kind, config->task, config->task_self, &config->task_info, length, &ceiling, err) != 0) return -1;
    struct record r = { .type = RECORD_CEILING, .length = length, .n = ceiling.samples, .value = ceiling.value, .error = ceiling.error };
    snprintf(r.name, sizeof r.name, "%s", ceiling_name[kind]);
    return record_emit(sink, &r) != 0;
}

static enum train_status compute_ceilings(const struct job *job, const struct run_config *config, const struct record_sink *sink,
                                          struct lab_err *err)
{
    enum train_status status = TRAIN_DONE;
    for (int i = 0; i < job->lengths.n; i++)
        for (int kind = 0; kind < CEILING_KINDS; kind++) {
            if (!ceiling_applies(kind, config->task, config->model.causal)) continue;
            int rc = compute_ceiling(kind, job->lengths.v[i], config, sink, err);
            if (rc > 0) return TRAIN_STOPPED;
            if (rc < 0) status = TRAIN_FAILED;                   /* the others may do */
        }
    if (status == TRAIN_DONE) record_emit(sink, &(struct record){ .type = RECORD_DONE });
    return status;
}

static enum train_status do_job(struct job *job, struct run_config *config, const struct record_sink *sink, struct lab_err *err)
{
    struct record start = { .type = RECORD_START };
    memcpy(start.sha256, config->key, sizeof start.sha256);
    if (record_emit(sink, &start) != 0) return TRAIN_STOPPED;
    struct train_job train = { .config = config, .weights = job->field[WEIGHTS], .checkpoint = job->field[CHECKPOINT], .resume = job->resume,
                               .from_step = job->from_step, .attempt = job->field[ATTEMPT], .sink = sink, .stop = &stop };
    config->eval.lengths = job->lengths;
    switch (job->kind) {
    case WORK_TRAIN: return train_run(&train, err);
    case WORK_EVALUATE: return train_evaluate(&train, err);
    case WORK_CEILING: break;
    }
    return compute_ceilings(job, config, sink, err);
}

static int check_key(const struct run_config *config, const char *key, struct lab_err *err)
{
    if (!strcmp(config->key, key)) return 0;
    return lab_fail(err, "the job is run %.16s, but here its settings are run %.16s: were the plugins or lab changed meanwhile? run again",
                    key, config->key);
}

/* What is trained is entered as trained by the file that the supervisor has seen. */
static int check_file(const struct plugin_file *file, const char *sha256, struct lab_err *err)
{
    if (!strcmp(file->sha256, sha256)) return 0;
    return lab_fail(err, "%s was changed after `lab` had begun; `lab retry` trains with what it is now", file->path);
}

/* The run of the job, built anew from its settings and its two plugin files, then done. */
static enum train_status load_and_do(struct job *job, const struct record_sink *sink, struct lab_err *err)
{
    enum train_status status = TRAIN_FAILED;
    struct registry registry = { 0 };
    struct conf conf = { 0 };
    struct run_config config = { 0 };
    const char *path[] = { job->field[ENCODER_FILE], job->field[TASK_FILE] };
    int one_file = !strcmp(path[0], path[1]);
    if (registry_load_files(&registry, path, one_file ? 1 : 2, err) != 0) return TRAIN_FAILED;
    if (conf_read_text(&conf, "job", job->field[SETTINGS], strlen(job->field[SETTINGS]), err) != 0) goto out;
    if (config_build(&config, conf.entry, conf.n, &registry, err) != 0) goto out_conf;
    if (check_file(config.encoder_file, job->field[ENCODER_SHA256], err) == 0 && check_file(config.task_file, job->field[TASK_SHA256], err) == 0 &&
        check_key(&config, job->field[KEY], err) == 0) status = do_job(job, &config, sink, err);
    config_free(&config);
out_conf:
    conf_free(&conf);
out:
    registry_free(&registry);
    return status;
}

int work_main(int in_fd, int out_fd)
{
    static struct outlet out;
    struct record_sink sink = { emit, &out };
    struct str text = { 0 };
    struct job job;
    struct lab_err err = { "no reason given" };
    out.fd = out_fd;
    if (settle(out_fd) != 0) return STATUS_INTERRUPTED;
    enum train_status status = TRAIN_FAILED;
    if (read_job(&text, in_fd, &err) == 0 && parse_job(&job, &text, &err) == 0) status = load_and_do(&job, &sink, &err);

    struct record end = { .type = status == TRAIN_STOPPED ? RECORD_STOPPED : RECORD_FAILED };
    memcpy(end.text, err.msg, sizeof end.text);
    if (status != TRAIN_DONE) emit(&out, &end);
    flush(&out);
    str_free(&text);
    if (out.broken) return STATUS_INTERRUPTED;                   /* no supervisor: nobody to tell, nobody to fail */
    return status == TRAIN_DONE ? STATUS_DONE : status == TRAIN_STOPPED ? STATUS_INTERRUPTED : STATUS_FAILED;
}
