"""The program run by chaos.sh, which describes its options."""
import argparse
import os
import random
import shutil
import sys
import tempfile
import time

from conftest import Scene
from support.certs import Authority
from support.chaos import KINDS, Chaos


def read_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1000000))
    parser.add_argument("--kinds", type=lambda text: tuple(text.split(",")), default=tuple(KINDS))
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        parser.error("no such kinds: %s; there are %s" % (", ".join(sorted(unknown)), ",".join(KINDS)))
    return options


def rounds(minutes):
    """As many as fit into the time."""
    end = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < end:
        number += 1
        yield number


def run(options, directory):
    """Returns the line of figures."""
    path = os.path.join(directory, "ca")
    os.mkdir(path)
    scene = Scene(directory)
    try:
        chaos = Chaos(scene, Authority(path), options.seed, options.kinds)
        chaos.play(rounds(options.minutes))
        figures = chaos.audit()
        scene.take_down()
        return figures
    except BaseException:
        with_words = "\n".join("--- %s\n%s" % words for words in scene.words())
        print(with_words, file=sys.stderr, flush=True)
        scene.take_down()
        raise


def main():
    options = read_options()
    print("seed %d, %g minutes, kinds %s" % (options.seed, options.minutes, ",".join(options.kinds)), flush=True)
    directory = tempfile.mkdtemp(prefix="pw")
    kept = ""
    try:
        verdict, figures = "HELD", run(options, directory)
    except AssertionError as fault:
        verdict, figures = "BROKEN", " ".join(str(fault).split())
        if os.environ.get("PGWEIR_KEEP"):
            kept = "; everything is in " + directory
    finally:
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)
    print("%s: %s; seed %d%s" % (verdict, figures, options.seed, kept))
    return 0 if verdict == "HELD" else 1


if __name__ == "__main__":
    sys.exit(main())
