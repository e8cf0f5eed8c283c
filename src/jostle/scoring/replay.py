"""Modules that no jolt reaches are computed once for a micro-batch, and their outputs given again under every jolt.

Which modules these are shows a traced pass of the micro-batch itself. In it every operation is seen, and what was made
of a jolted parameter is known by the memory it lies in. A module can be replayed if it is called once, holds nothing
that is jolted, is given nothing and returns nothing that a jolt reaches, writes into nothing but its own, draws no
random numbers, hands nothing out by another way than its output, and nobody writes into that. Where the flow of the
program depends on numbers that a jolt reaches, nothing is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from jostle.inputs import Inputs, arrays
from jostle.scoring.network import Network, Parameter
from jostle.scoring.passes import tallied

DRAWS = torch.Tag.nondeterministic_seeded
BY_NUMBERS = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
}  # Python sees numbers, or their count
LEAVING = {Tensor.numpy, Tensor.tolist, Tensor.data_ptr, Tensor.__array__}  # numbers leave torch's sight
Watch = Callable[[Inputs], Tensor]


@dataclass
class Run:
    """One call of a module, as a trace saw it."""

    name: str
    safe: bool
    outputs: set[int] = field(default_factory=set)  # where its outputs lie
    readers: set[tuple[str, ...]] = field(
        default_factory=set
    )  # modules, from the outermost, in which they were read
    finished: bool = False


class Traced(TorchDispatchMode):
    """Follows what jolts reach through one forward pass, by the memory that tensors lie in."""

    def __init__(self, model: nn.Module, moving: Sequence[Parameter]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reached = {place_of(parameter.copy) for parameter in moving}
        self.jolted = {alias for parameter in moving for alias in parameter.aliases}
        self.model = model
        self.runs: dict[str, Run] = {}
        self.running: list[Run] = []
        self.makers: dict[int, tuple[str, ...]] = {}  # a place -> the modules in which it was made
        self.by_numbers = False  # the program's flow depends on numbers
        self.lost = False  # and on some that a jolt reaches

    @contextmanager
    def following(self) -> Iterator[None]:
        """Know which modules run."""
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                if name:
                    before = module.register_forward_pre_hook(self.entering(name), with_kwargs=True)
                    after = module.register_forward_hook(self.leaving(name), with_kwargs=True)
                    stack.callback(before.remove)
                    stack.callback(after.remove)
            with Leaving(self), self:
                yield

    def entering(self, name: str) -> Callable[..., None]:
        """A hook that begins a run."""
        holds = any(alias.startswith(f"{name}.") for alias in self.jolted)

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            reached = any(place_of(t) in self.reached for t in arrays([args, kwargs]))
            run = Run(name, safe=not holds and not reached and name not in self.runs)
            if name in self.runs:
                self.runs[name].safe = False  # called twice: which output would it be
            self.runs.setdefault(name, run)
            self.running.append(run)

        return enter

    def leaving(self, name: str) -> Callable[..., None]:
        """A hook that ends a run."""

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            run = self.running.pop()
            run.finished = True
            run.outputs = {place_of(t) for t in arrays(output)}
            made = all(name in self.makers.get(place, ()) for place in run.outputs)
            run.safe &= is_plain(output) and made and not run.outputs & self.reached

        return leave

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        read = {place_of(tensor) for tensor in arrays([args, dict(kwargs or {})])}
        fresh = {place_of(tensor) for tensor in arrays(made)} - read
        written = {
            place_of(t) for given in written_arguments(func, args, kwargs or {}) for t in arrays(given)
        }
        reached = bool(read & self.reached)
        self.reached = self.reached | fresh | written if reached else self.reached - fresh
        names = tuple(run.name for run in self.running)
        self.makers.update(dict.fromkeys(fresh, names))
        self.note_reading(read, written, names)
        if BY_NUMBERS & set(func.tags):
            self.note_numbers(reached)
        random = draws(func, args, kwargs or {})
        for run in self.running:  # what it writes into is its own, or it would have to be done again
            run.safe &= not random and all(run.name in self.makers.get(place, ()) for place in written)
        return made

    def note_reading(self, read: set[int], written: set[int], names: tuple[str, ...]) -> None:
        """Who reads what modules made: nobody but through their outputs, which nobody may write into."""
        for place in read:
            for maker in set(self.makers.get(place, ())) - set(names):
                run = self.runs[maker]
                if place in run.outputs and place not in written:
                    run.readers.add(names)
                else:
                    run.safe = False

    def note_numbers(self, reached: bool) -> None:
        """Python has seen numbers: whoever runs may remember them."""
        self.by_numbers = True
        self.lost |= reached
        for run in self.running:
            run.safe = False

    def chosen(self, result: Tensor) -> dict[str, bool]:
        """The outermost modules that can be replayed, and whether anything computed reads their outputs."""
        if self.lost:
            return {}
        safe = [name for name, run in self.runs.items() if run.safe and run.finished]
        outermost = [n for n in safe if not any(n.startswith(f"{other}.") for other in safe)]
        given = self.makers.get(place_of(result), ())
        return {
            name: name in given or any(not set(who) & set(outermost) for who in self.runs[name].readers)
            for name in outermost
        }


class Leaving(TorchFunctionMode):
    """Sees numbers leave for where no trace follows them."""

    def __init__(self, traced: Traced) -> None:
        super().__init__()
        self.traced = traced

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in LEAVING:
            self.traced.note_numbers(any(place_of(t) in self.traced.reached for t in arrays(list(args))))
        return func(*args, **(kwargs or {}))


@dataclass
class Record:
    """Outputs of a micro-batch to be given again: inside `with record:` the modules return them at once."""

    model: nn.Module
    outputs: dict[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        return sum(t.untyped_storage().nbytes() for t in arrays(list(self.outputs.values())))

    def __enter__(self) -> None:
        for name, output in self.outputs.items():
            vars(self.model.get_submodule(name))["forward"] = lambda *args, _given=output, **kwargs: _given

    def __exit__(self, *_: object) -> None:
        for name in self.outputs:
            del vars(self.model.get_submodule(name))["forward"]


class Replay:
    """Finds and keeps what jolts of some parameters do not reach, micro-batch by micro-batch."""

    def __init__(self, network: Network, moving: Sequence[Parameter]) -> None:
        self.network, self.moving = network, moving
        self.known: dict[
            Any, dict[str, bool]
        ] = {}  # by the shapes of inputs, on which a program's flow may depend

    def recorded(self, watch: Watch, inputs: Inputs) -> tuple[Tensor, Record]:
        """What is watched of a micro-batch at rest, and the outputs to replay."""
        chosen, record = self.chosen(watch, inputs), Record(self.network.module)
        with ExitStack() as stack:
            for name, needed in chosen.items():
                module = self.network.module.get_submodule(name)
                stack.callback(module.register_forward_hook(keeping(record, name, needed)).remove)
            clean = watch(inputs)
        return clean, record

    def chosen(self, watch: Watch, inputs: Inputs) -> dict[str, bool]:
        """The modules to replay, from a traced pass: one for each shape, or for each batch whose numbers decide."""
        shapes = tuple((tuple(array.shape), array.dtype) for array in arrays(inputs))
        if shapes in self.known:
            return self.known[shapes]
        traced = Traced(self.network.module, self.moving)
        with torch.random.fork_rng([]), tallied(), traced.following():
            result = watch(inputs)
        found = traced.chosen(result)
        if not traced.by_numbers:
            self.known[shapes] = found
        return found


def can_replay(network: Network) -> bool:
    """Whether a model is made of modules that can be followed: scripted ones cannot, nor forwards that are patched."""
    return not any(
        isinstance(part, torch.jit.ScriptModule) or "forward" in vars(part)
        for part in network.module.modules()
    )


def keeping(record: Record, name: str, needed: bool) -> Callable[..., None]:
    """A hook that keeps a module's output; of one that nothing computed reads, the shape alone."""

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        record.outputs[name] = output if needed else hollow(output)

    return keep


def hollow(output: Any) -> Any:
    """The same shapes without the numbers."""
    if isinstance(output, tuple):
        return tuple(map(hollow, output))
    return output.new_zeros(()).expand(output.shape) if isinstance(output, Tensor) else output


def is_plain(output: Any) -> bool:
    """Whether an output is a tensor, or a tuple of tensors: nothing that somebody could add to later."""
    if type(output) is tuple:
        return all(part is None or is_plain(part) for part in output)
    return type(output) is Tensor


def place_of(tensor: Tensor) -> int:
    """The memory that a tensor lies in, which its views share."""
    return int(tensor.untyped_storage()._cdata)


def draws(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation draws random numbers; attention without dropout does not."""
    if DRAWS not in func.tags:
        return False
    names = [argument.name for argument in func._schema.arguments]
    rate = dict(zip(names, args, strict=False)).get("dropout_p", kwargs.get("dropout_p"))
    return (rate is None and "dropout_p" not in names) or bool(rate)


def written_arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Those arguments of an operation that it writes into."""
    if func._schema.is_mutable:
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield args[place] if place < len(args) else kwargs.get(argument.name)
