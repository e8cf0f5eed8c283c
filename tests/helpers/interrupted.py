"""Processes that hear Ctrl-C, whoever started the tests."""

import signal


def hear_interrupts() -> None:
    """Before a process begins: a shell that runs the tests in the background would let it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
