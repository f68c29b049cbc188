/* Tests of answer/status.c: what is counted, who is believed to run, and what a reader sees of it. */
#include "unit/store_fixture.h"
#include "answer/status.h"

static struct store *made_up(const char *path)
{
    struct store *s;
    int64_t sweep, run[7];
    OK(store_open(&s, path, STORE_WRITE, &err));
    OK(store_put_sweep(s, key(1), "first", "?", "first.ini", "[sweep]", &sweep, &err));
    for (int i = 0; i < 7; i++) {
        run[i] = add_run(s, 100 + i, "rope", "reverse", i, ",\"x\":1");
        OK(store_put_cell(s, sweep, i, run[i], i == 6 ? "model.heads=2" : "", &err));
    }
    end_attempt(s, begin_attempt(s, run[0]), "done", NULL);
    end_attempt(s, begin_attempt(s, run[1]), "failed", "loss is nan at step 2");
    end_attempt(s, begin_attempt(s, run[2]), "interrupted", "SIGTERM");
    end_attempt(s, begin_attempt(s, run[3]), "timeout", "took longer");
    int64_t running = begin_attempt(s, run[4]), dead = begin_attempt(s, run[5]);
    put_metric(s, running, "loss", 10, 2.25);
    put_metric(s, running, "loss", 20, 0.5);
    put_metric(s, dead, "loss", 10, NAN);
    OK(store_put_sweep(s, key(2), "second", "?", "second.ini", "[sweep]", &sweep, &err));
    OK(store_put_cell(s, sweep, 0, run[0], "", &err));
    return s;
}

static void counts_what_each_sweep_asked_for(void **state)
{
    (void)state;
    const char *path = in_folder("counts.db");
    struct store *s = made_up(path);
    change(path, "UPDATE run SET config = json_set(config, '$.train.steps', 4000)");
    change(path, "UPDATE attempt SET boot_id = 'of last year', pid = 77, host = 'elsewhere' WHERE attempt_id = 6");     /* its process is gone */
    change(path, "UPDATE attempt SET last_step = 23 WHERE attempt_id = 5");
    struct status st;
    OK(status_read(&st, s, NULL, &err));
    assert_int_equal(st.n, 2);
    assert_string_equal(st.sweep[0].name, "second");         /* the one entered last comes first */
    assert_int_equal(st.sweep[0].runs, 1);
    assert_int_equal(st.sweep[0].count[STORE_DONE], 1);
    const struct status_sweep *first = &st.sweep[1];
    static const int expected[] = { [STORE_PENDING] = 1, [STORE_RUNNING] = 1, [STORE_DONE] = 1, [STORE_FAILED] = 2, [STORE_INTERRUPTED] = 2 };
    for (int i = 0; i < 5; i++) if (first->count[i] != expected[i]) fail_msg("state %d: %d, expected %d", i, (int)first->count[i], expected[i]);
    assert_int_equal(first->n, 5);
    const struct status_run *failed = &first->run[0], *running = &first->run[3], *dead = &first->run[4];
    assert_string_equal(failed->reason, "loss is nan at step 2");
    assert_int_equal(failed->step, 2000);
    assert_int_equal(running->state, STORE_RUNNING);
    assert_int_equal(running->pid, getpid());
    assert_int_equal(running->step, 23);
    assert_int_equal(running->steps, 4000);
    assert_true(running->loss == 0.5);
    assert_int_equal(dead->state, STORE_INTERRUPTED);
    assert_string_equal(dead->reason, "process 77 on elsewhere ended without a word");
    assert_true(isnan(dead->loss));
    assert_false(status_is_over(&st));
    status_release(&st);

    OK(status_read(&st, s, key(2), &err));
    assert_int_equal(st.n, 1);
    assert_true(status_is_over(&st));
    status_release(&st);
    assert_int_equal(status_read(&st, s, key(3), &err), STATUS_NO_SWEEP);
    assert_non_null(strstr(err.msg, "was never run here"));
    store_close(s);
}

static void shows_names_without_obeying_them(void **state)
{
    (void)state;
    const char *path = in_folder("names.db");
    struct store *s = made_up(path);
    change(path, "UPDATE sweep SET name = 'a' || char(27) || '[2J' || char(10) || 'b'; UPDATE attempt SET reason = char(27) || ']0;x' || char(7) WHERE reason IS NOT NULL");
    struct status st;
    struct str text = { 0 }, json = { 0 };
    OK(status_read(&st, s, NULL, &err));
    status_print(&st, &text);
    status_json(&st, &json);
    assert_null(strchr(text.text, '\033'));
    assert_null(strchr(text.text, '\a'));
    assert_non_null(strstr(text.text, "a\\x1b[2J\\x0ab: 7 runs: 1 done, 2 running, 1 interrupted, 2 failed, 1 pending\n"));
    assert_null(strchr(json.text, '\033'));
    assert_non_null(strstr(json.text, "\"name\": \"a\\u001b[2J\\nb\""));
    status_release(&st);
    str_free(&text);
    str_free(&json);
    store_close(s);
}

