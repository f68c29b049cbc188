"""The models of `lab bench`, trained in PyTorch as its users write them: nn.TransformerEncoder, Adam, cross-entropy.

  peer_torch.py bench MODEL SECONDS          milliseconds a training step, median
  peer_torch.py sweep RUNS STEPS             trains and evaluates so many runs of experiments/extrapolate.ini

PyTorch 1.13 (Debian's python3-torch).  With OMP_NUM_THREADS=1 it uses one thread, and its time is the processor's, as
`lab bench` counts; otherwise PyTorch's own choice of threads, and the clock on the wall.  Encoders change what a step
costs by a few per cent, so every model here has sinusoidal's, which costs PyTorch one addition.
"""
import math
import os
import statistics
import sys
import time

import torch
from torch import nn

ONE_THREAD = os.environ.get("OMP_NUM_THREADS") == "1"
CLOCK = time.process_time if ONE_THREAD else time.perf_counter
LONGEST = 64

#        d   heads d_ff layers batch length
MODELS = {"seed": (64, 4, 256, 2, 64, 8), "dm": (64, 8, 256, 5, 128, 40), "wide": (256, 8, 1024, 4, 32, 64)}
VOCAB = 10


def sinusoidal(length, d):
    position, pair = torch.arange(length).unsqueeze(1), torch.arange(0, d, 2)
    angle = position * torch.exp(pair * (-math.log(10000.0) / d))
    return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1)


class Model(nn.Module):
    def __init__(self, d, heads, d_ff, layers):
        super().__init__()
        self.d = d
        self.embedding = nn.Embedding(VOCAB, d)
        nn.init.normal_(self.embedding.weight, std=d ** -0.5)
        layer = nn.TransformerEncoderLayer(d, heads, d_ff, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(d, VOCAB)
        self.register_buffer("positions", sinusoidal(LONGEST, d))

    def forward(self, token):
        x = self.embedding(token) * math.sqrt(self.d) + self.positions[:token.shape[1]]
        return self.head(self.encoder(x))


class Trainer:
    def __init__(self, model, seed=0):
        d, heads, d_ff, layers, self.batch, self.length = MODELS[model]
        torch.manual_seed(seed)
        self.model = Model(d, heads, d_ff, layers)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.loss = nn.CrossEntropyLoss()

    def step(self):
        token = torch.randint(VOCAB, (self.batch, self.length))
        target = token.flip(1)
        logits = self.model(token)
        loss = self.loss(logits.reshape(-1, VOCAB), target.reshape(-1))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    @torch.no_grad()
    def evaluate(self, length, sequences):
        self.model.eval()
        token = torch.randint(VOCAB, (sequences, length))
        right = (self.model(token).argmax(2) == token.flip(1)).float()
        self.model.train()
        return right.mean().item(), right.prod(1).mean().item()


def bench(model, seconds):
    trainer = Trainer(model)
    for _ in range(3):
        trainer.step()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = CLOCK()
        trainer.step()
        times.append(1000 * (CLOCK() - start))
    print(f"{statistics.median(times):.4f}")


def sweep(runs, steps):
    """What extrapolate.ini asks of a run: training, evaluations on the way, a final one at each length."""
    for run in range(runs):
        trainer = Trainer("seed", seed=run)
        for step in range(1, steps + 1):
            trainer.step()
            if step % 250 == 0:
                for length in (8, 12, 16, 24, 32):
                    trainer.evaluate(length, 200)
        for length in (8, 12, 16, 24, 32):
            trainer.evaluate(length, 1000)


if __name__ == "__main__":
    if ONE_THREAD:
        torch.set_num_threads(1)
    if sys.argv[1] == "bench":
        bench(sys.argv[2], float(sys.argv[3]))
    else:
        sweep(int(sys.argv[2]), int(sys.argv[3]))
