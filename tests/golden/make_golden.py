#!/usr/bin/env python3
"""make_golden -- the golden files of tests/unit/test_golden.c, computed by PyTorch in float64.

An independent reference: the stack is nn.TransformerEncoder itself, the optimiser torch.optim.AdamW, the
positions are written from their definitions.  Only rotary attention is by hand, and it is held against
nn.MultiheadAttention here.  Shares no code with lab and reads none of its output.  Run by hand, with
Debian's python3-torch 1.13:  python3 tests/golden/make_golden.py

To add a case, add a row to CASES: the test finds the files by itself.

A line of a golden file is `name [dims...] [/stride] : values`.  Numbers are hex floats.  A stride S says that
only elements 0, S, 2S ... of the flattened tensor are kept, so that the files stay small.  `weights.txt` holds the weights that all cases
start from; a case may replace some (`start.NAME`).  `grad.NAME` is the gradient at the start, `end.NAME` the
weights after the last step, `losses` and `norms` (before clipping) belong to the steps.
"""
import math
import os
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
D, HEADS, LAYERS, D_FF, VOCAB_IN, VOCAB_OUT, STEPS = 8, 2, 2, 16, 7, 5, 10
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.999), 1e-8, 0.1, 1.0
EPS_NORM = 1e-5

TOKEN = [[1, 4, 0, 4, 2], [3, 3, 5, 0, 1], [5, 2, 4, 1, 3]]         # token 6 never occurs: its gradient is 0
TARGET = [[2, 0, -1, 4, 1], [-1, 3, 3, 0, 2], [4, 1, 2, -1, 0]]    # -1: not scored
ROW = [0, 1, 2, 3, 4]
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
    "long-t5": dict(encoder="t5", causal=True, long=True),
    "long-rope": dict(encoder="rope", long=True, key_ok=[[i % 7 != 2 and i < 140 for i in range(LONG)]]),
    "positions-rows-learned": dict(encoder="learned", position=[[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [1, 2, 4, 5, 7]]),
}
OPTIONS = {                                                       # written out in full, so that no default is relied on
    "none": {},
    "sinusoidal": dict(base=10000, layout="interleaved"),
    "learned": dict(max_len=8),
    "t5": dict(buckets=8, max_distance=6),
    "rope": dict(base=10000, pairs="interleaved", fraction=1),
}


