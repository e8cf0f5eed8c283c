"""What keeps a call apart from the user's process: a private copy of the model, its parameters, full float32, seeds."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from jostle.inputs import Inputs
from jostle.rng import alone, seeded_globals

if TYPE_CHECKING:
    from jostle.inference.context import QueryContext
    from jostle.inference.runner import ModelRunner

Readout = Callable[[Inputs], Tensor]  # inputs -> f(x; theta), (n, d)
WITHOUT_FLOAT64 = frozenset({"mps"})  # kinds of devices on which nothing can be computed in double precision


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside torch.compile and the parallel wrappers, whose copies would be slow or refuse."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a model's weights."""
    if not isinstance(module, nn.Module):
        estimator = ": pass an estimator to jostle.select" if hasattr(module, "predict") else ""
        raise TypeError(f"a model is a torch.nn.Module; got {type(module).__name__}{estimator}")
    return next((t.device for t in [*module.parameters(), *module.buffers()]), torch.device("cpu"))


def scoring_device(model: nn.Module, given: torch.device | str | None = None) -> torch.device:
    """Return the device for scoring: the given or the model's, and the CPU where a device has no float64."""
    device = device_of(model) if given is None else device_named(str(given), WITHOUT_FLOAT64)
    if device.type == "meta":
        raise ValueError(
            "the model is on the meta device, which holds no numbers: load its weights, as with "
            "model.to_empty(device='cpu') and load_state_dict, before selecting"
        )
    return torch.device("cpu") if device.type in WITHOUT_FLOAT64 else device


def device_named(name: str, anyway: Collection[str] = ()) -> torch.device:
    """A device that can be computed on, or an error that says what there is; of kinds in `anyway` it is not asked."""
    try:
        device = torch.device(name)
        if device.type not in anyway:
            torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise ValueError(f"cannot compute on the device {name!r}: {str(wrong).splitlines()[0]}") from None
    return device


def private_copy(model: nn.Module) -> nn.Module:
    """A deep copy that shares no module, parameter or buffer with the original, whatever `__deepcopy__` says.

    Other things that cannot be copied (locks, open files) are shared.
    """
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise ValueError(
            "the model has lazy layers that have not seen an input: run it once before selecting"
        )
    made = deep_copy(model)
    if wrong_parts(made, model):
        made = deep_copy(model, force=True)
    if left := wrong_parts(made, model):
        raise ValueError(
            f"a copy of {type(model).__name__} shares or lacks {', '.join(left[:3])}, and whatever is done to what is "
            "shared would change your model: let copy.deepcopy(model) make new modules and tensors"
        )
    return made


def deep_copy(model: nn.Module, force: bool = False, *, share: bool = False) -> nn.Module:
    """A deep copy; with force, modules, parameters and buffers are copied past their own `__deepcopy__`.

    What cannot be copied is shared, once copying has failed.
    """
    memo = activations(model) | (shared_leaves(model) if share else {})
    try:
        if force:
            shells = {m: type(m).__new__(type(m)) for m in model.modules() if refuses_copies(m)}
            memo |= {id(module): shell for module, shell in shells.items()}
            memo |= {id(p): nn.Parameter(p.detach().clone(), p.requires_grad) for p in model.parameters()}
            memo |= {id(b): b.detach().clone() for b in model.buffers()}
            for (
                module,
                shell,
            ) in shells.items():  # all are known before any is filled: they may hold each other
                vars(shell).update(copy.deepcopy(vars(module), memo))
        return copy.deepcopy(model, memo)
    except (TypeError, RuntimeError, ValueError):
        if share:
            raise
        return deep_copy(model, force, share=True)


def refuses_copies(module: nn.Module) -> bool:
    """Whether a module has a `__deepcopy__` that is not PyTorch's own."""
    own = getattr(type(module), "__deepcopy__", None)
    return own is not None and not own.__module__.startswith("torch.")


def activations(model: nn.Module) -> dict[int, Any]:
    """Tensors that refuse to be copied, as a memo: with a history (old weight_norm's weight), or of sparse rows."""
    values = [value for module in model.modules() for value in vars(module).values()] + list(model.buffers())
    tensors = (value for value in values if isinstance(value, Tensor))
    return {id(t): t.detach().clone() for t in tensors if not t.is_leaf or t.layout != torch.strided}


