#!/usr/bin/env python3
"""make_golden -- the golden files of tests/unit/test_golden.c, computed by PyTorch in float64.

The model is reference.py's, the optimiser torch.optim.AdamW.  Shares no code with lab and reads none of its
output.  Run by hand, with Debian's python3-torch 1.13:  python3 tests/golden/make_golden.py

To add a case, add a row to CASES: the test finds the files by itself.

A line of a golden file is `name [dims...] [/stride] : values`.  Numbers are hex floats.  A stride S says that
only elements 0, S, 2S ... of the flattened tensor are kept, so that the files stay small.  `weights.txt` holds
the weights that all cases start from; a case may replace some (`start.NAME`).  `grad.NAME` is the gradient at
the start, `end.NAME` the weights after the last step, `losses` and `norms` (before clipping) belong to the steps.
"""
import math
import os
import torch
from torch.nn import functional as F
from reference import Model

FOLDER = os.path.dirname(os.path.abspath(__file__))
SIZES = dict(d_model=8, heads=2, layers=2, d_ff=16, vocab_in=7, vocab_out=5)
SEED = 131                                                         # of weights from which ten steps of Adam in float keep 5 digits
STEPS, LR, BETAS, EPS, DECAY, CLIP = 10, 1e-2, (0.9, 0.999), 1e-8, 0.1, 1.0

TOKEN = [[1, 4, 0, 4, 2], [3, 3, 5, 0, 1], [5, 2, 4, 1, 3]]         # token 6 never occurs: its gradient is 0
TARGET = [[2, 0, -1, 4, 1], [-1, 3, 3, 0, 2], [4, 1, 2, -1, 0]]    # -1: not scored
ROW = [0, 1, 2, 3, 4]
GAPS = [1000, 1001, 1005, 1017, 1100]
ROWS = [[1000, 1001, 1005, 1017, 1100], [0, 1, 2, 3, 4], [7, 9, 12, 13, 40]]
NEAR = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [1, 2, 4, 5, 9]]
PADDED = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0]]
# fire's hidden units bend inside the distances that occur: the bias of one that is on for all keys would have gradient 0.
BENDS = {"encoder.weight1": [1, -1, 1.5, -2, 2, -0.5], "encoder.bias1": [-0.25, 0.5, -0.5, 0.25, -0.375, 0.25],
         "encoder.c": 0.25, "encoder.multiplier": 0.3125}
LONG = 150                                                         # tokens, for attention that works through keys in parts