def settings(case):
    defaults = dict(token=TOKEN, target=TARGET, causal=False, norm="post", norm_type="layernorm", activation="relu", tied=False, embed_scale="sqrt_d",
                    schedule="constant", warmup=0, position=ROW, key_ok=None, weight=False, long=False, keep=6)
    if case.get("long"):
        defaults["position"] = list(range(LONG))
        defaults["token"], defaults["target"] = ([[(i * i * k + i // 3) % n for i in range(LONG)]] for k, n in ((3, 7), (2, 5)))
    return {**defaults, **case, "options": {**OPTIONS[case["encoder"]], **case.get("options", {})}}


# ---- positions, from their definitions ----

def speeds(n, base):                       # w_k = base^(-2k/n), k < n/2
    return torch.tensor([base ** (-2 * k / n) for k in range(n // 2)])


def sinusoidal(position, base, layout):    # [...,T] -> [...,T,D]
    angle = position[..., None] * speeds(D, base)
    if layout == "interleaved":
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)
    return torch.cat((angle.sin(), angle.cos()), -1)


def t5_bucket(query, key, causal, buckets, max_distance):
    n = query - key
    offset = 0
    if causal:
        n = max(n, 0)
    else:
        buckets //= 2
        offset = buckets if n < 0 else 0
        n = abs(n)
    exact = buckets // 2
    if n < exact:
        return offset + n
    far = exact + math.floor(math.log(n / exact) / math.log(max_distance / exact) * (buckets - exact))
    return offset + min(far, buckets - 1)


def rotate(x, position, base, pairs, fraction):          # x [B,H,T,dh], position [B,T]
    turning = int(x.shape[-1] * fraction)
    angle = position[:, None, :, None] * speeds(turning, base)
    if pairs == "interleaved":
        first, second = slice(0, turning, 2), slice(1, turning, 2)
    else:
        first, second = slice(0, turning // 2), slice(turning // 2, turning)
    y = x.clone()
    y[..., first] = x[..., first] * angle.cos() - x[..., second] * angle.sin()
    y[..., second] = x[..., first] * angle.sin() + x[..., second] * angle.cos()
    return y


class Attention(nn.MultiheadAttention):
    """Attention by hand, with `turn` applied to queries and keys: what nn.MultiheadAttention does when turn is the identity."""
    turn = staticmethod(lambda x: x)

    def forward(self, x, _key, _value, attn_mask=None, key_padding_mask=None, need_weights=False):
        batch, length, _ = x.shape
        q, k, v = (F.linear(x, w, b).view(batch, length, HEADS, D // HEADS).transpose(1, 2)
                   for w, b in zip(self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)))
        logits = self.turn(q) @ self.turn(k).transpose(-1, -2) / math.sqrt(D // HEADS)
        if attn_mask is not None:
            logits = logits + attn_mask.view(batch, HEADS, length, length)
        if key_padding_mask is not None:
            logits = logits.masked_fill(key_padding_mask[:, None, None, :], -math.inf)
        z = logits.softmax(-1) @ v
        return self.out_proj(z.transpose(1, 2).reshape(batch, length, D)), None


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + EPS_NORM).sqrt() * self.weight


def swiglu(h):                             # rows of linear1: first the gates, then the values
    gate, value = h.chunk(2, -1)
    return F.silu(gate) * value


class Model(nn.Module):
    def __init__(self, s, by_hand):
        super().__init__()
        self.s = s
        pre = s["norm"] == "pre"
        norm = (lambda: nn.LayerNorm(D, EPS_NORM)) if s["norm_type"] == "layernorm" else (lambda: RMSNorm(D))
        activation = {"relu": F.relu, "gelu": F.gelu, "swiglu": swiglu}[s["activation"]]
        layer = nn.TransformerEncoderLayer(D, HEADS, D_FF, dropout=0, activation=activation, layer_norm_eps=EPS_NORM,
                                           batch_first=True, norm_first=pre)
        if s["activation"] == "swiglu":
            layer.linear1 = nn.Linear(D, 2 * D_FF)
        if by_hand:
            layer.self_attn = Attention(D, HEADS, batch_first=True)
        layer.norm1, layer.norm2 = norm(), norm()
        self.embedding = nn.Embedding(VOCAB_IN, D)
        self.stack = nn.TransformerEncoder(layer, LAYERS, norm() if pre else None)
        self.head = nn.Linear(D, VOCAB_IN if s["tied"] else VOCAB_OUT, bias=not s["tied"])
        if s["tied"]:
            self.head.weight = self.embedding.weight
        shape = {"learned": (s["options"].get("max_len"), D), "t5": (s["options"].get("buckets"), HEADS)}.get(s["encoder"])
        self.table = nn.Parameter(torch.zeros(shape)) if shape else None

    def named(self):                       # by lab's names
        own = "encoder.bias" if self.s["encoder"] == "t5" else "encoder.table"
        name = lambda n: n.replace("stack.", "") if n != "table" else own
        return {name(n): p for n, p in self.named_parameters()}   # a shared tensor is listed once, as the embedding's

    def forward(self, token, position, key_ok):                   # [B,T] each
        s, o = self.s, self.s["options"]
        x = self.embedding(token) * (math.sqrt(D) if s["embed_scale"] == "sqrt_d" else 1)
        batch, length = token.shape
        mask = torch.zeros(batch, HEADS, length, length)
        if s["encoder"] == "sinusoidal":
            x = x + sinusoidal(position, o["base"], o["layout"])
        elif s["encoder"] == "learned":
            x = x + self.table[position]
        elif s["encoder"] == "t5":
            bucket = torch.tensor([[[t5_bucket(int(i), int(j), s["causal"], o["buckets"], o["max_distance"]) for j in row]
                                    for i in row] for row in position])
            mask = self.table[bucket].permute(0, 3, 1, 2)         # [B,T,T,H] -> [B,H,T,T]
        elif s["encoder"] == "rope":
            for layer in self.stack.layers:
                layer.self_attn.turn = lambda y: rotate(y, position, o["base"], o["pairs"], o["fraction"])
        if s["causal"]:
            mask = mask + torch.full((length, length), -math.inf).triu(1)
        padding = None if key_ok is None else key_ok == 0
        return self.head(self.stack(x, mask.reshape(batch * HEADS, length, length), padding))


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


def decays(name, p):                       # matrices and embeddings do; biases, T5's too, and norms do not
    return p.dim() >= 2 and name != "encoder.bias"


# ---- one case ----

def start_weight(name, shape):             # multiples of 1/64: short to write, exact in float
    scale = 0.25 if len(shape) == 1 else 0.5
    w = torch.round(torch.randn(shape) * scale * 64) / 64
    return 1 + w if "norm" in name and name.endswith("weight") else w


def run(s, shared, by_hand):
    model = Model(s, by_hand)
    named = model.named()
    own = {}                               # weights that only this case has
    with torch.no_grad():
        torch.manual_seed(2)
        for name, p in named.items():
            if name not in shared or shared[name].shape != p.shape:
                own[name] = start_weight(name, p.shape)
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
        if s["encoder"] != "rope":         # softmax ignores what all keys share: the key bias has gradient 0, not
            for layer in model.stack.layers:             # the rounding noise that Adam would blow up to a step
                layer.self_attn.in_proj_bias.grad[D:2 * D] = 0
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
    x = x if bits is None else rounded(x, bits)
    flat, stride = x.flatten().tolist(), 1
    if most and len(flat) > most:          # a prime that does not divide a row: every column is met
        stride = next(p for p in (3, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43) if math.ceil(len(flat) / p) <= most)
    dims = " ".join(str(n) for n in x.shape) + (f" /{stride}" if stride > 1 else "")
    return f"{name} {dims} : " + " ".join(hexadecimal(v) if x.is_floating_point() else str(v) for v in flat[::stride]) + "\n"


def write(name, s, r):
    words = [("encoder", s["encoder"])] + [(f"option.{k}", v) for k, v in s["options"].items()]
    yes_no = lambda v: ("yes" if v else "no") if isinstance(v, bool) else v
    words += [(f"model.{k}", yes_no(s[k])) for k in ("causal", "norm", "norm_type", "activation", "tied", "embed_scale")]
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
    torch.manual_seed(1)
    widest = Model(settings(dict(encoder="none", norm="pre")), False)
    shared = {n: start_weight(n, p.shape) for n, p in widest.named().items()}
    with open(os.path.join(FOLDER, "weights.txt"), "w") as out:
        out.write(line("token", TOKEN) + "".join(line(n, w) for n, w in shared.items()))
    for name, case in CASES.items():
        s = settings(case)
        r = run(s, shared, by_hand=s["encoder"] == "rope")
        if s["encoder"] != "rope":         # PyTorch's own attention stands; the one by hand must agree with it
            assert worst(r, run(s, shared, by_hand=True)) < 1e-11, name
        write(name, s, r)
        print(f"{name:28} loss {r['losses'][0]:.4f} -> {r['losses'][-1]:.4f}  norm {r['norms'][0]:.3f} .. {r['norms'][-1]:.3f}")


main()
