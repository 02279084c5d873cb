"""Two processes that train one layer; test_parallel.py starts them. Arguments: ddp or fsdp, rank, file to meet at."""

from __future__ import annotations

import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gatel0rd import GateL0RD

kind, rank, meeting = sys.argv[1], int(sys.argv[2]), sys.argv[3]
warnings.simplefilter("ignore")
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
for hidden in (4, 64):
    torch.manual_seed(0)
    x = torch.randn(5, 6, 3)
    alone = GateL0RD(3, hidden, engine="torch").eval()
    shared = GateL0RD(3, hidden).eval()
    shared.load_state_dict(alone.state_dict())
    alone(x)[0].square().mean().backward()
    expected = {name: parameter.grad for name, parameter in alone.named_parameters()}
    if kind == "ddp":
        wrapped = DistributedDataParallel(shared)
    else:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        wrapped = fully_shard(shared, mesh=mesh)
    wrapped(x[:, 3 * rank : 3 * rank + 3])[0].square().mean().backward()
    for name, parameter in shared.named_parameters():
        gradient = parameter.grad.full_tensor() if kind == "fsdp" else parameter.grad
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
dist.destroy_process_group()
