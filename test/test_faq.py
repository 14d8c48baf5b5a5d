"""
doc/faq.md quotes texts that exist: in the sources of pgweir, or, in the last sections, in the programs of PostgreSQL; and it has each error that
pgweir sends to clients. No server is started.
"""
import pathlib
import re
import subprocess

from support import postgres
from support.close_reasons import close_reasons

TOP = pathlib.Path(__file__).resolve().parents[1]
PAGE = (TOP / "doc/faq.md").read_text(encoding="utf-8")
OURS, POSTGRES = PAGE.split("\n## PostgreSQL's own errors\n")
POSTGRES, LIBPQ = POSTGRES.split("\n## TLS errors of clients\n")
FORMAT = r"%(?:\.\*)?(?:l|z)?[sdu]"


def titles(text):
    return re.findall(r"^### `(.+)`$", text, re.MULTILINE)


def entries():
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]}


def own_texts():
    """Every string of the sources, with adjacent strings joined, and ... in place of variable parts."""
    found = set()
    for path in [*TOP.glob("src/*/*.c"), *TOP.glob("include/*/*.h"), *TOP.glob("include/tbl/*.tbl")]:
        for text in re.findall(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)', path.read_text(encoding="utf-8")):
            joined = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)).replace('\\"', '"')
            found.add(re.sub(FORMAT, "...", joined))
    return found


def test_every_text_is_in_the_sources():
    texts = own_texts()
    assert not [title for title in titles(OURS) if title not in texts]


def missing(quoted, program):
    """Titles without their text in the program. A title that ends with ... is the beginning of a text, which differs between versions."""
    def has(title):
        text = title.removesuffix("...").replace("...", "%s").encode()
        return any(text + end in program for end in ([b""] if title.endswith("...") else [b"\0", b"\n\0"]))
    return [title for title in quoted if not has(title)]


def test_every_text_of_postgres_is_in_its_program():
    assert not missing(titles(POSTGRES), pathlib.Path(postgres.tool("postgres")).read_bytes())


def test_every_text_of_libpq_is_in_it():
    library = subprocess.run(["ldd", postgres.tool("psql")], capture_output=True, text=True, check=True).stdout
    (path,) = re.findall(r"libpq\.so\.5 => (\S+)", library)
    assert not missing(titles(LIBPQ), pathlib.Path(path).read_bytes())


def test_every_error_for_clients_is_explained():
    rows = close_reasons("ends of servers; never sent to a client")
    texts = {re.sub(FORMAT, "...", row.format.replace('\\"', '"')) for row in rows if row.told != "NOTHING"}
    assert len(texts) > 70
    # the words of the server, for which the text is a place
    assert texts - set(titles(OURS)) == {"..."}


def test_there_are_many_and_each_once():
    every = titles(PAGE)
    assert len(every) >= 40
    assert len(set(every)) == len(every) == len(entries())


def test_every_entry_names_what_to_look_at():
    """A setting, or a command of the console."""
    settings = set(re.findall(r"^SETTING\((\w+)", (TOP / "include/tbl/settings.tbl").read_text(encoding="utf-8"), re.MULTILINE))
    shows = set(re.findall(r"^SHOW\((\w+)", (TOP / "include/tbl/show.tbl").read_text(encoding="utf-8"), re.MULTILINE))
    for title, body in entries().items():
        words = " ".join(re.findall(r"`([^`]+)`", body))
        assert settings & set(re.findall(r"\w+", words)) or shows & set(re.findall(r"SHOW\s(\w+)", words)), title
    for name in re.findall(r"`SHOW\s(\w+)`", PAGE):
        assert name in shows, name
