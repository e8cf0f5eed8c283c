"""Outputs and features of any nn.Module, from a private copy in eval mode: the user's own is only read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from jostle.inference.isolation import (
    InputMutatedError,
    private_copy,
    retie,
    scoring_device,
    their_device,
    unwrapped,
)
from jostle.inference.reader import (
    ModelInputError,
    Read,
    batched,
    by_convention,
    one_in_words,
    output_of,
    refused,
)
from jostle.inputs import ExampleList, Inputs, arrays, count, mapped, unshared, versions
from jostle.utils.names import cached_property, unknown

Head = str | Callable[[nn.Module, Inputs], Tensor] | None  # a module's name, or features as a function

CPU_CACHE = 8 * 2**20  # bytes: a micro-batch whose largest activation fits here runs fastest on a CPU
GPU_WORK = 256 * 2**20  # bytes: enough to fill a GPU, little enough to fit


class ModelRunner:
    """A model as strategies see it: `outputs(inputs)`, `features(inputs)`, never the user's own weights.

    The copy is in eval mode and float32 at least: half precision rounds perturbations of 1e-3 away. A model that writes
    into its inputs gets copies of them; if it begins to do so after the first pass, `InputMutatedError` is raised.
    """

    def __init__(
        self,
        model: nn.Module,
        example: Inputs,
        head: Head = None,
        outputs: Read | None = None,
        device: torch.device | str | None = None,
        copy_inputs: bool = False,
    ) -> None:
        self.original = unwrapped(model)
        self.device = scoring_device(self.original, device)
        self.module = private_copy(self.original).eval()
        self.module._apply(lambda t: t.float() if t.is_floating_point() and t.element_size() < 4 else t)
        self.module.to(self.device)
        self.read = outputs or output_of
        self.given_head = head
        self.weights: dict[str, Tensor] | None = None
        self.copy_inputs = copy_inputs  # gives copies, since what is given may be written into
        kinds = [
            getattr(m, "original_name", type(m).__name__) for m in self.module.modules()
        ]  # of TorchScript too
        convolutions = any(isinstance(m, nn.Conv2d) for m in self.module.modules()) or "Conv2d" in kinds
        self.example: Inputs = None
        try:
            self.trace = self.traced(
                example, torch.channels_last if convolutions else torch.contiguous_format
            )
        except ModelInputError as error:
            if not convolutions or "view" not in str(error.__cause__):
                raise
            self.trace = self.traced(example, torch.contiguous_format)  # `x.view` wants it so
        self.example_outputs, self.order = self.trace.output, self.trace.order
        self.likely_head = self.trace.head()
        if isinstance(head, str):
            self.head  # noqa: B018 - a name that does not exist is an error now, not when features are asked for

    def traced(self, example: Inputs, layout: torch.memory_format) -> Trace:
        """Trace one forward pass of a few examples, with weights and images in this memory layout."""
        self.layout = layout
        self.module.to(memory_format=layout)  # type: ignore[call-overload]
        retie(self.module, self.original)
        given = self.prepared(example)
        lent = mapped(torch.clone, given)
        before, trace = versions(lent), Trace()
        with torch.no_grad():
            with trace.watching(self.module, count(given)), self.explain_errors(given):
                returned = self.run(lent)
            trace.output = batched(self.read(returned), count(given))
        if not trace.output.is_floating_point():
            raise TypeError(
                f"outputs are {trace.output.dtype}; strategies need logits, not predicted classes"
            )
        self.copy_inputs |= versions(lent) != before or not same_contents(lent, given)
        self.example = given
        return trace

    @contextmanager
    def explain_errors(self, inputs: Inputs) -> Iterator[None]:
        """An error of the first pass describes its batch, and one of inputs of another form than those shows both."""
        try:
            yield
        except (HeadReached, torch.cuda.OutOfMemoryError):
            raise
        except Exception as error:
            if self.example is not None and one_in_words(inputs) == one_in_words(self.example):
                raise
            raise refused(inputs, self.example, error) from error

    def prepared(self, inputs: Inputs) -> Inputs:
        """Inputs on the device, in the weights' precision and the memory layout that convolutions like: never the
        user's own memory.
        """

        def on_device(array: Any) -> Tensor:
            given = torch.as_tensor(array)
            floating = given.is_floating_point() and self.dtype is not None
            tensor = (given.to(self.dtype) if floating else given).to(self.device, non_blocking=True)
            tensor = tensor.contiguous(memory_format=self.layout) if tensor.ndim == 4 else tensor
            return unshared(tensor, given)

        return mapped(on_device, inputs)

    @cached_property
    def dtype(self) -> torch.dtype | None:
        """The one floating type of the weights; None where they mix, and inputs stay as they are."""
        kinds = {p.dtype for p in self.module.parameters() if p.is_floating_point()}
        return kinds.pop() if len(kinds) == 1 else None

    def call(self, inputs: Inputs) -> Any:
        """Return the model's output for these inputs, which stay unchanged."""
        if (tally := _tally.get()) is not None:
            tally.examples += count(inputs)
        with self.guard_inputs(inputs) as lent, self.explain_errors(inputs):
            return self.run(lent)

    @contextmanager
    def guard_inputs(self, inputs: Inputs) -> Iterator[Inputs]:
        """Inputs for the model to do with as it likes: copies if it is known to write into them, else watched."""
        clone = torch.clone if self.copy_inputs else lambda array: array
        lent = mapped(clone, inputs)  # its dicts and lists are new in any case
        before = versions(lent)
        try:
            yield lent
        finally:
            if not self.copy_inputs and versions(lent) != before:
                raise InputMutatedError

    def run(self, inputs: Inputs) -> Any:
        """Return the model's output for inputs that it may write into."""
        args, kwargs = arguments(self.module, inputs)
        torch.clear_autocast_cache()  # else a model with autocast inside would use clean weights
        with their_device():
            if self.weights is None:
                return self.module(*args, **kwargs)
            buffers = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
            return functional_call(self.module, buffers | self.weights, args, kwargs)

    @contextmanager
    def at(self, weights: dict[str, Tensor]) -> Iterator[None]:
        """Compute with other weights for a while."""
        self.weights = weights
        try:
            yield
        finally:
            self.weights = None

    def outputs(self, inputs: Inputs) -> Tensor:
        """The model's output tensor (n, ...)."""
        return batched(self.read(self.call(inputs)), count(inputs))

    def features(self, inputs: Inputs) -> Tensor:
        """The input of the head, (n, d) or a map; the head itself does not run."""
        if callable(self.given_head):
            torch.clear_autocast_cache()  # as before other passes
            with self.guard_inputs(inputs) as lent, their_device():
                return batched(self.given_head(self.module, lent), count(inputs))
        with self.watching_head() as seen, suppress(HeadReached):
            self.call(inputs)
        return self.by_example(seen[-1], inputs)

    def features_and_outputs(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Both from one pass where the head is a module."""
        if callable(self.given_head):
            return self.features(inputs), self.outputs(inputs)
        with self.watching_head(stop=False) as seen:
            outputs = self.outputs(inputs)
        return self.by_example(seen[-1], inputs), outputs

    def by_example(self, features: Tensor, inputs: Inputs) -> Tensor:
        """The head's input, (n, ...), or an error where its rows are not the examples."""
        if len(features) != count(inputs):
            raise ValueError(
                f"the head {self.head!r} is given shape {tuple(features.shape)} for {count(inputs)} examples, whose "
                "rows are not the examples: give features (n, d) as a function, head=lambda model, x: ..."
            )
        return features

    def channels_first(self, features: Tensor) -> Tensor:
        """Features as (n, d), (n, tokens, d) or (n, d, height, width, ...), whichever way round the head takes them;
        those of a function as they are.
        """
        if callable(self.given_head):
            return features
        return by_convention(features, self.module.get_submodule(self.head))

    @contextmanager
    def watching_head(self, stop: bool = True) -> Iterator[list[Tensor]]:
        """The head's inputs, filled in as the model runs; `stop` ends the pass there, as nothing after is needed."""
        name = self.head
        seen, before = list[Tensor](), list[int]()

        def watch(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            features = (args or tuple(kwargs.values()))[0]
            seen.append(features.clone() if self.copy_inputs else features)
            before.extend(versions(seen[-1]))
            if stop and self.trace.calls[name] == 1:
                raise HeadReached

        hook = self.module.get_submodule(name).register_forward_pre_hook(watch, with_kwargs=True)
        try:
            yield seen
        finally:
            hook.remove()
        if versions(seen) != before:
            raise InputMutatedError

    @cached_property
    def head(self) -> str:
        """The name of the module whose input is the feature."""
        if isinstance(self.given_head, str):
            names = dict(self.module.named_modules())
            if self.given_head not in names:
                raise unknown("module", self.given_head, (name for name in names if name))
            if not self.trace.calls.get(self.given_head):
                raise ValueError(f"head={self.given_head!r} is never called in the model's forward pass")
            return self.given_head
        if self.likely_head is None:
            raise ValueError(
                f"no linear or 1x1 convolution layer is called as a module in {type(self.original).__name__}: "
                "name the last layer with head=, or give features as a function head=lambda model, x: ..."
            )
        return self.likely_head

    @property
    def micro_batch(self) -> int:
        """Examples per forward pass: a rule on activation sizes, never a timing, so results repeat."""
        budget = CPU_CACHE if self.device.type == "cpu" else GPU_WORK
        fitting = max(1, budget // max(1, self.trace.largest_activation))
        return min(1024, 1 << (fitting.bit_length() - 1))


def arguments(module: nn.Module, inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs as forward takes them: by position, or a dict's entries by name; names it lacks are left out."""
    if isinstance(inputs, ExampleList):
        return (list(inputs),), {}
    if not isinstance(inputs, Mapping):
        return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {}
    named = known_arguments(module, inputs)
    return ((), named) if named else ((inputs,), {})  # a forward that names none of them takes the whole dict


def known_arguments(module: nn.Module, named: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the named arguments that forward takes."""
    takes = inspect.signature(module.forward).parameters
    every = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    return {key: value for key, value in named.items() if every or key in takes}


class HeadReached(Exception):  # noqa: N818
    """Ends a forward pass once the features are known."""


def same_contents(inputs: Inputs, others: Inputs) -> bool:
    """Whether two batches hold the same numbers, NaN included."""
    pairs = zip(arrays(inputs), arrays(others), strict=True)
    return all(torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in pairs)


@dataclass
class Trace:
    """Record of one forward pass: the order of calls, the head and the largest activation."""

    calls: dict[str, int] = field(
        default_factory=dict
    )  # modules in the order of their first calls, how often each
    candidates: list[tuple[str, int]] = field(
        default_factory=list
    )  # linear and 1x1 layers as called, with widths
    largest_activation: int = 0  # bytes per example
    output: Tensor = field(init=False)

    @contextmanager
    def watching(self, model: nn.Module, size: int) -> Iterator[None]:
        """Look at the model while it runs on a batch of `size` examples."""

        def enter(name: str, module: nn.Module, args: Any) -> None:
            self.calls[name] = self.calls.get(name, 0) + 1

        def leave(name: str, module: nn.Module, args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.layout == torch.strided:
                self.largest_activation = max(self.largest_activation, output.nbytes // size)
            if width := width_of_linear(module):
                self.candidates.append((name, width))

        with ExitStack() as hooks:
            for name, module in model.named_modules():
                if not isinstance(module, torch.jit.ScriptModule):
                    hooks.callback(module.register_forward_pre_hook(partial(enter, name)).remove)
                    hooks.callback(module.register_forward_hook(partial(leave, name)).remove)
            yield

    @property
    def order(self) -> dict[str, int]:
        """When each module was first called; those that were not are not in it."""
        return {name: place for place, name in enumerate(self.calls)}

    def head(self) -> str | None:
        """The last linear layer as wide as the output, so that an auxiliary head called later is not it."""
        widths = set(self.output.shape[1:]) or {1}
        every = [name for name, _ in self.candidates]
        fitting = [name for name, width in self.candidates if width in widths]
        return next(reversed(fitting or every), None)


def width_of_linear(module: nn.Module) -> int:
    """Output width of a linear or 1x1 convolution layer, 0 for anything else."""
    if isinstance(module, nn.Linear):
        return module.out_features
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and set(module.kernel_size) == {1}:
        return module.out_channels
    return 0


@dataclass
class Tally:
    """Count of forward passes of examples: one for each perturbation, dropout mask or committee member."""

    examples: int = 0


_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Count the examples that go through networks while this lasts."""
    tally = Tally()
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)
