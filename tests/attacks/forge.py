"""Commands in children of a warm process: starting Python and PyTorch anew would take seconds."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from attacks.driver import BrokenPromiseError, check

LONGEST = 600.0  # seconds: a command that takes longer hangs, however busy the machine is
MEMORY = 3 * 2**30  # bytes that a command may ask for on top of what the warm process has
FORKS = multiprocessing.get_context("forkserver")
WARM = (
    "jostle.cli jostle.labeling jostle.labeling.export jostle.experiments jostle.datasets jostle.strategies "
    "sklearn.cluster sklearn.datasets torch._dynamo matplotlib.pyplot PIL.PngImagePlugin "
    "PIL.JpegImagePlugin jostle.labeling.store"
)
FORKS.set_forkserver_preload(WARM.split())


class Command:
    """A command line of jostle under way in a forked child."""

    def __init__(self, words: str | list[str], folder: Path) -> None:
        self.words = words.split() if isinstance(words, str) else words
        self.log = tempfile.NamedTemporaryFile(prefix="jostle-said-")  # noqa: SIM115
        ready = FORKS.Event()
        self.process = FORKS.Process(target=child, args=(self.words, folder, self.log.name, ready))
        self.process.start()
        ready.wait(LONGEST)  # to be interrupted

    def signal(self, number: int) -> None:
        """Send a signal, if the command is still there to hear it."""
        if self.process.is_alive() and self.process.pid:
            os.kill(self.process.pid, number)

    def ended(self) -> int:
        """Wait, and return the exit code, negative for a signal."""
        self.process.join(LONGEST)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            raise BrokenPromiseError(f"{self.words} took more than {LONGEST:.0f} s")
        check("Traceback" not in self.said, f"{self.words} showed a traceback:\n{self.said[-3000:]}")
        return code

    @property
    def said(self) -> str:
        """What it printed."""
        return Path(self.log.name).read_text(encoding="utf-8", errors="replace")


def run(words: str | list[str], folder: Path) -> tuple[int, str]:
    """`jostle WORDS` in a folder, to its end: exit code and what it said."""
    command = Command(words, folder)
    return command.ended(), command.said


def child(words: list[str], folder: Path, path: str, ready: Event) -> None:
    """Carry out one command, and never come back."""
    code: Any = 1
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(path, os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        ready.set()
        from jostle import cli

        cli.main(words)
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt:  # it came before or after all that the command does
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
