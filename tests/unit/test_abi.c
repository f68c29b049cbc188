/* test_abi -- the layout of every struct that crosses the plugin boundary, and the random numbers that both sides draw.
 *
 * The offsets are those of natural alignment on x86-64 (LP64), worked out outside of C; they are the same for
 * float and double.  A change here breaks every plugin in the world: it takes a new minor (only at the end of a
 * struct) or a new major.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "abi/lab_plugin.h"
#include "abi/lab_task.h"

#define SIZE(S, n)  { "sizeof " #S, sizeof(struct S), n }
#define AT(S, f, n) { #S "." #f, offsetof(struct S, f), n }
static const struct { const char *what; size_t found, expected; } layout[] = {
    SIZE(lab_err, 1024), AT(lab_err, msg, 0),
    SIZE(lab_rng, 44), AT(lab_rng, key, 0), AT(lab_rng, counter, 8), AT(lab_rng, word, 24), AT(lab_rng, used, 40),
    SIZE(lab_option, 56), AT(lab_option, name, 0), AT(lab_option, type, 8), AT(lab_option, off, 12), AT(lab_option, def, 16),
    AT(lab_option, lo, 24), AT(lab_option, hi, 32), AT(lab_option, choices, 40), AT(lab_option, help, 48),
    SIZE(lab_dims, 36), AT(lab_dims, size, 0), AT(lab_dims, n_layer, 4), AT(lab_dims, n_head, 8), AT(lab_dims, d_model, 12),
    AT(lab_dims, d_head, 16), AT(lab_dims, train_len, 20), AT(lab_dims, max_len, 24), AT(lab_dims, max_pos, 28),
    AT(lab_dims, causal, 32),
    SIZE(lab_param, 56), AT(lab_param, name, 0), AT(lab_param, ndim, 8), AT(lab_param, dim, 12), AT(lab_param, init, 28),
    AT(lab_param, a, 32), AT(lab_param, b, 40), AT(lab_param, flags, 48),
    SIZE(lab_host, 32), AT(lab_host, size, 0), AT(lab_host, ctx, 8), AT(lab_host, log, 16), AT(lab_host, gemm, 24),
    SIZE(lab_call, 128), AT(lab_call, size, 0), AT(lab_call, layer, 4), AT(lab_call, B, 8), AT(lab_call, H, 12),
    AT(lab_call, Tq, 16), AT(lab_call, Tk, 20), AT(lab_call, dh, 24), AT(lab_call, d, 28), AT(lab_call, causal, 32),
    AT(lab_call, train, 36), AT(lab_call, pos_q, 40), AT(lab_call, pos_k, 48), AT(lab_call, stride_q, 56),
    AT(lab_call, stride_k, 60), AT(lab_call, key_ok, 64), AT(lab_call, scale, 72), AT(lab_call, seed, 80), AT(lab_call, p, 88),
    AT(lab_call, g, 96), AT(lab_call, save, 104), AT(lab_call, scratch, 112), AT(lab_call, host, 120),
    SIZE(lab_encoder, 176), AT(lab_encoder, size, 0), AT(lab_encoder, flags, 4), AT(lab_encoder, name, 8),
    AT(lab_encoder, summary, 16), AT(lab_encoder, cite, 24), AT(lab_encoder, self_size, 32), AT(lab_encoder, options, 40),
    AT(lab_encoder, init, 48), AT(lab_encoder, fini, 56), AT(lab_encoder, param, 64), AT(lab_encoder, param_init, 72),
    AT(lab_encoder, save_size, 80), AT(lab_encoder, scratch_size, 88), AT(lab_encoder, embed, 96),
    AT(lab_encoder, embed_bwd, 104), AT(lab_encoder, qk, 112), AT(lab_encoder, qk_bwd, 120), AT(lab_encoder, bias, 128),
    AT(lab_encoder, bias_bwd, 136), AT(lab_encoder, logits, 144), AT(lab_encoder, logits_bwd, 152), AT(lab_encoder, value, 160),
    AT(lab_encoder, value_bwd, 168),
    SIZE(lab_plugin, 64), AT(lab_plugin, magic, 0), AT(lab_plugin, size, 4), AT(lab_plugin, abi_major, 8),
    AT(lab_plugin, abi_minor, 12), AT(lab_plugin, real_size, 16), AT(lab_plugin, name, 24), AT(lab_plugin, version, 32),
    AT(lab_plugin, license, 40), AT(lab_plugin, encoders, 48), AT(lab_plugin, tasks, 56),
    SIZE(lab_task_info, 48), AT(lab_task_info, size, 0), AT(lab_task_info, vocab_in, 4), AT(lab_task_info, vocab_out, 8),
    AT(lab_task_info, min_len, 12), AT(lab_task_info, max_len, 16), AT(lab_task_info, max_slice, 20),
    AT(lab_task_info, version, 24), AT(lab_task_info, chance, 32), AT(lab_task_info, max_pos, 40),
    SIZE(lab_example, 48), AT(lab_example, in, 0), AT(lab_example, target, 8), AT(lab_example, weight, 16),
    AT(lab_example, pos, 24), AT(lab_example, prompt, 32), AT(lab_example, slice, 36), AT(lab_example, counted, 40),
    SIZE(lab_task, 96), AT(lab_task, size, 0), AT(lab_task, flags, 4), AT(lab_task, name, 8), AT(lab_task, summary, 16),
    AT(lab_task, cite, 24), AT(lab_task, self_size, 32), AT(lab_task, options, 40), AT(lab_task, init, 48),
    AT(lab_task, fini, 56), AT(lab_task, tape, 64), AT(lab_task, sample, 72), AT(lab_task, solve, 80), AT(lab_task, score, 88),
};

static void structs_lie_as_they_always_did(void **state)
{
    (void)state;
#if !defined(__x86_64__) || !defined(__LP64__)
    skip();
#endif
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
        if (layout[i].found != layout[i].expected)
            fail_msg("%s is %zu, expected %zu", layout[i].what, layout[i].found, layout[i].expected);
}

/* Numbers that are compiled into plugins. */
static void constants_are_what_they_always_were(void **state)
{
    static const struct { const char *what; uint32_t found, expected; } value[] = {
#define V(name, n) { #name, name, n }
        V(LAB_MAGIC, 0x4c414231), V(LAB_ABI_MAJOR, 1), V(LAB_ABI_MINOR, 1),
        V(LAB_T_INT, 0), V(LAB_T_REAL, 1), V(LAB_T_BOOL, 2), V(LAB_T_ENUM, 3), V(LAB_T_STR, 4),
        V(LAB_INIT_ZERO, 0), V(LAB_INIT_CONST, 1), V(LAB_INIT_NORMAL, 2), V(LAB_INIT_UNIFORM, 3), V(LAB_INIT_CUSTOM, 4),
        V(LAB_P_PER_LAYER, 1), V(LAB_P_FROZEN, 2), V(LAB_P_NO_DECAY, 4),
        V(LAB_H_EMBED, 0), V(LAB_H_QK, 1), V(LAB_H_BIAS, 2), V(LAB_H_LOGITS, 3), V(LAB_H_VALUE, 4),
        V(LAB_E_SHIFT_INVARIANT, 1), V(LAB_E_LAYER_INVARIANT, 2), V(LAB_E_CAUSAL_ONLY, 4),
        V(LAB_TRAIN, 0), V(LAB_VALID, 1), V(LAB_TEST, 2), V(LAB_REORDER, 3),
        V(LAB_TASK_EXCHANGEABLE, 1), V(LAB_TASK_CAUSAL, 2), V(LAB_TASK_POSITIONS, 4), V(LAB_TASK_REORDERS, 8) };
#undef V
    (void)state;
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        if (value[i].found != value[i].expected)
            fail_msg("%s is %u, expected %u", value[i].what, value[i].found, value[i].expected);
}