# name: encoder, its options, and what differs from the defaults of `settings` below.
CASES = {
    **{f"{encoder}-{'causal' if causal else 'bidirectional'}": dict(encoder=encoder, causal=causal, keep=32 if causal else None)
       for encoder in ("none", "sinusoidal", "learned", "t5", "rope") for causal in (False, True)},
    "pre-norm": dict(encoder="learned", norm="pre"),
    "rmsnorm": dict(encoder="sinusoidal", norm_type="rmsnorm"),
    "gelu": dict(encoder="t5", activation="gelu"),
    "swiglu": dict(encoder="sinusoidal", activation="swiglu"),
    "tied": dict(encoder="sinusoidal", tied=True),
    "embed-scale-one": dict(encoder="learned", embed_scale="one"),
    "modern": dict(encoder="rope", causal=True, norm="pre", norm_type="rmsnorm", activation="swiglu", tied=True),
    "rope-half": dict(encoder="rope", options=dict(pairs="half")),
    "rope-fraction": dict(encoder="rope", options=dict(fraction=0.5)),
    "sinusoidal-concatenated": dict(encoder="sinusoidal", options=dict(layout="concatenated")),
    "key-padding": dict(encoder="sinusoidal", key_ok=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0]]),
    "key-padding-causal": dict(encoder="t5", causal=True, key_ok=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]]),
    "loss-weights": dict(encoder="none", causal=True, weight=True),
    "cosine-warm-up": dict(encoder="sinusoidal", schedule="cosine", warmup=3),
    "positions-gaps-sinusoidal": dict(encoder="sinusoidal", position=[1000, 1001, 1005, 1017, 1100]),
    "positions-gaps-rope": dict(encoder="rope", position=[1000, 1001, 1005, 1017, 1100]),
    "positions-rows-t5": dict(encoder="t5", position=[[1000, 1001, 1005, 1017, 1100], [0, 1, 2, 3, 4], [7, 9, 12, 13, 40]]),
    "positions-rows-rope": dict(encoder="rope", causal=True, position=[[1000, 1001, 1005, 1017, 1100], [0, 1, 2, 3, 4], [7, 9, 12, 13, 40]]),
    "positions-rows-learned": dict(encoder="learned", position=[[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [1, 2, 4, 5, 7]]),
    "long-t5": dict(encoder="t5", causal=True, long=True),
    **{f"alibi-{name}": dict(encoder="alibi", **case) for name, case in {
        "bidirectional": {}, "causal": dict(causal=True, options=dict(learned=True)), "offset": dict(options=dict(side="offset", learned=True)),
        "split": dict(options=dict(side="split", learned=True)), "heads": dict(heads=8, options=dict(side="offset")),
        "gaps": dict(position=GAPS), "rows": dict(position=ROWS, causal=True)}.items()},
    **{f"shaw-{name}": dict(encoder="shaw", **case) for name, case in {
        "bidirectional": {}, "causal": dict(causal=True), "keys-alone": dict(causal=True, options=dict(values=False)), "rows": dict(position=ROWS),
        "padding": dict(key_ok=PADDED), "long": dict(long=True, causal=True, options=dict(clip=4))}.items()},
    **{f"transformer_xl-{name}": dict(encoder="transformer_xl", **case) for name, case in {
        "bidirectional": {}, "causal": dict(causal=True), "gaps": dict(position=GAPS), "rows": dict(position=ROWS, key_ok=PADDED),
        "long": dict(long=True)}.items()},
    **{f"swin-{name}": dict(encoder="swin", **case) for name, case in {
        "bidirectional": {}, "causal": dict(causal=True), "rows": dict(position=ROWS)}.items()},
    **{f"kerple-{name}": dict(encoder="kerple", **case) for name, case in {
        "log": {}, "log-causal": dict(causal=True), "power": dict(options=dict(form="power")),
        "power-causal": dict(causal=True, options=dict(form="power")), "rows": dict(position=NEAR)}.items()},
    **{f"fire-{name}": dict(encoder="fire", **case) for name, case in {
        "bidirectional": dict(position=NEAR, start=BENDS), "causal": dict(causal=True, start=BENDS), "shared": dict(options=dict(shared=True), start=BENDS),
        "gaps": dict(position=GAPS, start=BENDS), "rows": dict(position=ROWS, causal=True, start=BENDS)}.items()},
    **{f"xpos-{name}": dict(encoder="xpos", causal=True, **case) for name, case in {
        "causal": {}, "gaps": dict(position=GAPS), "rows": dict(position=ROWS)}.items()},
    **{f"cope-{name}": dict(encoder="cope", causal=True, **case) for name, case in {
        "causal": {}, "padding": dict(key_ok=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]]), "long": dict(long=True)}.items()},
    **{f"forget-{name}": dict(encoder="forget", causal=True, **case) for name, case in {
        "causal": {}, "gaps": dict(position=GAPS), "padding": dict(key_ok=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]]),
        "long": dict(long=True)}.items()},
    **{f"sandwich-{name}": dict(encoder="sandwich", **case) for name, case in {
        "bidirectional": {}, "causal": dict(causal=True), "gaps": dict(position=GAPS)}.items()},
    **{f"fourier-{name}": dict(encoder="fourier", **case) for name, case in {
        "bidirectional": {}, "causal": dict(causal=True), "speeds": dict(options=dict(scaled=False, start=0)),
        "scale": dict(position=GAPS, options=dict(speeds=False)), "rows": dict(position=NEAR)}.items()},
    **{f"rope-{name}": dict(encoder="rope", **case) for name, case in {
        "linear": dict(options=dict(scaling="linear", factor=4, base=10)), "ntk": dict(options=dict(scaling="ntk", factor=4, pairs="half", base=10)),
        "ntk-dynamic": dict(position=ROWS, options=dict(scaling="ntk_dynamic", factor=2, original=4)),
        "yarn": dict(causal=True, options=dict(scaling="yarn", factor=4, original=60, base=50))}.items()},
    "long-rope": dict(encoder="rope", long=True, key_ok=[[i % 7 != 2 and i < 140 for i in range(LONG)]]),
}
OPTIONS = {                                                       # written out in full, so that no default is relied on
    "none": {},
    "sinusoidal": dict(base=10000, layout="interleaved"),
    "learned": dict(max_len=8),
    "t5": dict(buckets=8, max_distance=6),
    "rope": dict(base=10000, pairs="interleaved", fraction=1),
    "alibi": dict(side="symmetric", learned=False),
    "shaw": dict(clip=2, values=True),
    "transformer_xl": dict(base=10),           # slow sines hardly differ over five positions: their gradients would be rounding
    "swin": dict(clip=2),
    "kerple": dict(form="log"),
    "fire": dict(width=6, c=0.1, length=8, shared=False),
    "xpos": dict(base=10000, decay=8, gamma=0.4),
    "cope": dict(positions=3),
    "forget": dict(start=0),
    "sandwich": dict(dims=8, base=10000),
    "fourier": dict(base=10000, speeds=True, scaled=True, start=1),
}


