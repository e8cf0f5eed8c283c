"""Draws in proportion to squared gaps that do not depend on shards: the row whose clock over its gap is first wins.

Of independent exponential clocks E with rates D, the chance that E_i / D_i is the smallest is D_i over the sum of all.
At every step each row has a clock of its own, which follows from seed, step and place alone. The clocks of a block of
places are the arrivals of one stream: times with exponential gaps, each at a place that is drawn. So only the early
arrivals are made, those that some bound of a gap leaves a chance, and the clocks of all other rows never are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from jostle.rng import GOLDEN, as_uniform, derive, scrambled

BLOCK = 32  # places whose clocks are one stream: a power of two below 2^11, what bits are to spare
LONGEST = 4096  # arrivals of a stream that are made at once
ROUNDED = 1 + 1e-9  # arrivals as early as this are looked at, so that rounding never drops one


class Arrivals(NamedTuple):
    """The early clocks of some rows at some steps, in any order."""

    steps: Tensor
    """(k,), counted from the first of the steps that were asked for."""
    positions: Tensor
    """(k,)."""
    times: Tensor
    """(k,) float64."""


def lucks(key: int, first: int, steps: int) -> Tensor:
    """What decides the draws of some steps, besides gaps, (steps,)."""
    return torch.tensor([derive(key, "step", first + step) for step in range(steps)])


def arrivals(luck: Tensor, places: Tensor, rates: Tensor, level: float) -> Arrivals:
    """Clocks of the rows at these places, which ascend, that over their rates are below a level; rate 0 is at rest."""
    device, places, rates = places.device, places.cpu(), rates.cpu()
    blocks, inside = torch.unique_consecutive(places // BLOCK, return_inverse=True)
    fastest = torch.zeros_like(blocks, dtype=rates.dtype).scatter_reduce_(0, inside, rates, "amax")
    reach = fastest * (level * ROUNDED)
    step, block, stream = early_streams(luck, blocks, reach)
    since, made, more, found = torch.zeros(len(stream), 1, dtype=torch.float64), 0, 2, list[Arrivals]()
    while made == 0 or len(stream):
        bits = scrambled(
            stream[:, None] + torch.arange(made + 1, made + more + 1) * GOLDEN
        )  # (streams, more)
        waits = -torch.log1p(-as_uniform(bits)) / BLOCK
        times = torch.cat([since, waits], 1).cumsum(1)[:, 1:]  # one after the other, in whatever portions
        which, turn = (times <= reach[block][:, None]).nonzero().T
        place = blocks[block[which]] * BLOCK + (bits[which, turn] & (BLOCK - 1))
        position = torch.searchsorted(places, place).clamp_(max=len(places) - 1)
        time = times[which, turn]
        early = (places[position] == place) & (time / rates[position] < level)
        found.append(Arrivals(step[which][early], position[early], time[early]))
        going = times[:, -1] <= reach[block]
        step, block, stream, since = step[going], block[going], stream[going], times[going, -1:]
        made, more = made + more, min(LONGEST, 8 * more)
    return Arrivals(*(torch.cat(column).to(device) for column in zip(*found, strict=True)))


def early_streams(luck: Tensor, blocks: Tensor, reach: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Step, block and key of the streams whose first arrival may be within their block's reach: few of them are."""
    keys = scrambled(luck[:, None] + (blocks + 1) * GOLDEN)  # (steps, blocks)
    chance = -torch.expm1(-BLOCK * reach) * ROUNDED
    step, block = (as_uniform(scrambled(keys + GOLDEN)) <= chance).nonzero().T
    return step, block, keys[step, block]
