"""encoders -- the field's encoders from their papers' definitions, in PyTorch, for reference.py.

Each is written with whole tensors and leaves gradients to autograd.  add_embed gives what is added to the embeddings, add_bias what
is added to the logits of all layers; turn, add_logits and add_value act inside the attention of one layer.
Shapes: position [B,T], q and k [B,H,T,dh], logits and weights [B,H,T,T].  Parameters carry lab's names.
"""
import math
import torch
from torch import nn


def ahead(position):                       # key - query, [B,T,T]
    return position[:, None, :] - position[:, :, None]


def speeds(n, base):                       # base^(-2k/n), k < n/2
    return torch.tensor([base ** (-2 * k / n) for k in range(n // 2)])


def per_layer(s, *shape):
    return nn.ParameterList([nn.Parameter(torch.zeros(*shape)) for _ in range(s["layers"])])


class Encoder(nn.Module):
    inside_attention = False               # whether the attention must be reference.py's own

    def __init__(self, s):
        super().__init__()
        self.o, self.H, self.d, self.dh = s["options"], s["heads"], s["d_model"], s["d_model"] // s["heads"]

    def add_embed(self, position): return 0
    def add_bias(self, position): return 0
    def turn(self, position, x, of_key): return x
    def add_logits(self, layer, position, q, k, s, seen): return 0
    def add_value(self, layer, position, weights): return 0


class Alibi(Encoder):
    def __init__(self, s):
        super().__init__(s)
        if self.o["learned"]:
            self.slope = nn.Parameter(torch.zeros(self.H))

    def published(self, heads):            # the paper's code: powers of two, and between them every other slope of twice as many
        power = 2 ** math.floor(math.log2(heads))
        first = [(2 ** (-8 / power)) ** (i + 1) for i in range(power)]
        return first if power == heads else first + self.published(2 * power)[0::2][:heads - power]

    def add_bias(self, position):
        r = ahead(position)[:, None].double()
        side, heads = self.o["side"], self.H // 2 if self.o["side"] == "split" else self.H
        slope = torch.tensor(self.published(heads)).repeat_interleave(self.H // heads)
        slope = (self.slope if self.o["learned"] else slope)[:, None, None]
        distance = r.abs() - 0.5 * (r < 0) * (side == "offset")
        out = (-slope * distance).to(slope.dtype)
        if side == "split":                # even heads look left, odd ones right
            odd = (torch.arange(self.H) % 2 == 1)[:, None, None]
            out = out.masked_fill(torch.where(odd, r < 0, r > 0), -math.inf)
        return out


class Shaw(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        rows = 2 * self.o["clip"] + 1
        self.key = per_layer(s, rows, self.dh)
        if self.o["values"]:
            self.value = per_layer(s, rows, self.dh)

    def vectors(self, table, position):    # [B,T,T,dh]
        clip = self.o["clip"]
        return table[ahead(position).clamp(-clip, clip) + clip]

    def add_logits(self, layer, position, q, k, s, seen):
        return torch.einsum("bhic,bijc->bhij", q, self.vectors(self.key[layer], position)) / math.sqrt(self.dh)

    def add_value(self, layer, position, weights):
        if not self.o["values"]:
            return 0
        return torch.einsum("bhij,bijc->bhic", weights, self.vectors(self.value[layer], position))


class TransformerXL(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        self.bias_content, self.bias_position = per_layer(s, self.H, self.dh), per_layer(s, self.H, self.dh)
        self.projection = per_layer(s, self.d, self.d)

    def add_logits(self, layer, position, q, k, s, seen):
        angle = -ahead(position)[..., None] * speeds(self.d, self.o["base"])
        code = torch.cat((angle.sin(), angle.cos()), -1)                          # R(i - j) [B,T,T,d]
        rho = (code @ self.projection[layer].T).unflatten(-1, (self.H, self.dh))
        u, v = self.bias_content[layer][:, None], self.bias_position[layer][:, None]
        content = torch.einsum("bhic,bhjc->bhij", u.expand_as(q), k)              # (q + u) k without q k, which the model adds
        return (content + torch.einsum("bhic,bijhc->bhij", q + v, rho)) / math.sqrt(self.dh)


class Swin(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        self.bias = per_layer(s, 2 * self.o["clip"] + 1, self.H)

    def add_logits(self, layer, position, q, k, s, seen):
        clip = self.o["clip"]
        return self.bias[layer][ahead(position).clamp(-clip, clip) + clip].permute(0, 3, 1, 2)


class Kerple(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        self.scale = per_layer(s, self.H)
        self.register_module("rate" if self.o["form"] == "log" else "power", per_layer(s, self.H))

    def add_logits(self, layer, position, q, k, s, seen):
        n = ahead(position).abs()[:, None].to(q.dtype)
        scale = (0.01 + self.scale[layer].abs())[:, None, None]
        if self.o["form"] == "log":
            return -scale * torch.log(1 + (0.01 + self.rate[layer].abs())[:, None, None] * n)
        x = self.power[layer].abs().remainder(2 * 1.99)
        power = 0.01 + torch.where(x > 1.99, 2 * 1.99 - x, x)[:, None, None]
        return -scale * torch.where(n > 0, n.clamp(min=1) ** power, torch.zeros(()))


class Fire(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        own = (lambda *shape: nn.Parameter(torch.zeros(*shape))) if self.o["shared"] else (lambda *shape: per_layer(s, *shape))
        width = self.o["width"]
        self.weight1, self.bias1 = own(width, 1), own(width)
        self.weight2, self.bias2 = own(self.H, width), own(self.H)
        self.c, self.multiplier = own(1), own(1)

    def add_logits(self, layer, position, q, k, s, seen):
        at = (lambda p: p) if self.o["shared"] else (lambda p: p[layer])
        c = at(self.c)
        psi = lambda x: torch.log(torch.abs(c * x) + 1)
        longest = torch.maximum(position.to(q.dtype), torch.abs(at(self.multiplier) * self.o["length"]))[:, :, None]
        x = psi(ahead(position)) / (psi(longest) + 1e-6)
        hidden = nn.functional.linear(x[..., None], at(self.weight1), at(self.bias1)).relu()
        return nn.functional.linear(hidden, at(self.weight2), at(self.bias2)).permute(0, 3, 1, 2)


class XPos(Encoder):
    inside_attention = True

    def turn(self, position, x, of_key):
        n, o = self.dh, self.o
        zeta = (2 * torch.arange(n // 2) / n + o["gamma"]) / (1 + o["gamma"])
        power = (position.double() - position.double().mean(-1, keepdim=True))[:, None, :, None] / o["decay"]
        growth = (zeta ** (-power if of_key else power)).to(x.dtype)
        angle = position[:, None, :, None] * speeds(n, o["base"])
        a, b = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)
        return (turned * growth[..., None]).flatten(-2)


class CoPE(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        self.table = per_layer(s, self.o["positions"], self.dh)

    def add_logits(self, layer, position, q, k, s, seen):
        last = self.o["positions"] - 1
        p = torch.where(seen, s.sigmoid(), torch.zeros(())).flip(-1).cumsum(-1).flip(-1).clamp(max=last)
        z = q @ self.table[layer].T
        below, above = p.floor().long(), p.ceil().long()
        weight = p - below
        return (1 - weight) * z.gather(-1, below) + weight * z.gather(-1, above)


class Forget(Encoder):
    inside_attention = True

    def __init__(self, s):
        super().__init__(s)
        self.weight, self.bias = per_layer(s, self.H, self.dh), per_layer(s, self.H)

    def add_logits(self, layer, position, q, k, s, seen):
        kept = nn.functional.logsigmoid(torch.einsum("bhjc,hc->bhj", k, self.weight[layer]) + self.bias[layer][:, None])
        kept = torch.where(seen, kept[:, :, None, :], torch.zeros(()))                        # of token t, as query i sees it
        return kept.flip(-1).cumsum(-1).flip(-1) - kept                                        # over t > j


class Sandwich(Encoder):
    def add_bias(self, position):          # pairs count from 1
        pair = torch.arange(1, self.o["dims"] // 2 + 1, dtype=torch.float64)
        angle = position[..., None] * (self.o["base"] ** (-2 * pair / self.o["dims"])).to(torch.get_default_dtype())
        code = torch.cat((angle.sin(), angle.cos()), -1)
        ratio = 8 * torch.arange(1, self.H + 1) / self.H
        return (code @ code.transpose(-1, -2))[:, None] / ratio[:, None, None]


class Fourier(Encoder):
    def __init__(self, s):
        super().__init__(s)
        if self.o["speeds"]:
            self.speed = nn.Parameter(torch.zeros(self.d // 2))
        if self.o["scaled"]:
            self.scale = nn.Parameter(torch.zeros(1))

    def add_embed(self, position):
        angle = position[..., None] * (self.speed if self.o["speeds"] else speeds(self.d, self.o["base"]))
        scale = self.scale if self.o["scaled"] else self.o["start"] or self.d ** -0.5
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2) * scale


ENCODERS = {"alibi": Alibi, "shaw": Shaw, "transformer_xl": TransformerXL, "swin": Swin, "kerple": Kerple, "fire": Fire,
            "xpos": XPos, "cope": CoPE, "forget": Forget, "sandwich": Sandwich, "fourier": Fourier}
