#!/usr/bin/env python3
"""load_weights -- loads weights that lab saved into nn.TransformerEncoder, and compares its logits with lab's.

    python3 tests/golden/load_weights.py build/normal/torch/*.safetensors

reads each file by hand (length of the header, JSON header, raw numbers: no package but PyTorch), builds the model from the
configuration in its metadata, and loads strictly: a name too many or too few is an error.  NAME.json beside it holds tokens,
positions and lab's logits, as tests/unit/test_ckpt.c writes them; without it the file is only loaded.  Exit 1 if any differs.
"""
import json
import math
import struct
import sys
import torch
from reference import Model

TOLERANCE = {"F32": 5e-6, "F64": 1e-11}


def read_safetensors(path):                # -> metadata, {name: tensor}, dtype
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(length)), bytearray(f.read())
    metadata = header.pop("__metadata__")
    tensors, at = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype, size = {"F32": (torch.float32, 4), "F64": (torch.float64, 8)}[entry["dtype"]]
        assert begin == at and end - begin == size * math.prod(entry["shape"]), f"{path}: {name} has bytes {begin} to {end}"
        tensors[name] = torch.frombuffer(data[begin:end], dtype=dtype).reshape(entry["shape"]).double()
        at = end
    assert at == len(data), f"{path}: {len(data) - at} bytes after the last tensor"
    return metadata, tensors, next(iter(header.values()))["dtype"]


def settings(metadata, tensors):
    config = json.loads(metadata["lab.config"])
    vocab_in = tensors["embedding.weight"].shape[0]
    head = tensors["embedding.weight" if config["model"]["tied"] else "head.weight"]
    return dict(config["model"], encoder=config["encoder"]["name"], options=config["encoder"]["options"],
                vocab_in=vocab_in, vocab_out=head.shape[0])


def check(path):
    metadata, tensors, dtype = read_safetensors(path)
    model = Model(settings(metadata, tensors))
    model.load_state_dict(tensors, strict=True)
    try:
        with open(path.replace(".safetensors", ".json")) as f:
            expected = json.load(f)
    except FileNotFoundError:
        print(f"loaded  {path}")
        return True
    token = torch.tensor(expected["token"])
    with torch.no_grad():
        logits = model(token, torch.tensor(expected["pos"]).expand(token.shape)).flatten()
    difference = (logits - torch.tensor(expected["logits"])).abs().max().item()
    good = difference <= TOLERANCE[dtype]
    print(f"{'equal  ' if good else 'DIFFERS'} {path}: {logits.numel()} logits, largest difference {difference:.2g}")
    return good


torch.set_default_dtype(torch.float64)
sys.exit(0 if len(sys.argv) > 1 and all([check(path) for path in sys.argv[1:]]) else 1)