/* ---- Philox4x32-10: the known answers that Random123 publishes (kat_vectors) ---- */

static const struct { uint32_t counter[4], key[2], out[4]; } philox[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } } };

static void philox_gives_the_published_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof philox / sizeof *philox; i++) {
        uint32_t out[4];
        lab_philox(philox[i].counter, philox[i].key, out);
        for (int w = 0; w < 4; w++)
            if (out[w] != philox[i].out[w]) fail_msg("vector %zu, word %d: %08x, expected %08x", i, w, out[w], philox[i].out[w]);
    }
}

/* A stream is Philox over counters 0, 1, 2 ... in the first word, the name in the others, the seed as key. */
static void a_stream_is_philox_block_by_block(void **state)
{
    struct lab_rng rng = lab_rng_at(0x299f31d0a4093822u, 0x03707344, 0x13198a2e, 0x85a308d3), copy;
    (void)state;
    for (uint32_t block = 0; block < 5; block++) {
        uint32_t counter[4] = { block, 0x85a308d3, 0x13198a2e, 0x03707344 }, key[2] = { 0xa4093822, 0x299f31d0 }, out[4];
        lab_philox(counter, key, out);
        for (int w = 0; w < 4; w++) assert_int_equal(lab_rng_u32(&rng), out[w]);
    }
    rng.counter[0] = 0x243f6a88;                 /* the published vector again, through a stream */
    assert_int_equal(lab_rng_u32(&rng), 0xd16cfe09);
    copy = rng;
    for (int i = 0; i < 9; i++) assert_int_equal(lab_rng_u32(&rng), lab_rng_u32(&copy));
}

