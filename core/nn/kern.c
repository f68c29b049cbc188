/* kern -- see kern.h: the kernels that go over rows, and the table of all for one instruction set.  See kern_vec.h for how they
 * are made; attention is in kern_attn.c, the products around a ReLU in kern_relu.c.
 */
#include "nn/kern_vec.h"

INLINE vec sigmoid(vec x)            /* 1 / (1 + exp(-x)); exp's argument kept in range */
{
    return 1 / (1 + exp_v(-max_v(x, (vec){ 0 } - (real)80)));
}

/* ---- embedding ---- */

static void embed_fwd(real *restrict x, const real *restrict table, const int32_t *token, real scale, const real *restrict pos, int T, int n, int d)
{
    for (int t = 0, i = 0; i < n; i++, t = t + 1 == T ? 0 : t + 1) {
        const real *row = table + (size_t)token[i] * d, *p = pos + (size_t)t * d;
        real *out = x + (size_t)i * d;
        if (pos) for (int c = 0; c < d; c++) out[c] = scale * row[c] + p[c];
        else for (int c = 0; c < d; c++) out[c] = scale * row[c];
    }
}

static void embed_bwd(real *restrict dtable, real *restrict dpos, const real *restrict dx, const int32_t *token, real scale, int T, int n, int d)
{
    for (int t = 0, i = 0; i < n; i++, t = t + 1 == T ? 0 : t + 1) {
        const real *g = dx + (size_t)i * d;
        real *row = dtable + (size_t)token[i] * d;
        for (int c = 0; c < d; c++) row[c] += scale * g[c];
        if (!dpos) continue;
        real *p = dpos + (size_t)t * d;
        for (int c = 0; c < d; c++) p[c] += g[c];
    }
}

/* ---- bias and column sums ---- */

static void add_bias(real *restrict x, const real *restrict bias, int n, int d)
{
    for (int i = 0; i < n; i++, x += d)
        for (int c = 0; c < d; c++) x[c] += bias[c];
}

/* Column sums of a block of rows stay in registers for 4 vectors of columns. */
static void column_sum(real *restrict out, const real *restrict x, int n, int d)
{
    int c = 0;
    for (; c + 4 * W <= d; c += 4 * W) {
        vec s[4] = { { 0 } };
        for (int i = 0; i < n; i++)
            for (int u = 0; u < 4; u++) s[u] += load(x + (size_t)i * d + c + u * W);
        for (int u = 0; u < 4; u++) store(out + c + u * W, load(out + c + u * W) + s[u]);
    }
    for (; c < d; c++) {
        real s = 0;
        for (int i = 0; i < n; i++) s += x[(size_t)i * d + c];
        out[c] += s;
    }
}

static void dropout(real *x, const struct kern_dropout *o, size_t n) { dropout_rows(x, o, o->block, n); }

/* ---- normalisation ---- */

#define NORM_EPS ((real)1e-5)

/* One row of nv whole vectors, held in registers: nv is a constant wherever this is inlined. */
INLINE void norm_row(int nv, real *out, real *xhat, real *rstd, real *sum, const real *x, const real *y, const real *bias,
                     const real *w, const real *b, int type)
{
    vec r[16], s1 = { 0 }, s2 = { 0 }, mean = { 0 };
    _Pragma("GCC unroll 16") for (int u = 0; u < nv; u++) {
        r[u] = load(x + u * W);
        if (y) r[u] += load(y + u * W) + load(bias + u * W);
        if (sum) store(sum + u * W, r[u]);
        s1 += r[u];
    }
    if (type == KERN_LAYERNORM) mean += lane_sum(s1) / (real)(nv * W);
    _Pragma("GCC unroll 16") for (int u = 0; u < nv; u++) { r[u] -= mean; s2 += r[u] * r[u]; }
    real inverse = 1 / (real)sqrt(lane_sum(s2) / (real)(nv * W) + NORM_EPS);
    if (rstd) *rstd = inverse;
    _Pragma("GCC unroll 16") for (int u = 0; u < nv; u++) {
        vec h = r[u] * inverse, o = h * load(w + u * W);
        if (xhat) store(xhat + u * W, h);
        store(out + u * W, type == KERN_LAYERNORM ? o + load(b + u * W) : o);
    }
}

