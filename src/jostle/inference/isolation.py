"""What keeps a call apart from the user's process: a private copy of the model, its device, full float32, seeds."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from jostle.rng import alone, seeded_globals

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


def private_copy(model: nn.Module) -> nn.Module:
    """A deep copy that shares no module, parameter or buffer with the original, whatever `__deepcopy__` says.

    Other things that cannot be copied (locks, open files) are shared.
    """
    for parameter in model.parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
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


def deep_copy(model: nn.Module, force: bool = False) -> nn.Module:
    """A deep copy; with force, modules, parameters and buffers are copied past their own `__deepcopy__`."""
    try:
        return deep_copy_with(model, activations(model), force)
    except (TypeError, RuntimeError, ValueError):
        return deep_copy_with(model, activations(model) | shared_leaves(model), force)


def deep_copy_with(model: nn.Module, memo: dict[int, Any], force: bool) -> nn.Module:
    """A deep copy under a memo of what is copied already."""
    if force:
        shells = {
            module: type(module).__new__(type(module)) for module in model.modules() if refuses_copies(module)
        }
        memo |= {id(module): shell for module, shell in shells.items()}
        memo |= {id(p): nn.Parameter(p.detach().clone(), p.requires_grad) for p in model.parameters()}
        memo |= {id(b): b.detach().clone() for b in model.buffers()}
        for module, shell in shells.items():  # all are known before any is filled: they may hold each other
            vars(shell).update(copy.deepcopy(vars(module), memo))
    return copy.deepcopy(model, memo)


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
    own, new = tensors_of(model), tensors_of(made)
    taken = merged_extents(extent for tensor in own.values() if (extent := memory_extent(tensor)))
    within = [name for name, tensor in new.items() if overlaps(memory_extent(tensor), taken)]
    return same + within + sorted(own.keys() ^ new.keys())


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


Extent = tuple[str, int, int]  # a device, the first byte there and the one after the last


def memory_extent(tensor: Tensor) -> Extent | None:
    """Return the addresses of the whole storage of a tensor, of which it may be a view; None without one."""
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        return None
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return (str(tensor.device), start, start + storage.nbytes()) if storage.nbytes() else None


def merged_extents(extents: Iterable[Extent]) -> list[Extent]:
    """Merge extents that overlap, in order."""
    found: list[Extent] = []
    for device, start, end in sorted(set(extents)):
        if found and found[-1][0] == device and start < found[-1][2]:
            found[-1] = (device, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((device, start, end))
    return found


def overlaps(extent: Extent | None, taken: Sequence[Extent]) -> bool:
    """Whether an extent has a byte in one of those that were merged."""
    if extent is None:
        return False
    device, start, end = extent
    before = bisect_left(taken, (device, end, 0)) - 1  # the last that begins before its end
    return before >= 0 and taken[before][0] == device and start < taken[before][2]


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
    memo: dict[int, Any] = {}
    for module in model.modules():
        for key, value in vars(module).items():
            if key in ("_parameters", "_buffers", "_modules") or isinstance(value, nn.Module):
                continue
            try:
                copy.deepcopy(value, {id(m): m for m in model.modules()})
            except Exception:
                memo[id(value)] = value
    return memo


def device_named(name: str, anyway: Collection[str] = ()) -> torch.device:
    """A device that can be computed on, or an error that says what there is; of kinds in `anyway` it is not asked."""
    try:
        device = torch.device(name)
        if device.type not in anyway:
            torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise ValueError(f"cannot compute on the device {name!r}: {str(wrong).splitlines()[0]}") from None
    return device


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

    @classmethod
    def of(cls, place: Any, name: str, *off: Any) -> Switch:
        """An attribute that is one."""
        return cls(partial(getattr, place, name), partial(setattr, place, name), off)

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
    yield Switch.of(backends.cudnn, "allow_tf32", False)
    if hasattr(backends, "fp32_precision"):  # PyTorch 2.9 and later
        cudnn, cpu = backends.cudnn, backends.mkldnn
        for operation in (backends.cuda.matmul, cudnn.conv, cudnn.rnn, cpu.matmul, cpu.conv, cpu.rnn):
            yield Switch.of(operation, "fp32_precision", "ieee", "none")


@contextmanager
def guarded(seed: int, where: torch.device) -> Iterator[None]:
    """Seed the global generators, and compute in full float32 with gradients allowed, on the device `where`."""
    everywhere = alone(), torch.inference_mode(False), our_device()  # alone: a fork waits for the whole of it
    with ExitStack() as stack:
        for each in (*everywhere, seeded_globals(seed, where), full_float32(where)):
            stack.enter_context(each)
        yield
