"""doc/show.md has a sentence for each column of each SHOW in include/tbl/show.tbl, in their order. Neither pgweir nor a server is needed."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[1]
TABLE = (TOP / "include/tbl/show.tbl").read_text(encoding="utf-8")
PAGE = (TOP / "doc/show.md").read_text(encoding="utf-8")


def macros():
    return {name: body.replace("\\\n", " ") for name, body in re.findall(r"#define (\w+) ((?:.*\\\n)*.*)", TABLE)}


def expanded(text):
    known = macros()
    while True:
        wider = re.sub(r"\bSHOW_(?:STATS|CONNECTION|SOCKET)_(?:COLUMNS|OWN)\b", lambda name: known[name.group()], text)
        if wider == text:
            return re.findall(r'"(\w+):\w+"', text)
        text = wider


def commands():
    """{command: its columns, the extra ones too}"""
    body = TABLE.split("#endif", 1)[1]
    return {row[0]: expanded(row[1]) for row in re.findall(r"^SHOW\((\w+),(.*?)(?=^SHOW\(|^/\*|\Z)", body, re.MULTILINE | re.DOTALL)}


def sections():
    """{command: the columns that its section names}"""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        title, text = section.split("\n", 1)
        columns = re.findall(r"^- `(\w+)`: \S", text, re.MULTILINE)
        for command in re.findall(r"SHOW ([A-Z_ ]+?)(?:,|$)", title):
            found[command.replace(" ", "_")] = columns
    return found


def test_every_command_has_its_section():
    assert len(commands()) > 20
    assert set(commands()) == set(sections())


def test_every_column_has_its_sentence():
    written = sections()
    for command, columns in commands().items():
        if command in ("SOCKETS", "ACTIVE_SOCKETS"):	# these have the columns of CLIENTS, and further ones
            columns = [name for name in columns if name not in commands()["CLIENTS"]]
        assert written[command] == columns, command