/* The same for any d, over memory. */
static void norm_row_any(real *out, real *xhat, real *rstd, real *sum, const real *x, const real *y, const real *bias,
                         const real *w, const real *b, int type, int d)
{
    real *r = sum ? sum : xhat ? xhat : out, total = 0, square = 0, mean = 0;
    for (int c = 0; c < d; c++) total += r[c] = y ? x[c] + y[c] + bias[c] : x[c];
    if (type == KERN_LAYERNORM) mean = total / (real)d;
    for (int c = 0; c < d; c++) square += (r[c] - mean) * (r[c] - mean);
    real inverse = 1 / (real)sqrt(square / (real)d + NORM_EPS);
    if (rstd) *rstd = inverse;
    for (int c = 0; c < d; c++) {
        real h = (r[c] - mean) * inverse;
        if (xhat) xhat[c] = h;
        out[c] = type == KERN_LAYERNORM ? h * w[c] + b[c] : h * w[c];
    }
}

static void norm_fwd(real *out, real *xhat, real *rstd, real *sum, const real *x, const real *y, const real *bias,
                     const real *w, const real *b, int type, int n, int d)
{
#define ROW(nv) norm_row(nv, out, xhat, rstd, sum, x, y, bias, w, b, type)
    for (int i = 0; i < n; i++) {
        if (d == 4 * W) ROW(4);
        else if (d == 8 * W) ROW(8);
        else if (d == 16 * W) ROW(16);
        else norm_row_any(out, xhat, rstd, sum, x, y, bias, w, b, type, d);
        x += d, out += d;
        if (y) y += d;
        if (xhat) xhat += d;
        if (rstd) rstd++;
        if (sum) sum += d;
    }
#undef ROW
}

/* out = xhat w + b, xhat = (r - mean) rstd:  dr = rstd (g - mean(g) - xhat mean(g xhat)) with g = dout w;
 * RMSNorm has no mean, so no mean(g). */
struct norm_grads { real *dw, *db, *dr_sum; };       /* db, dr_sum NULL: not wanted */

/* n rows of nv whole vectors; the weights' gradients stay in registers: nv is a constant wherever this is inlined. */
INLINE void norm_bwd_rows(int nv, real *dr, const struct norm_grads *g, const real *dout, const real *carry, const real *xhat,
                          const real *rstd, const real *w, int type, int n)
{
    vec dw[8], db[8], sum[8];
    _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) dw[u] = db[u] = sum[u] = (vec){ 0 };
    for (int i = 0; i < n; i++, dr += nv * W, dout += nv * W, xhat += nv * W, carry = carry ? carry + nv * W : carry) {
        vec s1 = { 0 }, s2 = { 0 }, go[8], h[8], m1 = { 0 };
        _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) {
            vec o = load(dout + u * W);
            h[u] = load(xhat + u * W), go[u] = o * load(w + u * W);
            s1 += go[u], s2 += go[u] * h[u];
            db[u] += o, dw[u] += o * h[u];
        }
        if (type == KERN_LAYERNORM) m1 += lane_sum(s1) / (real)(nv * W);
        real m2 = lane_sum(s2) / (real)(nv * W);
        _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) {
            vec r = rstd[i] * (go[u] - m1 - h[u] * m2);
            if (carry) r += load(carry + u * W);
            sum[u] += r;
            store(dr + u * W, r);
        }
    }
    _Pragma("GCC unroll 8") for (int u = 0; u < nv; u++) {
        store(g->dw + u * W, load(g->dw + u * W) + dw[u]);
        if (g->db) store(g->db + u * W, load(g->db + u * W) + db[u]);
        if (g->dr_sum) store(g->dr_sum + u * W, load(g->dr_sum + u * W) + sum[u]);
    }
}

