"""reference -- the model of lab in PyTorch, float64: what make_golden.py and load_weights.py share.

An independent reference: the stack is nn.TransformerEncoder itself and positions are written from their definitions.
Only rotary attention is by hand, and make_golden.py holds it against nn.MultiheadAttention.  Shares no code with lab.
Parameters carry lab's names, which are nn.TransformerEncoder's with embedding, head and encoder beside them.
"""
import math
from functools import partial
import torch
from torch import nn
from torch.nn import functional as F
from encoders import ENCODERS, speeds

EPS_NORM = 1e-5


# ---- positions, from their definitions ----

def sinusoidal(position, d, base, layout):               # [...,T] -> [...,T,d]
    angle = position[..., None] * speeds(d, base)
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


def scaled_speeds(n, o, length):           # of rope, for sequences of this length, as the papers on longer contexts change them
    w, scaling, s, trained = speeds(n, o["base"]), o.get("scaling", "none"), o.get("factor", 1), o.get("original", 0)
    if scaling == "linear":
        return w / s
    if scaling == "ntk" or scaling == "ntk_dynamic" and length > trained:
        alpha = s if scaling == "ntk" else s * length / trained - (s - 1)
        return speeds(n, o["base"] * alpha ** (n / (n - 2)))
    if scaling == "yarn":
        find = lambda turns: n * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(o["base"]))
        low, high = max(math.floor(find(32)), 0), min(math.ceil(find(1)), n - 1)
        ramp = ((torch.arange(n // 2) - low) / (high - low if high > low else 0.001)).clamp(0, 1)
        return w / s * ramp + w * (1 - ramp)
    return w


def rotate(x, position, o):                              # x [B,H,T,dh], position [B,T]
    turning, pairs = int(x.shape[-1] * o["fraction"]), o["pairs"]
    speed = torch.stack([scaled_speeds(turning, o, (row.max() - row.min() + 1).item()) for row in position])
    angle = position[:, None, :, None] * speed[:, None, None, :]
    m = 0.1 * math.log(o["factor"]) + 1 if o.get("scaling") == "yarn" else 1
    if pairs == "interleaved":
        first, second = slice(0, turning, 2), slice(1, turning, 2)
    else:
        first, second = slice(0, turning // 2), slice(turning // 2, turning)
    y = x.clone()
    y[..., first] = (x[..., first] * angle.cos() - x[..., second] * angle.sin()) * m
    y[..., second] = (x[..., first] * angle.sin() + x[..., second] * angle.cos()) * m
    return y


# ---- parts that PyTorch 1.13 has not ----

class Attention(nn.MultiheadAttention):
    """Attention by hand: nn.MultiheadAttention if turn is the identity, and logits and value give 0."""
    turn = staticmethod(lambda x, _of_key: x)
    logits = staticmethod(lambda q, k, s, seen: 0)       # seen [B,1 or H,T,T]: does the query see the key
    value = staticmethod(lambda weights: 0)

    def forward(self, x, _key, _value, attn_mask=None, key_padding_mask=None, need_weights=False):
        batch, length, d = x.shape
        heads = self.num_heads
        q, k, v = (F.linear(x, w, b).view(batch, length, heads, d // heads).transpose(1, 2)
                   for w, b in zip(self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)))
        q, k = self.turn(q, False), self.turn(k, True)
        s = q @ k.transpose(-1, -2) / math.sqrt(d // heads)
        mask = attn_mask.view(batch, heads, length, length)
        if key_padding_mask is not None:
            mask = mask.masked_fill(key_padding_mask[:, None, None, :], -math.inf)
        weights = (s + self.logits(q, k, s, mask > -math.inf) + mask).softmax(-1)
        z = weights @ v + self.value(weights)
        return self.out_proj(z.transpose(1, 2).reshape(batch, length, d)), None


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + EPS_NORM).sqrt() * self.weight


def swiglu(h):                             # rows of linear1: first the gates, then the values
    gate, value = h.chunk(2, -1)
    return F.silu(gate) * value


# ---- the model ----

class Model(nn.TransformerEncoder):
    """s: vocab_in, vocab_out, encoder, its options, and the keys of lab's [model]."""

    def __init__(self, s, by_hand=False):
        d, heads = s["d_model"], s["heads"]
        norm = (lambda: nn.LayerNorm(d, EPS_NORM)) if s["norm_type"] == "layernorm" else (lambda: RMSNorm(d))
        activation = {"relu": F.relu, "gelu": F.gelu, "swiglu": swiglu}[s["activation"]]
        layer = nn.TransformerEncoderLayer(d, heads, s["d_ff"], dropout=0, activation=activation, layer_norm_eps=EPS_NORM,
                                           batch_first=True, norm_first=s["norm"] == "pre")
        if s["activation"] == "swiglu":
            layer.linear1 = nn.Linear(d, 2 * s["d_ff"])
        own = ENCODERS.get(s["encoder"])
        if by_hand or s["encoder"] == "rope" or own and own.inside_attention:
            layer.self_attn = Attention(d, heads, batch_first=True)
        layer.norm1, layer.norm2 = norm(), norm()
        super().__init__(layer, s["layers"], norm() if s["norm"] == "pre" else None)
        self.s = s
        self.embedding = nn.Embedding(s["vocab_in"], d)
        self.head = None if s["tied"] else nn.Linear(d, s["vocab_out"])
        o = s["options"]
        if s["encoder"] == "learned":
            self.encoder = nn.ParameterDict({"table": nn.Parameter(torch.zeros(o["max_len"], d))})
        elif s["encoder"] == "t5":
            self.encoder = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(o["buckets"], heads))})
        elif own:
            self.encoder = own(s)

    def forward(self, token, position, key_ok=None):              # [B,T] each
        s, o = self.s, self.s["options"]
        batch, length = token.shape
        x = self.embedding(token) * (math.sqrt(s["d_model"]) if s["embed_scale"] == "sqrt" else 1)
        mask = torch.zeros(batch, s["heads"], length, length)
        if s["encoder"] == "sinusoidal":
            x = x + sinusoidal(position, s["d_model"], o["base"], o["layout"])
        elif s["encoder"] == "learned":
            x = x + self.encoder["table"][position]
        elif s["encoder"] == "t5":
            bucket = torch.tensor([[[t5_bucket(i, j, s["causal"], o["buckets"], o["max_distance"]) for j in row] for i in row]
                                   for row in position.tolist()])
            mask = self.encoder["bias"][bucket].permute(0, 3, 1, 2)        # [B,T,T,H] -> [B,H,T,T]
        elif s["encoder"] == "rope":
            for layer in self.layers:
                layer.self_attn.turn = lambda y, _: rotate(y, position, o)
        elif s["encoder"] in ENCODERS:
            x = x + self.encoder.add_embed(position)
            mask = mask + self.encoder.add_bias(position)
            for i, layer in enumerate(self.layers):
                layer.self_attn.turn = partial(self.encoder.turn, position)
                layer.self_attn.logits = partial(self.encoder.add_logits, i, position)
                layer.self_attn.value = partial(self.encoder.add_value, i, position)
        if s["causal"]:
            mask = mask + torch.full((length, length), -math.inf).triu(1)
        x = super().forward(x, mask.reshape(-1, length, length), None if key_ok is None else key_ok == 0)
        return F.linear(x, self.embedding.weight) if self.head is None else self.head(x)
