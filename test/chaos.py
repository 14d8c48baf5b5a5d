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
from support import chaos_nodes
from support.chaos import KINDS, Chaos


def read_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1000000))
    parser.add_argument("--kinds", type=lambda text: tuple(text.split(",")))
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--service", dest="by", action="store_const", const="service", default="listed")
    parser.add_argument("--headless", dest="by", action="store_const", const="headless")
    options = parser.parse_args()
    kinds = chaos_nodes.KINDS if options.nodes else tuple(KINDS)
    options.kinds = options.kinds or kinds
    unknown = set(options.kinds) - set(kinds)
    if unknown:
        parser.error("no such kinds: %s; there are %s" % (", ".join(sorted(unknown)), ",".join(kinds)))
    if (options.stale or options.auto or options.by != "listed") and not options.nodes:
        parser.error("--auto, --stale, --service and --headless need --nodes")
    return options


def rounds(minutes):
    """As many as fit into the time."""
    end = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < end:
        number += 1
        yield number


def open_chaos(options, scene, directory):
    if options.nodes:
        return chaos_nodes.NodesChaos(scene, options.seed, options.kinds, is_fresh=not options.stale,
                                      reads="auto" if options.auto else "transaction", by=options.by)
    path = os.path.join(directory, "ca")
    os.mkdir(path)
    return Chaos(scene, Authority(path), options.seed, options.kinds)


def run(options, directory):
    """Returns the line of figures."""
    scene = Scene(directory)
    try:
        chaos = open_chaos(options, scene, directory)
        chaos.play(rounds(options.minutes))
        figures = chaos.audit()
        if options.nodes:
            has_stale = any(stale for _, stale in chaos.stale().values())
            assert has_stale == options.stale, ("no read was stale: " if options.stale else "reads were stale: ") + figures
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