static void long_lists_are_cut_and_counted(void **state)
{
    (void)state;
    struct store *s;
    int64_t sweep;
    OK(store_open(&s, in_folder("long.db"), STORE_WRITE, &err));
    OK(store_put_sweep(s, key(1), "long", "?", "long.ini", "[sweep]", &sweep, &err));
    for (int i = 0; i < 25; i++) {
        int64_t run = add_run(s, i, "rope", "reverse", i, "");
        OK(store_put_cell(s, sweep, i, run, "", &err));
        end_attempt(s, begin_attempt(s, run), "failed", "no memory");
    }
    struct status st;
    struct str text = { 0 };
    OK(status_read(&st, s, NULL, &err));
    status_print(&st, &text);
    int lines = 0;
    for (const char *p = text.text; (p = strstr(p, "no memory")); p++) lines++;
    assert_int_equal(lines, 10);
    assert_non_null(strstr(text.text, "... and 15 more; `lab query @failures` lists them\n"));
    assert_non_null(strstr(text.text, "`lab retry`"));
    status_release(&st);
    str_free(&text);
    store_close(s);
}

/* Alone one process would need 10 s, the other 15 s: together they need 6. */
static void processes_that_share_a_sweep_share_its_time(void **state)
{
    (void)state;
    const char *path = in_folder("shared.db");
    struct store *s = made_up(path);
    change(path, "UPDATE attempt SET status = 'running', ended_us = NULL WHERE run_id IN (4, 6)");
    struct status st;
    OK(status_read(&st, s, key(1), &err));
    struct status_sweep *sweep = &st.sweep[0];
    assert_true(status_left(&st, sweep) < 0);                /* nobody has said anything yet */
    int running = 0;
    static const struct { int64_t pid; double left, heard; } said[] = { { 1, 10, 0 }, { 1, 99, -20 }, { 2, 25, -10 } };
    for (size_t i = 0; i < sweep->n; i++) {
        struct status_run *r = &sweep->run[i];
        if (r->state != STORE_RUNNING) continue;
        r->pid = said[running].pid, r->left_s = said[running].left, r->heard_us = st.now_us + (int64_t)(1e6 * said[running].heard);
        running++;
    }
    assert_int_equal(running, 3);
    double left = status_left(&st, sweep);
    if (fabs(left - 6) > 1e-3) fail_msg("%g s left, expected 6", left);
    struct str text = { 0 };
    status_print(&st, &text);
    assert_non_null(strstr(text.text, "1 pending; 6 s left\n"));
    str_free(&text);
    status_release(&st);
    store_close(s);
}

/* A line for each that runs, with the last points of its curve; the table is for those that stopped. */
static void a_screen_has_a_line_for_each_worker(void **state)
{
    (void)state;
    const char *path = in_folder("screen.db");
    struct store *s = made_up(path);
    for (int i = 3; i <= 100; i++) put_metric(s, 5, "loss", 10 * i, 1.0 / i);
    change(path, "UPDATE run SET config = json_set(config, '$.train.steps', 4000)");
    change(path, "UPDATE attempt SET started_us = 0, beat_us = 10000000, from_step = 1000, last_step = 1100, status = 'running', ended_us = NULL WHERE attempt_id = 5");
    change(path, "UPDATE run SET task = 'a' || char(27) || '[2J' WHERE run_id = 5");
    change(path, "UPDATE attempt SET boot_id = 'of last year' WHERE attempt_id = 6");
    struct status st;
    struct str text = { 0 };
    OK(status_read(&st, s, key(1), &err));
    const struct status_run *r = &st.sweep[0].run[3];
    assert_int_equal(r->n_curve, LIVE_POINTS);
    assert_true(r->curve[LIVE_POINTS - 1] == 1.0 / 100 && r->curve[0] == 1.0 / (101 - LIVE_POINTS));
    status_live(&st, 200, 0, &text);
    /* 100 steps in 10 s; 2900 more */
    const char *line = strstr(text.text, "a\\x1b[2J rope seed 4  1100/4000  0.0100  ");
    if (!line) fail_msg("no line for the worker: %s", text.text);
    assert_non_null(strstr(line, "  10 steps/s  4 min 50 s left  heard of "));
    assert_null(strchr(text.text, '\033'));
    assert_null(strstr(text.text, "\nrunning"));
    assert_non_null(strstr(text.text, "\nfailed       reverse rope seed 1 "));
    str_free(&text);
    status_release(&st);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_each_sweep_asked_for), cmocka_unit_test(shows_names_without_obeying_them),
        cmocka_unit_test(long_lists_are_cut_and_counted), cmocka_unit_test(processes_that_share_a_sweep_share_its_time),
        cmocka_unit_test(a_screen_has_a_line_for_each_worker),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