static void norm_bwd(real *dr, real *restrict dw, real *restrict db, real *restrict dr_sum, const real *dout, const real *carry,
                     const real *xhat, const real *rstd, const real *w, int type, int n, int d)
{
    struct norm_grads g = { dw, db, dr_sum };
    if (d == 4 * W) { norm_bwd_rows(4, dr, &g, dout, carry, xhat, rstd, w, type, n); return; }
    if (d == 8 * W) { norm_bwd_rows(8, dr, &g, dout, carry, xhat, rstd, w, type, n); return; }
    for (int i = 0; i < n; i++, dr += d, dout += d, xhat += d, carry = carry ? carry + d : carry) {
        vec s1 = { 0 }, s2 = { 0 };
        int c = 0;
        for (; c + W <= d; c += W) {
            vec o = load(dout + c), h = load(xhat + c), g = o * load(w + c);
            s1 += g;
            s2 += g * h;
            store(dw + c, load(dw + c) + o * h);
            if (db) store(db + c, load(db + c) + o);
        }
        real total = lane_sum(s1), dot = lane_sum(s2);
        for (; c < d; c++) {
            real g = dout[c] * w[c];
            total += g;
            dot += g * xhat[c];
            dw[c] += dout[c] * xhat[c];
            if (db) db[c] += dout[c];
        }
        real m1 = type == KERN_LAYERNORM ? total / d : 0, m2 = dot / d, s = rstd[i];
        if (carry) for (c = 0; c < d; c++) dr[c] = carry[c] + s * (dout[c] * w[c] - m1 - xhat[c] * m2);
        else for (c = 0; c < d; c++) dr[c] = s * (dout[c] * w[c] - m1 - xhat[c] * m2);
        if (dr_sum) for (c = 0; c < d; c++) dr_sum[c] += dr[c];
    }
}

/* ---- activations ---- */

#define SQRT_HALF ((real)0.70710678118654752440)
#define INV_SQRT_2PI ((real)0.39894228040143267794)

INLINE vec gelu(vec x) { return (real)0.5 * x * (1 + vec_erf(x * SQRT_HALF)); }
INLINE vec gelu_slope(vec x)         /* Phi(x) + x phi(x) */
{
    return (real)0.5 * (1 + vec_erf(x * SQRT_HALF)) + x * INV_SQRT_2PI * exp_v((real)-0.5 * x * x);
}

static void act_fwd(real *out, real *pre, const real *bias, int type, int n, int f)
{
    int wide = type == KERN_SWIGLU ? 2 * f : f;
    for (int i = 0; i < n; i++, out += f, pre += wide) {
        if (type == KERN_RELU) {
            for (int c = 0; c < f; c++) { real x = pre[c] + bias[c]; out[c] = x > 0 ? x : 0; }
            continue;
        }
        for (int c = 0; c < wide; c++) pre[c] += bias[c];
        for (int c = 0; c < f; c += W) {
            vec x = load_some(pre + c, f - c);
            store_some(out + c, type == KERN_GELU ? gelu(x) : x * sigmoid(x) * load_some(pre + f + c, f - c), f - c);
        }
    }
}

static void act_bwd(real *dpre, real *dbias, const real *dout, const real *act, int type, int n, int f)
{
    int wide = type == KERN_SWIGLU ? 2 * f : f;
    for (int i = 0; i < n; i++, dout += f, dpre += wide, act += wide) {
        if (type == KERN_RELU)
            for (int c = 0; c < f; c++) dpre[c] = act[c] > 0 ? dout[c] : 0;
        else for (int c = 0; c < f; c += W) {
            vec g = load_some(dout + c, f - c), x = load_some(act + c, f - c);
            if (type == KERN_GELU) { store_some(dpre + c, g * gelu_slope(x), f - c); continue; }
            vec value = load_some(act + f + c, f - c), s = sigmoid(x);
            store_some(dpre + c, g * value * s * (1 + x * (1 - s)), f - c);     /* silu' = s (1 + x (1 - s)) */
            store_some(dpre + f + c, g * x * s, f - c);
        }
        for (int c = 0; c < wide; c++) dbias[c] += dpre[c];
    }
}

