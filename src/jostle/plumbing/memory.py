"""Memory that a method would need, looked at before anything is computed."""


def check_memory(method: str, needed: int, allowed: int, what: str) -> None:
    """An error where a method would need more memory than its setting `memory_bytes` allows."""
    if needed > allowed:
        raise ValueError(
            f"{method} would need {needed:,} bytes for {what}, more than memory_bytes={allowed:,}: "
            "raise memory_bytes, or pass a smaller random part of the pool"
        )