def wrong_parts(made: nn.Module, model: nn.Module) -> list[str]:
    """Modules and tensors of a copy that are the original's own or lie in their memory, and those that are missing."""
    modules = {id(module) for module in model.modules()}
    same = [name or "itself" for name, module in made.named_modules() if id(module) in modules]
    own, new = (dict(each.named_parameters()) | dict(each.named_buffers()) for each in (model, made))
    taken = sorted({extent for tensor in own.values() if (extent := memory_extent(tensor))})
    ends = taken[:1]  # of what begins up to each, what ends last
    for extent in taken[1:]:
        ends.append(max(ends[-1], extent, key=itemgetter(0, 2)))

    def lies_inside(tensor: Tensor) -> bool:
        device, start, end = memory_extent(tensor) or ("", 0, 0)
        before = bisect_left(taken, (device, end, 0)) - 1  # the last that begins before its end
        return before >= 0 and ends[before][0] == device and start < ends[before][2]

    within = [name for name, tensor in new.items() if lies_inside(tensor)]
    return same + within + sorted(own.keys() ^ new.keys())


Extent = tuple[str, int, int]  # a device, the first byte there and the one after the last


def memory_extent(tensor: Tensor) -> Extent | None:
    """Return the addresses of the whole storage of a tensor, of which it may be a view; None without one."""
    if (
        tensor.layout != torch.strided
        or tensor.device.type == "meta"
        or not tensor.untyped_storage().nbytes()
    ):
        return None
    start = tensor.untyped_storage().data_ptr()
    return str(tensor.device), start, start + tensor.untyped_storage().nbytes()


def retie(module: nn.Module, original: nn.Module) -> None:
    """Let parameters share memory where the original's do: copying separates those that are not one object."""
    first: dict[Any, Tensor] = {}
    for parameter, own in zip(module.parameters(), original.parameters(), strict=True):
        parameter.data = first.setdefault(memory(own), parameter.data)


def memory(tensor: Tensor) -> tuple[Any, ...]:
    """Return the address of a tensor; equal for tied ones."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride()


def shared_leaves(model: nn.Module) -> dict[int, Any]:
    """Attributes that refuse to be copied, as a memo that shares them."""
    own, memo = {id(module): module for module in model.modules()}, dict[int, Any]()
    held = (item for module in model.modules() for item in vars(module).items())
    for key, value in held:
        if key not in ("_parameters", "_buffers", "_modules") and not isinstance(value, nn.Module):
            try:
                copy.deepcopy(value, dict(own))
            except Exception:
                memo[id(value)] = value
    return memo


class InputMutatedError(RuntimeError):
    """A model wrote into its inputs or features, as it did not in the first pass: a copy_inputs network is needed."""


@dataclass(frozen=True)
class Parameter:
    """A tensor of the private copy beside the user's own parameter, which holds the clean values."""

    names: list[str]  # several where distinct parameters share memory
    aliases: list[str]  # these, and all other names of the same parameters
    copy: Tensor
    own: Tensor

    @property
    def clean(self) -> Tensor:
        """The user's own values."""
        return self.own.detach()

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def restore(self) -> None:
        """Put the very bytes of the user's own values back into the copy."""
        self.copy.copy_(self.clean)


def parameters(runner: ModelRunner) -> list[Parameter]:
    """Floating parameters, each tensor once however often it is tied."""
    own = dict(runner.original.named_parameters(remove_duplicate=False))
    objects = dict(runner.module.named_parameters())
    found: dict[Any, Parameter] = {}
    for name, parameter in runner.module.named_parameters(remove_duplicate=False):
        if parameter.is_floating_point() or parameter.is_complex():
            tied = found.setdefault(memory(own[name]), Parameter([], [], parameter.detach(), own[name]))
            tied.aliases.append(name)
            if name in objects:
                tied.names.append(name)
    return list(found.values())


def before_head(runner: ModelRunner, parameter: str) -> bool:
    """Whether a parameter can move the features: the head's and those of layers after it cannot."""
    if callable(runner.given_head):
        return True
    order, owner = runner.order, parameter.rpartition(".")[0]
    in_head = owner == runner.head or owner.startswith(runner.head + ".")
    return not in_head and order.get(owner, -1) < order[runner.head]


