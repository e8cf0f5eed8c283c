"""What commands say beside their results: lines on standard error, just as they are."""

from rich.console import Console


def say(words: str) -> None:
    """A line on standard error, whatever brackets are in it, as long as it is."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(words, markup=False)
