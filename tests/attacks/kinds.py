"""The kinds of attack by name."""

from attacks import arrays, calls, corruptions, interrupts, kills
from attacks.driver import Attack

KINDS: dict[str, Attack] = {
    "calls": calls.attack,
    "arrays": arrays.attack,
    "interrupts": interrupts.attack,
    "kills": kills.attack,
    "corruptions": corruptions.attack,
}
