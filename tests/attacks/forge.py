"""A warm process that forks a child for each command: starting Python and PyTorch anew would take seconds."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from attacks.driver import BrokenPromiseError

LONGEST = 600.0  # seconds: a command that takes longer hangs, however busy the machine is
MEMORY = 3 * 2**30  # bytes that a command may ask for on top of what the warm process has


class Command:
    """A command line of jostle under way in a child of the forge."""

    def __init__(self, forge: subprocess.Popen[str], words: list[str], folder: Path) -> None:
        self.forge, self.words, self.log = forge, words, folder / ".said"
        assert forge.stdin is not None
        self.log.write_bytes(b"")  # a command that is killed at once says nothing
        forge.stdin.write(json.dumps({"words": words, "folder": str(folder), "log": str(self.log)}) + "\n")
        forge.stdin.flush()
        self.pid = int(self._answer())

    def signal(self, number: int) -> None:
        """Send a signal, if the command is still there to hear it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait, and tell the exit code, negative for a signal."""
        code = int(self._answer())
        said = self.said
        if "Traceback" in said:
            raise BrokenPromiseError(f"{' '.join(self.words)} showed a traceback:\n{said[-3000:]}")
        return code

    @property
    def said(self) -> str:
        """What it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _answer(self) -> str:
        assert self.forge.stdout is not None
        if not select.select([self.forge.stdout], [], [], LONGEST)[0]:
            self.signal(signal.SIGKILL)
            self.forge.stdout.readline()
            raise BrokenPromiseError(f"{' '.join(self.words)} took more than {LONGEST:.0f} s")
        return self.forge.stdout.readline()


@cache
def forge() -> subprocess.Popen[str]:
    """The warm process of this one; it ends when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attacks.forge"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=Path(__file__).parent.parent,
    )
    atexit.register(process.communicate)  # closes its input, and waits
    return process


def start(words: list[str], folder: Path) -> Command:
    """Begin `jostle WORDS` in a folder."""
    return Command(forge(), [str(word) for word in words], folder)


def run(words: list[str], folder: Path) -> tuple[int, str]:
    """`jostle WORDS` in a folder, to its end: exit code and what it said."""
    command = start(words, folder)
    return command.ended(), command.said


def serve() -> None:
    """The forge's life: a line in, a child, its number, its end; what a child imports, the next ones find."""
    for line in sys.stdin:
        order = json.loads(line)
        signal.pthread_sigmask(
            signal.SIG_BLOCK, {signal.SIGINT}
        )  # until the child is ready to be interrupted
        pid = os.fork()
        if pid == 0:
            child(order)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        print(pid, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        learn(Path(order["log"] + "-modules"))
        print(code, flush=True)


def learn(list_of_modules: Path) -> None:
    """Import what a child that came to its end had imported."""
    with suppress(OSError):
        names = list_of_modules.read_text(encoding="utf-8").split()
        list_of_modules.unlink()
        for name in names:
            with suppress(Exception):
                importlib.import_module(name)


def child(order: dict[str, Any]) -> None:
    """Carry out one command, and never come back."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(order["folder"])
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    code: Any = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        from jostle import cli

        cli.main(order["words"])
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt:  # it came when all was said and done
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Path(order["log"] + "-modules").write_text("\n".join(sys.modules), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve()