def reaching(context: QueryContext, readout: Readout, some: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters that an output depends on; a head that nothing reads is not among them.

    Those in the autograd graph of a couple of outputs are. A model may hide others from that graph, so the rest are
    set to NaN: those that change an output of the first few examples are, too.
    """
    with context.untracked():
        seen = graph_leaves(context.runner, readout)
        rest = [p for p in some if memory(p.copy) not in seen]
        if not rest:
            return list(some)
        clean = [(inputs, readout(inputs)) for inputs in context.probe]
        hidden = {p.name for p in changing(readout, clean, rest)}
    return [p for p in some if memory(p.copy) in seen or p.name in hidden]


def graph_leaves(runner: ModelRunner, readout: Readout) -> set[Any]:
    """Return where the tensors lie that the autograd graph of a couple of outputs begins with; no gradient is made."""
    own = (p for p in runner.module.parameters() if p.is_floating_point() or p.is_complex())
    frozen = [p for p in own if not p.requires_grad]
    try:
        for p in frozen:
            p.requires_grad_(True)
        with torch.enable_grad():
            output = readout(runner.example)
    except InputMutatedError:
        raise
    except (RuntimeError, TypeError, ValueError):
        return set()  # a model that cannot be differentiated
    finally:
        for p in frozen:
            p.requires_grad_(False)
    found, seen, nodes = set(), set(), [output.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [before for before, _ in node.next_functions]
            if isinstance(leaf := getattr(node, "variable", None), Tensor):
                found.add(memory(leaf))
    return found


def changing(
    readout: Readout, clean: Sequence[tuple[Inputs, Tensor]], some: Sequence[Parameter]
) -> Sequence[Parameter]:
    """Return those of some parameters that change an output, searched in halves."""
    try:
        for p in some:
            p.copy.fill_(torch.nan)
        same = all(torch.equal(readout(inputs), outputs) for inputs, outputs in clean)
    except InputMutatedError:
        raise
    except Exception:
        same = False  # the model looked at NaN, and raised
    finally:
        for p in some:
            p.restore()
    if same or len(some) == 1:
        return [] if same else some
    half = len(some) // 2
    return [*changing(readout, clean, some[:half]), *changing(readout, clean, some[half:])]


def fill_gaussian(tensors: Sequence[Tensor], rng: Callable[[torch.device], torch.Generator]) -> None:
    """Write standard normal numbers into tensors, from one generator for each device."""
    generators = {tensor.device: rng(tensor.device) for tensor in tensors}
    for tensor in tensors:
        plain_numbers(tensor).normal_(generator=generators[tensor.device])


def squared_length(tensor: Tensor) -> float:
    """Sum of squares, accumulated so that millions of float32 entries do not round it away."""
    flat = plain_numbers(tensor.detach()).flatten()
    squares = [part.float().dot(part.float()) for part in flat.split(2**16)] or [flat.new_zeros(())]
    return float(torch.stack(squares).to("cpu", torch.float64).sum())


def plain_numbers(tensor: Tensor) -> Tensor:
    """A view of the memory as real numbers, contiguous: normal_ is several times slower on a channels_last tensor."""
    if not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last):
        tensor = tensor.permute(0, 2, 3, 1)
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


_theirs: ContextVar[torch.device | None] = ContextVar("_theirs", default=None)


@contextmanager
def our_device() -> Iterator[None]:
    """Tensors made inside lie on the CPU unless it is said where: positions and draws do."""
    given = torch.get_default_device()
    if given.type == "cpu":  # a context for it would slow down every operation
        yield
        return
    token = _theirs.set(given)
    try:
        with torch.device("cpu"):
            yield
    finally:
        _theirs.reset(token)


def their_device() -> AbstractContextManager[Any]:
    """Inside `our_device`, what a user's own code makes lies where the user said."""
    return _theirs.get() or nullcontext()


class Switch(NamedTuple):
    """Something that lets float32 be rounded."""

    get: Callable[[], Any]
    put: Callable[[Any], object]
    off: tuple[Any, ...]  # its values for full float32, the one to write first

    def read(self) -> Any:
        """Its value; None where PyTorch refuses to read an older switch since a user has set the newer ones."""
        try:
            return self.get()
        except RuntimeError:
            return None


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """Switch off TF32, bfloat16 and autocast for a while: they round away the effect of a perturbation of 1e-3."""
    before = [(switch, value) for switch in switches() if (value := switch.read()) is not None]
    try:
        for switch, _ in before:
            if switch.read() not in switch.off:
                switch.put(switch.off[0])
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for switch, value in before:  # an older one moves newer ones, which are put back after it
            if switch.read() != value:
                switch.put(value)


def switches() -> Iterator[Switch]:
    """The older ones, which models and compiled code read and must find in agreement; then what they do not reach."""
    backends: Any = torch.backends
    yield Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, ("highest",))
    attributes: list[tuple[Any, str, tuple[Any, ...]]] = [(backends.cudnn, "allow_tf32", (False,))]
    if hasattr(backends, "fp32_precision"):  # PyTorch 2.9 and later
        cudnn, cpu = backends.cudnn, backends.mkldnn
        operations = backends.cuda.matmul, cudnn.conv, cudnn.rnn, cpu.matmul, cpu.conv, cpu.rnn
        attributes += [(operation, "fp32_precision", ("ieee", "none")) for operation in operations]
    for place, name, off in attributes:
        yield Switch(partial(getattr, place, name), partial(setattr, place, name), off)


@contextmanager
def guarded(seed: int, where: torch.device) -> Iterator[None]:
    """Seed the global generators, and compute in full float32 with gradients allowed, on the device `where`."""
    with (
        alone(),  # around all others: a fork waits for the whole of it
        torch.inference_mode(False),
        our_device(),
        seeded_globals(seed, where),
        full_float32(where),
    ):
        yield
