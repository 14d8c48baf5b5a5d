"""How often a scene that hunts for a race is played: $PGWEIR_ROUNDS times the number it names (1 if unset)."""
import os


def rounds(count):
    return range(int(count * float(os.environ.get("PGWEIR_ROUNDS", "1"))))
