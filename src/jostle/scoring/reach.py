"""What jolts reach in a forward pass: every operation is seen, and what was made of a jolted parameter is known by the
memory it lies in.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from jostle.inputs import arrays
from jostle.scoring.network import Parameter

DRAWS = torch.Tag.nondeterministic_seeded
BY_NUMBERS = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
}  # Python sees numbers, or their count
LEAVING = {  # numbers leave torch's sight, and somebody may write into their memory from there
    Tensor.numpy,
    Tensor.tolist,
    Tensor.data_ptr,
    Tensor.__array__,
    Tensor.__dlpack__,
    Tensor.storage,
    Tensor.untyped_storage,
}
TELLING = {Tensor.__float__, Tensor.__int__, Tensor.__index__, Tensor.__bool__, Tensor.__complex__}
OF_LISTS = {
    torch.tensor,
    torch.as_tensor,
    torch.asarray,
    Tensor.new_tensor,
}  # new tensors of lists, of tensors too
LAYOUT = {Tensor.stride, Tensor.is_contiguous, Tensor.contiguous, Tensor.storage_offset}  # beside the shape
Forward = Callable[..., Any]


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
    """Follows what jolts reach through one forward pass, by the memory that tensors lie in.

    What a module returns is copied, so that it is told from the same numbers that are handed out by another way. What
    comes from elsewhere than the `known` tensors (from a global, or another thread) cannot be followed.
    """

    def __init__(
        self,
        model: nn.Module,
        moving: Sequence[Parameter],
        known: Iterable[Tensor],
        keepers: Iterable[str] = (),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lost = False  # the program's flow depends on numbers that a jolt reaches, or cannot be followed
        self.reached = {place for parameter in moving for place in self.places(parameter.copy)}
        self.jolted = {alias for parameter in moving for alias in parameter.aliases}
        self.model = model
        self.runs: dict[str, Run] = {}
        self.running: list[Run] = []
        self.makers: dict[int, tuple[str, ...]] = {}  # a place -> the modules in which it was made
        self.known = self.places(list(known))  # what there was before the pass
        self.older: set[int] = set()  # and was read in it
        self.overwritten: list[
            tuple[Tensor, Tensor]
        ] = []  # what was written into of before the pass, and as it was
        self.keepers = set(keepers)  # modules that leave a tensor behind
        self.by_numbers = False  # the program's flow depends on numbers

    @contextmanager
    def following(self) -> Iterator[None]:
        """Know which modules run, and what they do."""
        forwards = {
            name: self.followed(name, module.forward) for name, module in self.model.named_modules() if name
        }
        with forwards_of(self.model, forwards), uncompiled(), Leaving(self), self:
            yield

    def followed(self, name: str, forward: Forward) -> Forward:
        """A module's forward, with the run noted."""
        holds = any(alias.startswith(f"{name}.") for alias in self.jolted)

        @functools.wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            run = self.begun(name, holds or bool(self.places([args, kwargs]) & self.reached))
            self.running.append(run)
            try:
                return self.handed_out(run, forward(*args, **kwargs))
            finally:
                self.running.pop()

        return run

    def begun(self, name: str, reached: bool) -> Run:
        """A new run, of a module that a jolt reaches or not."""
        if name in self.runs:
            self.runs[name].safe = False  # called twice: which output would it be
            return Run(name, safe=False)
        self.runs[name] = Run(name, safe=not reached)
        return self.runs[name]

    def handed_out(self, run: Run, output: Any) -> Any:
        """A module's output at the end of its run, as a copy if it could be replayed."""
        run.finished = True
        places = self.places(output)
        made = all(run.name in self.makers.get(place, ()) for place in places)
        run.safe &= is_plain(output) and made and not places & self.reached
        return self.copied(run, output) if run.safe else output

    def copied(self, run: Run, output: Any) -> Any:
        """The same numbers elsewhere; modules inside that returned them too know where."""
        if isinstance(output, tuple):
            return tuple(self.copied(run, part) for part in output)
        if output is None:
            return None
        copy = output.clone()
        for old, new in zip(self.places(output), self.places(copy), strict=True):
            self.makers[new] = self.makers[old]
            for within in self.makers[old]:
                if old in self.runs[within].outputs:
                    self.runs[within].outputs.add(new)
            run.outputs.add(new)
        return copy

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        read = set() if func in LIFTS else self.places([args, dict(kwargs)])
        written = self.written(func, args, kwargs)
        made = func(*args, **kwargs)
        fresh = self.places(made) - read
        reached = bool(read & self.reached)
        self.reached.difference_update(fresh)
        self.reached.update(fresh | written if reached else ())
        names = tuple(run.name for run in self.running)
        self.older |= read - self.makers.keys()
        self.lost |= not self.older <= self.known
        self.makers.update(dict.fromkeys(fresh, names))
        self.note_reading(read, written, names)
        if BY_NUMBERS & set(func.tags):
            self.note_numbers(reached)
        random = draws(func, args, kwargs)
        for run in self.running:  # what it writes into is its own, or it would have to be done again
            run.safe &= not random and all(run.name in self.makers.get(place, ()) for place in written)
        return made

    def written(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[int]:
        """Where an operation is about to write; what is older than the pass is kept as it is."""
        given = [t for argument in written_arguments(func, args, kwargs) for t in arrays(argument)]
        for tensor in given:
            if self.places(tensor) - self.makers.keys():
                self.overwritten.append((tensor, tensor.clone()))
        return self.places(given)

    def places(self, value: Any) -> set[int]:
        """Where tensors lie; one that says nothing of it (sparse, or inside `vmap`) cannot be followed."""
        try:
            return {place for tensor in arrays(value) if (place := place_of(tensor))}
        except (NotImplementedError, RuntimeError):
            self.lost = True
            return set()

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

    def note_look(self, value: Any, leaving: bool) -> None:
        """Somebody asked how tensors lie in memory, or takes their numbers away."""
        places = self.places(value)
        self.note_reading(places, places if leaving else set(), tuple(run.name for run in self.running))
        if leaving:
            self.note_numbers(bool(places & self.reached))

    def note_kept(self, tensor: Tensor) -> None:
        """A tensor that a pass leaves behind: whoever made it has to make it again."""
        for place in self.places(tensor):
            self.keepers.update(self.makers.get(place, ()))

    def chosen(self, result: Tensor) -> dict[str, bool]:
        """The outermost modules that can be replayed, and whether anything computed reads their outputs."""
        self.note_reading(self.places(result), set(), ())
        if self.lost:
            return {}
        safe = [
            name for name, run in self.runs.items() if run.safe and run.finished and name not in self.keepers
        ]
        outermost = [n for n in safe if not any(n.startswith(f"{other}.") for other in safe)]
        return {
            name: any(not set(who) & set(outermost) for who in self.runs[name].readers) for name in outermost
        }


class Leaving(TorchFunctionMode):
    """Sees numbers leave for where no trace follows them, and who asks how tensors lie in memory."""

    def __init__(self, traced: Traced) -> None:
        super().__init__()
        self.traced = traced

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in LEAVING or func in LAYOUT:
            self.traced.note_look(list(args), leaving=func in LEAVING)
        elif func in TELLING:
            self.traced.note_numbers(bool(self.traced.places(args) & self.traced.reached))
        elif func in OF_LISTS:
            parts = [t for given in [*args, *(kwargs or {}).values()] for t in within(given)]
            self.traced.note_look(parts, leaving=bool(parts))
        return func(*args, **(kwargs or {}))


def within(given: Any) -> list[Tensor]:
    """The tensors in a list; none for a tensor itself, whose copy is an operation like others."""
    return [] if isinstance(given, Tensor) else list(arrays(given))


@contextmanager
def forwards_of(model: nn.Module, forwards: Mapping[str, Forward]) -> Iterator[None]:
    """Other forwards for some modules by name, for a while."""
    modules = {name: model.get_submodule(name) for name in forwards}
    try:
        for name, forward in forwards.items():
            vars(modules[name])["forward"] = forward
        yield
    finally:
        for module in modules.values():
            vars(module).pop("forward", None)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Let what is compiled run as it was written: a compiler that meets a trace would remember that it failed."""
    stance = getattr(torch.compiler, "set_stance", None)  # PyTorch 2.6 and later
    with stance("force_eager") if stance and "torch._dynamo" in sys.modules else nullcontext():
        yield


def is_plain(output: Any) -> bool:
    """Whether an output is a tensor, or a tuple of tensors: nothing that somebody could add to later."""
    if type(output) is tuple:
        return all(part is None or is_plain(part) for part in output)
    return type(output) is Tensor and output.layout == torch.strided and not output.is_nested


def place_of(tensor: Tensor) -> int:
    """The memory that a tensor lies in, which its views share; 0 for none."""
    with torch._C.DisableTorchFunction():
        return int(tensor.untyped_storage().data_ptr())


def draws(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation draws random numbers; attention without dropout does not."""
    if DRAWS not in func.tags:
        return False
    names = [argument.name for argument in func._schema.arguments]
    rate = dict(zip(names, args, strict=False)).get("dropout_p", kwargs.get("dropout_p"))
    return (rate is None and "dropout_p" not in names) or bool(rate)


LIFTS = {
    torch.ops.aten.lift_fresh.default,
    torch.ops.aten.lift.default,
}  # of new tensors: their memory is new


def written_arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Those arguments of an operation that it writes into."""
    if func._schema.is_mutable:
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield args[place] if place < len(args) else kwargs.get(argument.name)