static void below_keeps_its_bound_and_is_uniform(void **state)
{
    enum { DRAWS = 60000 };
    static const struct { uint32_t n; double limit; } dice[] = {           /* chi-square, 99.9 % quantile of n-1 degrees */
        { 2, 10.83 }, { 3, 13.82 }, { 10, 27.88 }, { 6, 20.52 } };
    (void)state;
    for (size_t d = 0; d < sizeof dice / sizeof *dice; d++) {
        struct lab_rng rng = lab_rng_at(1, 2, 3, (uint32_t)d);
        double count[10] = { 0 }, expected = (double)DRAWS / dice[d].n, chi2 = 0;
        for (int i = 0; i < DRAWS; i++) {
            uint32_t x = lab_rng_below(&rng, dice[d].n);
            assert_true(x < dice[d].n);
            count[x]++;
        }
        for (uint32_t x = 0; x < dice[d].n; x++) chi2 += (count[x] - expected) * (count[x] - expected) / expected;
        if (chi2 > dice[d].limit) fail_msg("below(%u): chi-square %g, limit %g", dice[d].n, chi2, dice[d].limit);
    }
    struct lab_rng a = lab_rng_at(5, 0, 0, 0), b = a;
    for (int i = 0; i < 100; i++) assert_int_equal(lab_rng_below(&a, 1u << 12), lab_rng_u32(&b) >> 20);
    for (int i = 0; i < 100; i++) assert_int_equal(lab_rng_below(&a, 1), 0);
    /* 3 * 2^30: without rejection a third of the values would come twice as often as the others. */
    struct lab_rng rng = lab_rng_at(6, 0, 0, 0);
    double residue[3] = { 0 };
    for (int i = 0; i < DRAWS; i++) residue[lab_rng_below(&rng, 3u << 30) % 3]++;
    for (int i = 0; i < 3; i++)
        if (fabs(residue[i] / DRAWS - 1.0 / 3) > 0.007) fail_msg("residue %d: share %g, expected a third", i, residue[i] / DRAWS);
}

static void unit_lies_in_zero_to_one(void **state)
{
    struct lab_rng a = lab_rng_at(5, 1, 0, 0), b = a;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        double x = lab_rng_unit(&a);
        assert_true(x >= 0 && x < 1);
        assert_true(x == lab_rng_u32(&b) / 4294967296.0);
    }
}

static void fail_fills_one_line_and_never_more(void **state)
{
    struct lab_err err;
    char wide[2001];
    (void)state;
    assert_int_equal(lab_fail(&err, "d_model is %d", 63), -1);
    assert_string_equal(err.msg, "d_model is 63");
    memset(wide, 'w', 2000), wide[2000] = '\0';
    assert_int_equal(lab_fail(&err, "%s", wide), -1);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_lie_as_they_always_did),
        cmocka_unit_test(constants_are_what_they_always_were),
        cmocka_unit_test(philox_gives_the_published_words),
        cmocka_unit_test(a_stream_is_philox_block_by_block),
        cmocka_unit_test(below_keeps_its_bound_and_is_uniform),
        cmocka_unit_test(unit_lies_in_zero_to_one),
        cmocka_unit_test(fail_fills_one_line_and_never_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