/* ---- products ---- */

#if VB == 64
static void product(int m, int n, int k, const real *a, long am, long ak, const real *b, long ldb, long panel, real *c, long ldc, int add)
{
    panels(0, m, n, k, a, am, ak, b, ldb, panel, c, ldc, add);
}
static void pack(real *packed, const real *w, int out, int in)
{
    for (int first = 0; first < out; first += KERN_PANEL, packed += (long)in * KERN_PANEL) {
        int rows = out - first < KERN_PANEL ? out - first : KERN_PANEL;
        transpose_plain(packed, KERN_PANEL, w + (long)first * in, in, rows, in, 1);
        for (int c = 0; c < in && rows < KERN_PANEL; c++) memset(packed + (long)c * KERN_PANEL + rows, 0, (size_t)(KERN_PANEL - rows) * sizeof *packed);
    }
}
#endif
static void transpose_whole(real *out, const real *x, int rows, int cols) { transpose_plain(out, rows, x, cols, rows, cols, 1); }

/* ---- the general path's softmax, by rows ---- */

static void scale(real *restrict x, real factor, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

/* One row of at most nv vectors, held in registers: nv is a constant wherever this is inlined. */
INLINE void softmax_row(int nv, real *s, int t)
{
    vec e[4], most = (vec){ 0 } + 2 * MASKED, sum = { 0 };
    _Pragma("GCC unroll 4") for (int u = 0; u < nv; u++) e[u] = load_or(s + u * W, t - u * W, 2 * MASKED), most = max_v(most, e[u]);
    real m = lane_max(most);
    _Pragma("GCC unroll 4") for (int u = 0; u < nv; u++) e[u] = exp_v(e[u] - m), sum += e[u];
    real inverse = 1 / lane_sum(sum);
    _Pragma("GCC unroll 4") for (int u = 0; u < nv; u++) store_some(s + u * W, e[u] * inverse, t - u * W);
}

static void softmax_row_any(real *s, int t)
{
    vec most = (vec){ 0 } + 2 * MASKED, sum = { 0 };
    for (int j = 0; j < t; j += W) most = max_v(most, load_or(s + j, t - j, 2 * MASKED));
    real m = lane_max(most);
    for (int j = 0; j < t; j += W) {
        vec e = exp_v(load_or(s + j, t - j, 2 * MASKED) - m);
        store_some(s + j, e, t - j);
        sum += e;
    }
    real inverse = 1 / lane_sum(sum);
    for (int j = 0; j < t; j++) s[j] *= inverse;
}

static void softmax_rows(real *s, int n, int t, long ld)
{
    for (int i = 0; i < n; i++, s += ld) {
        if (t <= W) softmax_row(1, s, t);
        else if (t <= 2 * W) softmax_row(2, s, t);
        else if (t <= 3 * W) softmax_row(3, s, t);
        else if (t <= 4 * W) softmax_row(4, s, t);
        else softmax_row_any(s, t);
    }
}

static void softmax_rows_bwd(real *dp, const real *p, int n, int t, long ld)
{
    for (int i = 0; i < n; i++, dp += ld, p += ld) {
        real dot = 0;
        for (int j = 0; j < t; j++) dot += p[j] * dp[j];
        for (int j = 0; j < t; j++) dp[j] = p[j] * (dp[j] - dot);
    }
}

/* ---- loss ---- */

static double xent(real *dlogits, const real *logits, const int32_t *target, const float *weight, double grad_scale, int n, int V)
{
    double loss = 0, sums = 1;       /* a logarithm costs half a row: one is taken of the product of a few rows' sums */
    for (int i = 0; i < n; i++, logits += V, dlogits = dlogits ? dlogits + V : dlogits) {
        if (target[i] < 0) {
            if (dlogits) memset(dlogits, 0, (size_t)V * sizeof *dlogits);
            continue;
        }
        real at_target = logits[target[i]], w = weight ? (real)weight[i] : 1;
        vec most = (vec){ 0 } + 10 * MASKED, s = { 0 }, e = { 0 };
        for (int c = 0; c < V; c += W) most = max_v(most, load_or(logits + c, V - c, 10 * MASKED));
        real m = lane_max(most);
        for (int c = 0; c < V; c += W) {
            e = exp_v(load_or(logits + c, V - c, 10 * MASKED) - m);
            if (dlogits && V > W) store_some(dlogits + c, e, V - c);
            s += e;
        }
        real sum = lane_sum(s), g = (real)grad_scale * w;
        loss += (double)w * ((double)m - (double)at_target);
        if (w != 1) loss += (double)w * log((double)sum);
        else if ((sums *= (double)sum) > 1e100) loss += log(sums), sums = 1;
        if (!dlogits) continue;
        for (int c = 0; c < V; c += W) {
            if (V > W) e = load_some(dlogits + c, V - c);
            mask here = lane_numbers() == (bits)(target[i] - c);
            store_some(dlogits + c, e * (g / sum) - (vec)(here & (mask)((vec){ 0 } + g)), V - c);
        }
    }
    return loss + log(sums);
}

/* ---- optimiser ---- */

static double sum_squares(const real *x, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i += 4096) {           /* single precision within a block, double between blocks */
        size_t end = i + 4096 < n ? i + 4096 : n, j = i;
        vec s = { 0 };
        for (; j + W <= end; j += W) s += load(x + j) * load(x + j);
        total += (double)lane_sum(s);
        for (; j < end; j++) total += (double)x[j] * (double)x[j];
    }
    return total;
}

