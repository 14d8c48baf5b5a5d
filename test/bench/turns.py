"""
Measuring in turns.

Within a turn every server is measured once, one after the other, and ratios are computed between neighbours: the speed of a machine drifts by the
minute, the ratio does not. The value of a row is the median over its turns.
"""
import dataclasses
import statistics
import typing

from stage import LoadFailed

DASH = "-"
UNITS = {"cpu_us": "CPU us each", "cpu_s_gb": "CPU s per GB", "mb_s": "MB/s", "stream_mb_s": "MB/s", "p99_us": "p99, us",
         "fair": "ratio"}


@dataclasses.dataclass
class Timed:
    """A row: a load, and which of the figures that loadpg prints is looked at."""
    title: str
    load: list
    figure: str
    over: typing.Optional[str] = None           # the server by which the figures are divided
    over_load: typing.Optional[list] = None     # its own load, if different
    goal: typing.Optional[float] = None         # of the ratio
    at_least: bool = False
    place: str = "plain"

    @property
    def unit(self):
        return UNITS[self.figure]


def median(values):
    """The median over the turns with a figure; None if no turn has a figure."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def number(value):
    """Three digits that count; more where the whole part has them."""
    if value is None:
        return DASH
    for limit, form in ((100, "%.0f"), (10, "%.1f"), (1, "%.2f")):
        if abs(value) >= limit:
            return form % value
    return "%.3f" % value


def ratio(values):
    """Median and quartiles."""
    if not values:
        return DASH
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3)
    return "%.2f (%.2f..%.2f)" % (middle, low, high)


class Printer:
    """A table in Markdown, with each row printed as soon as it is known, and notes below."""

    def __init__(self, title, *columns):
        print("\n%s\n" % title)
        self.row(*columns)
        self.row(*["---"] * len(columns))
        self._notes = []

    @staticmethod
    def row(*cells):
        print("| %s |" % " | ".join(cells), flush=True)

    def note(self, text):
        if text not in self._notes:
            self._notes.append(text)

    def end(self):
        if self._notes:
            print("\n" + "\n".join("- " + each for each in self._notes), flush=True)


class Result:
    """The results of the turns of a row: figures[name] has one figure, or None, for each turn."""

    def __init__(self, row, figures):
        self.row = row
        self.figures = figures

    def ratios(self, name):
        return [a / b for a, b in zip(self.figures[name], self.figures.get(self.row.over, [])) if a is not None and b]

    def cells(self, names):
        return [number(median(self.figures.get(name, []))) for name in names]

    def ratio_cells(self, names):
        return [DASH if name == self.row.over else ratio(self.ratios(name)) for name in names]

    def verdict(self, name):
        """Whether the goal is met: the words for it."""
        middle = median(self.ratios(name))
        if middle is None:
            return DASH
        middle = round(middle, 2)
        return "yes" if (middle >= self.row.goal if self.row.at_least else middle <= self.row.goal) else "no"


def _run(stage, printer, server, load, row):
    """One figure; None, with a note, where the server cannot do this."""
    try:
        figures = stage.load(server, load)
    except LoadFailed as failure:
        printer.note("%s, %s: %s" % (row.title, server.name, failure))
        return None
    if "-r" in load and "-n" not in load:
        printer.note("%s, %s: %.0f %% of the TLS sessions were resumed" % (row.title, server.name, 100 * figures["resumed"]))
    return figures.get(row.figure)


def _trial(load):
    """A load with two transactions per client."""
    clients = int(load[load.index("-c") + 1])
    depth = int(load[load.index("-D") + 1]) if "-D" in load else 1
    return [*load, "-n", str(2 * clients * depth), "-T", "30"]


def compare(stage, printer, row, servers, turns, seconds):
    """
    Measures the row for the servers, {name: server}: each turn in another order. Before the first turn there is a trial
    of each server, not counted: it fills the pools, and a server that fails in it is left out.
    """
    loads = {name: row.over_load if name == row.over and row.over_load else row.load for name in servers}
    figures = {name: [] for name in servers}
    order = [name for name in servers if _run(stage, printer, servers[name], _trial(loads[name]), row) is not None]
    timing = ["-T", str(seconds), "-w", str(min(0.3, seconds / 3))]
    for _ in range(turns):
        for name in order:
            figures[name].append(_run(stage, printer, servers[name], loads[name] + timing, row))
        order = order[1:] + order[:1]
    return Result(row, figures)