def settings(case):
    defaults = dict(**SIZES, token=TOKEN, target=TARGET, causal=False, norm="post", norm_type="layernorm", activation="relu", tied=False, embed_scale="sqrt",
                    schedule="constant", warmup=0, position=ROW, key_ok=None, start={}, weight=False, long=False, keep=6)
    if case.get("long"):
        defaults["position"] = list(range(LONG))
        defaults["token"], defaults["target"] = ([[(i * i * k + i // 3) % n for i in range(LONG)]] for k, n in ((3, 7), (2, 5)))
    return {**defaults, **case, "options": {**OPTIONS[case["encoder"]], **case.get("options", {})}}


def loss_of(logits, target, weight):       # mean over scored positions
    each = F.cross_entropy(logits.flatten(0, 1), target.flatten().clamp(min=0), reduction="none")
    w = weight.flatten() * (target.flatten() >= 0)
    return (each * w).sum() / w.sum()


def learning_rate(s, step):                # linear warm-up from LR/warmup to LR, then half a cosine to 0 at STEPS
    if step < s["warmup"]:
        return LR * (step + 1) / s["warmup"]
    if s["schedule"] == "constant":
        return LR
    return LR * 0.5 * (1 + math.cos(math.pi * (step - s["warmup"]) / (STEPS - s["warmup"])))


def clip(parameters):                      # by global norm (Pascanu et al. 2013); returns the norm before
    norm = torch.sqrt(sum(p.grad.square().sum() for p in parameters))
    for p in parameters:
        p.grad *= min(1.0, CLIP / norm.item())
    return norm.item()


def decays(name, p):                       # matrices and embeddings do; biases, the encoders' too, and norms do not
    return p.dim() >= 2 and not name.startswith("encoder.bias")


def idle_bias(s):
    """Where in_proj_bias does nothing: softmax ignores what all keys share, so the bias of a key that is not turned has
    gradient 0; not the rounding noise, which Adam would blow up to a step."""
    d, head = s["d_model"], s["d_model"] // s["heads"]
    turning = int(head * s["options"].get("fraction", s["encoder"] in ("xpos", "cope", "forget")))      # whose gates see all of a key
    return [i for i in range(d, 2 * d) if i % head >= turning]


# ---- one case ----

def start_weight(name, shape):             # multiples of 1/64: short to write, exact in float
    scale = 0.25 if len(shape) == 1 else 0.5
    w = torch.round(torch.randn(shape, dtype=torch.float64) * scale * 64) / 64
    return (1 + w if "norm" in name and name.endswith("weight") else w).to(torch.get_default_dtype())


def run(s, shared, by_hand):
    model = Model(s, by_hand)
    named = dict(model.named_parameters())
    own = {}                               # weights that only this case has
    with torch.no_grad():
        torch.manual_seed(2)
        for name, p in named.items():
            if name not in shared or shared[name].shape != p.shape:
                given = next((w for start, w in s["start"].items() if name.startswith(start)), None)
                own[name] = start_weight(name, p.shape) if given is None else torch.tensor(given).reshape(p.shape).to(p.dtype)
            p.copy_(own.get(name, shared.get(name)))
    token, target = torch.tensor(s["token"]), torch.tensor(s["target"])
    position = torch.tensor(s["position"]).expand(token.shape)
    key_ok = None if s["key_ok"] is None else torch.tensor(s["key_ok"]).int()
    if key_ok is not None:
        target = target.masked_fill(key_ok == 0, -1)
    weight = (torch.arange(token.numel()).reshape(token.shape) % 4 + 1) / 4 if s["weight"] else torch.ones(token.shape)

    groups = [dict(params=[p for n, p in named.items() if decays(n, p) == yes], weight_decay=DECAY * yes) for yes in (True, False)]
    optimiser = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for step in range(STEPS):
        logits = model(token, position, key_ok)
        loss = loss_of(logits, target, weight)
        optimiser.zero_grad()
        loss.backward()
        for layer in model.layers:
            layer.self_attn.in_proj_bias.grad[idle_bias(s)] = 0
        for name, p in named.items():
            if name.startswith("encoder.bias2"):                           # fire's last bias: the same for all keys
                p.grad.zero_()
        if step == 0:
            first_logits = logits.detach().clone()
            gradient = {n: p.grad.clone() for n, p in named.items()}
        losses.append(loss.item())
        norms.append(clip(list(named.values())))
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(s, step)
        optimiser.step()
    losses.append(loss_of(model(token, position, key_ok), target, weight).item())
    return dict(own=own, token=token, key_ok=key_ok, logits=first_logits, losses=losses, norms=norms, gradient=gradient, target=target,
                weight=weight, end={n: p.detach() for n, p in named.items()})


def worst(a, b):                           # largest difference of two results
    pairs = [(a["logits"], b["logits"])] + [(a[k][n], b[k][n]) for k in ("gradient", "end") for n in a[k]]
    return max((x - y).abs().max().item() for x, y in pairs)


def run_in_float(s, shared):
    torch.set_default_dtype(torch.float32)
    r = run(s, {n: w.float() for n, w in shared.items()}, by_hand=False)
    torch.set_default_dtype(torch.float64)
    return r


# ---- files ----

def hexadecimal(x):                        # float.hex without the trailing zeros
    mantissa, exponent = float(x).hex().split("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return "0" if x == 0 else mantissa + "p" + exponent


def rounded(x, bits):                      # to a grid of 2^-bits of the tensor's largest: shorter, finer than any tolerance
    top = x.abs().max().item()
    grid = 2.0 ** (math.ceil(math.log2(top)) - bits) if top > 0 else 1.0
    return torch.round(x / grid) * grid


def line(name, x, most=None, bits=None):
    x = torch.as_tensor(x)
    stride = 1
    if most and x.numel() > most:          # a prime that does not divide a row: every column is met
        stride = next(p for p in (3, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43) if math.ceil(x.numel() / p) <= most)
    kept = x.flatten()[::stride]
    kept = kept if bits is None else rounded(kept, bits)
    dims = " ".join(str(n) for n in x.shape) + (f" /{stride}" if stride > 1 else "")
    return f"{name} {dims} : " + " ".join(hexadecimal(v) if x.is_floating_point() else str(v) for v in kept.tolist()) + "\n"


def write(name, s, r):
    yes_no = lambda v: ("yes" if v else "no") if isinstance(v, bool) else v
    words = [("encoder", s["encoder"])] + [(f"option.{k}", yes_no(v)) for k, v in s["options"].items()]
    words += [(f"model.{k}", yes_no(s[k])) for k in ("causal", "norm", "norm_type", "activation", "tied", "embed_scale")]
    words += [("model.heads", s["heads"])] if s["heads"] != SIZES["heads"] else []
    words += [(f"optim.{k}", s[k]) for k in ("schedule", "warmup")]
    with open(os.path.join(FOLDER, name + ".txt"), "w") as out:
        out.write("".join(f"{k} : {v}\n" for k, v in words))
        out.write(line("pos", s["position"]) + line("target", r["target"]))
        if s["long"]:
            out.write(line("token", r["token"]))
        if r["key_ok"] is not None:
            out.write(line("key_ok", r["key_ok"]))
        if s["weight"]:
            out.write(line("weight", r["weight"]))
        out.write("".join(line("start." + n, w) for n, w in r["own"].items()))
        out.write(line("logits", r["logits"], 80, 40) + line("losses", r["losses"]) + line("norms", r["norms"]))
        out.write("".join(line("grad." + n, g, s["keep"], 36) for n, g in r["gradient"].items()))
        out.write("".join(line("end." + n, w, 6, 36) for n, w in r["end"].items()))


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(SEED)
    widest = Model(settings(dict(encoder="none", norm="pre")))
    shared = {n: start_weight(n, p.shape) for n, p in widest.named_parameters()}
    with open(os.path.join(FOLDER, "weights.txt"), "w") as out:
        out.write(line("token", TOKEN) + "".join(line(n, w) for n, w in shared.items()))
    for name, case in CASES.items():
        s = settings(case)
        r = run(s, shared, by_hand=False)
        assert worst(r, run(s, shared, by_hand=True)) < 1e-11, name        # so rope's attention is right but for `turn`
        assert worst(r, run_in_float(s, shared)) < 5e-6, name               # else take another SEED: ask of lab what PyTorch can do
        write(name, s, r)
        print(f"{name:28} loss {r['losses'][0]:.4f} -> {r['losses'][-1]:.4f}  norm {r['norms'][0]:.3f} .. {r['norms'][-1]:.3f}")


if __name__ == "__main__":
    main()