static void adamw(real *restrict w, real *restrict m, real *restrict v, const real *restrict g, size_t n, double grad_scale, double lr,
                  double beta1, double beta2, double eps, double decay, double c1, double c2)
{
    real scale = (real)grad_scale, b1 = (real)beta1, a1 = (real)(1 - beta1), b2 = (real)beta2, a2 = (real)(1 - beta2), shrink = (real)(1 - lr * decay);
    real step = (real)(lr / c1), inverse_root_c2 = (real)(1 / sqrt(c2)), e = (real)eps;
    for (size_t i = 0; i < n; i++) {
        real gi = g[i] * scale, mi = b1 * m[i] + a1 * gi, vi = b2 * v[i] + a2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
#ifdef LAB_REAL_DOUBLE
        w[i] = w[i] * shrink - step * mi / (sqrt(vi) * inverse_root_c2 + e);
#else
        w[i] = w[i] * shrink - step * mi / (sqrtf(vi) * inverse_root_c2 + e);
#endif
    }
}

const struct kern PASTE(kern_, KERN_ISA) = {
    .isa = NAME(KERN_ISA), .embed_fwd = embed_fwd, .embed_bwd = embed_bwd, .add_bias = add_bias, .column_sum = column_sum,
    .dropout = dropout, .norm_fwd = norm_fwd, .norm_bwd = norm_bwd, .act_fwd = act_fwd, .act_bwd = act_bwd, .transpose = transpose_whole,
    .attn_fwd = OF_ISA(kern_attn_fwd_), .attn_step = OF_ISA(kern_attn_step_), .attn_bwd = OF_ISA(kern_attn_bwd_), .scale = scale, .softmax_rows = softmax_rows, .softmax_rows_bwd = softmax_rows_bwd, .xent = xent,
#if VB == 64
    .product = product, .pack = pack,
#endif
#if VB >= 32
    .relu_fwd = OF_ISA(kern_relu_fwd_), .relu_bwd = OF_ISA(kern_relu_bwd_), .relu_dw = OF_ISA(kern_relu_dw_),
#endif
    .sum_squares = sum_squares, .adamw = adamw };
