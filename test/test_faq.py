"""doc/faq.md quotes texts that exist: in the sources of pgweir, or, in the last section, in the server's program. No server is started."""
import pathlib
import re

from support import postgres

TOP = pathlib.Path(__file__).resolve().parents[1]
PAGE = (TOP / "doc/faq.md").read_text(encoding="utf-8")
OURS, POSTGRES = PAGE.split("\n## PostgreSQL's own errors\n")
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


def test_every_text_of_postgres_is_in_its_program():
    program = pathlib.Path(postgres.tool("postgres")).read_bytes()
    assert not [title for title in titles(POSTGRES) if title.replace("...", "%s").encode() + b"\0" not in program]


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
