"""Modules that no jolt reaches are computed once for a micro-batch, and their outputs given again under every jolt.

Which modules these are shows a traced pass of the micro-batch itself. A module can be replayed if it is called once,
holds nothing that is jolted, is given nothing and returns nothing that a jolt reaches, writes into nothing but its own,
draws no random numbers, hands nothing out by another way than its output, and nobody writes into that. Where the flow
of the program depends on numbers that a jolt reaches, or a pass goes on from what the one before it left, nothing is
replayed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from jostle.inputs import Inputs, arrays
from jostle.scoring.keepsakes import Keepsakes
from jostle.scoring.network import Network, Parameter
from jostle.scoring.passes import tallied
from jostle.scoring.reach import Forward, Traced, forwards_of, is_plain

Watch = Callable[[Inputs], Tensor]


@dataclass(eq=False)
class Record:
    """Outputs of a micro-batch to be given again: inside `with record:` the modules return them at once."""

    model: nn.Module
    outputs: dict[str, Any] = field(default_factory=dict)
    replaced: ExitStack = field(default_factory=ExitStack)

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        return sum(t.untyped_storage().nbytes() for t in arrays(list(self.outputs.values())))

    def __enter__(self) -> None:
        forwards = {
            name: giving(output, self.model.get_submodule(name).forward)
            for name, output in self.outputs.items()
        }
        self.replaced.enter_context(forwards_of(self.model, forwards))

    def __exit__(self, *_: object) -> None:
        self.replaced.close()


class Replay:
    """Finds and keeps what jolts of some parameters do not reach, micro-batch by micro-batch."""

    def __init__(self, network: Network, moving: Sequence[Parameter]) -> None:
        self.network, self.moving = network, moving
        self.known: dict[
            Any, dict[str, bool]
        ] = {}  # by the shapes of inputs, on which a program's flow may depend
        self.keepers: set[str] = set()  # modules that leave a tensor behind
        self.restless = False  # whether a pass goes on from what the one before it left
        self.records: WeakSet[Record] = WeakSet()

    def recorded(self, watch: Watch, inputs: Inputs) -> tuple[Tensor, Record]:
        """What is watched of a micro-batch at rest, and the outputs to replay.

        Where a module is not called once after all, as in attention's fused form which a trace does not see, nothing is
        replayed for this micro-batch, and what was called for the next of its shape.
        """
        chosen, module = self.chosen(watch, inputs), self.network.module
        outputs: dict[str, list[Any]] = {name: [] for name in chosen}
        forwards = {
            name: keeping(outputs[name], needed, module.get_submodule(name).forward)
            for name, needed in chosen.items()
        }
        with forwards_of(module, forwards):
            clean = watch(inputs)
        kept = {name: once[0] for name, once in outputs.items() if len(once) == 1 and once[0] is not None}
        whole, shapes = len(kept) == len(chosen), form_of(inputs)
        if not whole and shapes in self.known:
            self.known[shapes] = dict.fromkeys(kept, True)
        record = Record(module, kept if whole else {})
        self.records.add(record)
        return clean, record

    def chosen(self, watch: Watch, inputs: Inputs) -> dict[str, bool]:
        """The modules to replay, from a traced pass: one for each shape, or for each batch whose numbers decide."""
        shapes = form_of(inputs)
        if self.restless or shapes in self.known:
            return self.known.get(shapes, {})
        found, by_numbers = self.traced(watch, inputs)
        if shapes is not None and not by_numbers:
            self.known[shapes] = found
        return found

    def traced(self, watch: Watch, inputs: Inputs) -> tuple[dict[str, bool], bool]:
        """The modules to replay, and whether numbers had a part in it."""
        for parameter in self.moving:
            parameter.copy.mul_(1)  # as a jolt does: what is cached until weights change is made anew
        model, device = self.network.module, self.network.device
        before = Keepsakes(model)
        traced = Traced(model, self.moving, [*before.tensors, *arrays(inputs)], self.keepers)
        gpus = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(gpus), tallied():
            try:
                with traced.following():
                    result = watch(inputs)
                self.restless = before.changed(traced)
            except Exception:  # whatever cannot be traced is computed, and fails there if it has to
                return {}, False
            finally:
                before.restore(traced)
        if self.restless or traced.keepers - self.keepers:
            self.forget(traced.keepers)
        return {} if self.restless else traced.chosen(result), traced.by_numbers

    def forget(self, keepers: set[str]) -> None:
        """Nothing of what was recorded can be replayed: some modules were found to leave something behind."""
        self.keepers |= keepers
        self.known.clear()
        for record in self.records:
            record.outputs.clear()


def can_replay(network: Network) -> bool:
    """Whether a model is made of modules that can be followed: scripted ones cannot, nor forwards that are patched."""
    return not any(
        isinstance(part, torch.jit.ScriptModule) or "forward" in vars(part)
        for part in network.module.modules()
    )


def form_of(inputs: Inputs) -> Any:
    """The shapes and types of inputs; None where more than these may decide what a model does, as words do."""
    found: list[Any] = []
    waiting = [inputs]
    while waiting:
        given = waiting.pop()
        if isinstance(given, Tensor):
            found.append((tuple(given.shape), given.dtype))
        elif isinstance(given, Mapping):
            waiting += given.values()
        elif isinstance(given, (tuple, list)):
            waiting += given
        else:
            return None
    return tuple(found)


def keeping(outputs: list[Any], needed: bool, forward: Forward) -> Forward:
    """A forward whose output is kept; of one that nothing computed reads, the shape alone; None if it is not plain."""

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        kept = (alias if needed else hollow) if is_plain(output) else nothing
        outputs.append(kept(output))
        return output

    return run


def giving(output: Any, forward: Forward) -> Forward:
    """A forward that gives an output again, each time as tensors of their own in the same memory."""

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        return alias(output)

    return run


def nothing(output: Any) -> None:
    """Nothing to replay."""


def alias(output: Any) -> Any:
    """The same memory as another tensor: whoever renames, reshapes or marks that in place has not touched this one."""
    if isinstance(output, tuple):
        return tuple(map(alias, output))
    return output.detach() if isinstance(output, Tensor) else output


def hollow(output: Any) -> Any:
    """The same shapes without the numbers."""
    if isinstance(output, tuple):
        return tuple(map(hollow, output))
    return output.new_zeros(()).expand(output.shape) if isinstance(output, Tensor) else output
