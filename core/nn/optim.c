/* optim -- see optim.h. */
#include "nn/optim.h"
#include <math.h>
#include "nn/kern.h"

double optim_lr(const struct optim_options *o, int64_t step)
{
    double lr = o->lr;
    if (step < o->warmup) return lr * (double)(step + 1) / o->warmup;
    double done = o->steps > o->warmup ? (double)(step - o->warmup) / (o->steps - o->warmup) : 0;
    if (o->schedule == OPTIM_COSINE) lr *= 0.5 * (1 + cos(M_PI * done));
    if (o->schedule == OPTIM_LINEAR) lr *= 1 - done;
    return lr;
}

double optim_step(struct model *m, const struct optim_options *o, int64_t step)
{
    const struct kern *k = m->kern;
    double square = 0, lr = optim_lr(o, step), t = (double)step + 1;
    for (int i = 0; i < m->n_param; i++)
        if (m->param[i].grad) square += k->sum_squares(m->param[i].grad, m->param[i].size);
    double norm = sqrt(square);
    if (!isfinite(norm)) return norm;
    double scale = o->clip > 0 && norm > o->clip ? o->clip / norm : 1;
    for (int i = 0; i < m->n_param; i++) {
        struct model_param *p = &m->param[i];
        if (p->grad) k->adamw(p->value, p->m, p->v, p->grad, p->size, scale, lr, o->beta1, o->beta2, o->eps,
                              p->decay ? o->weight_decay : 0, 1 - pow(o->beta1, t), 1 - pow(o->beta2, t));
    }
    return norm;
}
