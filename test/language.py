#!/usr/bin/env python3
"""Measures the language of the tree: python3 test/language.py [--list].

Prints for the comments of src and include, the comments of test, the documents and the commit subjects: how many sentences have words for
people, how many have a marker of odd English (MARKERS), and how many have more than 30 words; how many say "a client that waits" (THAT),
give a reason (REASON) or an example (EXAMPLE); for the subjects also how many are imperative, and how many have more than 72
characters. With --list the sentences with such words and markers follow, with file and line.
Paths after the options restrict the files: python3 test/language.py --list src/pool include/pool. test_language.py compares the shares
with bounds.

The markers are words and constructions that are rare in the comments of other C projects: of the sentences in the headers of
PostgreSQL 18 and of Linux about 1.5 % have one. A sentence with a marker is not wrong, but a text full of them is hard to read."""

import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize

TREE = pathlib.Path(__file__).resolve().parent.parent
PEOPLE = re.compile(
    r"\b(?:who|whom|whose|whoever|nobody|somebody|anybody|everybody|everyone|someone|he|him|his|she|her)\b", re.I)

# Each marker with what it finds. They match a sentence; the markers in OPENING match only the first sentence of a comment or a paragraph.
MARKERS = {name: re.compile(pattern) for name, pattern in {
    # A relative clause without a noun.
    "what": r"(?i)(?<!\bsee )(?<!\bno matter )(?<!\bknow )(?<!\bdecide )(?<!\bdetermine )(?<!\bchoose )(?<!\bcheck )\bwhat\b"
            r"(?! (?:if|kind|type|sort|to|happens|happened)\b)(?![^.]*\?)",
    "of which": r"(?i)\b(?:of|behind) which\b",
    "one that": r"(?i)\bones? (?:that|which|whose|who|of (?:an?|another|whom|which|no|such)|with|without|from|goes|comes)\b"
                r"|(?<!if )(?<!unless )(?<!until )(?<!the previous )\bones? (?:was|has|had|may|can|must)\b|\bone's\b",
    "that of": r"(?i)\b(?:that|those) of\b",
    "those that": r"(?i)\bthose (?:that|which|with|without|in|for|from|it|not|to)\b",
    "such as": r"(?i)\bsuch as (?:only|are|is|were|was|has|have|had|do|does|need|needs|want|may|can|must)\b",
    # Words that mean something else to most readers. A server may be behind a proxy.
    "behind": r"(?i)\bbehind\b(?! (?:an? |the )?(?:[\w-]+ ){0,2}(?:prox(?:y|ies)|balancers?|NAT|firewalls?|routers?|gateways?|poolers?)\b)",
    "before": r"(?i)\b(?:of|from|the ones?|those|that|with|what was) before\b(?! (?:the|an?|it|this)\b)",
    "so many": r"(?i)\bso (?:many|few|little)\b",
    "anew": r"(?i)\banew\b",
    "stands": r"(?i)\b(?:stands?|stood)\b(?! (?:for|in for|by)\b)|\b(?:lies|lay)\b",
    "alone": r"(?i)(?<!\bleave )(?<!\bleft )(?<!\bstand-)(?<!stand)\balone\b",
    "latter": r"(?i)\b(?:ours|theirs|mine)\b|\b(?:the|that) latter\b|\bthe former\b",
    "is there": r"(?i)(?<!\bif )(?:\b(?:is|are|was|were) (?:there|here)(?=[.,;:)]|$))",
    "is no": r"(?i)(?<!\bthere )\b(?:is|are|was|were) (?:none\b|no (?!longer|more than|need|other|way|harm|point|reason|such)\w+)",
    "of the pooler's": r"(?i)\bof (?:the|an?) \w+'s(?: own\b|(?=[.,;:)]|$| (?:and|or|that|which|is|are|in|on|at|has|have|may)\b))",
    # A sentence whose first word refers to nothing, or whose order is turned round.
    "opening": r"^(?:What|Of|So|Or|Nor|That (?:is|was|has|had|may|can|must|does|one|goes|comes|holds|would|needs|it|which)"
               r"|One (?:that|which|of (?!the|these|its)|with|is|was|has|may|can|must|more|alone|for|from|in))\b(?![^.]*\?)",
}.items()}
# How a text explains. In the comments of PgBouncer, tmux, Valkey, libuv and Varnish about 1 % of the sentences have a noun with such a clause
# (a full server is plainer than a server that is full), 3 to 9 % a reason, and up to 0.8 % an example.
THAT = re.compile(r"\ban? [\w-]+ that\b", re.I)
REASON = re.compile(
    r"\b(?:because|so that|otherwise|since|therefore|in order to|thus|hence|why|reason|to (?:avoid|prevent|keep|ensure|make sure)"
    r"|so (?:we|it|the|an?|this|that|they|no|its|each|only))\b", re.I)
EXAMPLE = re.compile(r"\bfor (?:example|instance)\b|\be\.g\.|\bexamples?:|^Example\.", re.I)
OPENING = re.compile(r"^(?:It|Its|They|Them|This one|None|Both|Neither)\b")
LONG = 30
WIDE = 72
SUBJECTS = 300

# The verbs that the subjects of commits begin with: a subject that begins with another one is not counted, so the share is a lower bound.
VERBS = frozenset("""
accept add adjust allow answer apply ask assert assign avoid begin bind bound bring build cache call cancel carry change check choose
clean clear close collect compare compute convert copy correct count cover create cut declare decide defer define delay delete derive
describe detach detect disable discard distinguish divide document draw drop empty enable end enforce exclude expect explain expose extend
fail fill find finish fix flush follow forget format forward free generate give grant guard handle hand hide hold honour ignore implement
import improve include increase initialise install introduce join keep leave let limit link list listen log look lower make mark match
measure mention merge move name note number obey omit open order parse pass pause permit pin poll prefer prepare prevent print protect prove
provide put queue raise read rebuild recognise record reduce refuse reject release relay reload remember remove rename repeat replace reply report
request require reset resolve restore restrict resume retry return reuse review revert rewrite round run save say schedule search
select send separate serve set share show simplify skip sort speak speed split start state stop store strip support survive switch take
teach tell test tidy time tolerate trace track translate treat trigger trim try tune turn undo unify unlink update use validate verify
wait wake warn weigh widen wipe withdraw wrap write""".split())


def comments_of_c(text):
    """Yields (line, text) of each comment; strings are passed over, and // comments of successive lines are one."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*(.*?)\*/|((?:[ \t]*//[^\n]*\n?)+)', re.S)
    for found in token.finditer(text):
        body = found.group(1) or found.group(2)
        if body is None:
            continue
        body = re.sub(r"^[ \t]*(?:\*+|//)[ \t]?", "", body, flags=re.M)
        yield text.count("\n", 0, found.start()) + 1, body


def comments_of_python(text):
    """Yields (line, text) of each docstring and of each block of comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, node.body[0].value.value
    block, begun, last = [], 0, -1
    for each in tokenize.generate_tokens(io.StringIO(text).readline):
        if each.type != tokenize.COMMENT or each.string.startswith("#!"):
            continue
        if block and each.start[0] != last + 1:
            yield begun, "\n".join(block)
            block = []
        if not block:
            begun = each.start[0]
        block.append(each.string.lstrip("# "))
        last = each.start[0]
    if block:
        yield begun, "\n".join(block)


def comments_of_script(text):
    """Yields (line, text) of each block of lines that begin with #."""
    for found in re.finditer(r"(?:^[ \t]*#(?!!)[^\n]*\n)+", text, re.M):
        yield text.count("\n", 0, found.start()) + 1, re.sub(r"^[ \t]*#+[ \t]?", "", found.group(), flags=re.M)


def prose_of_markdown(text):
    """Yields the document with code blanked; a row of a table and an item of a list are paragraphs."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m.group().count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"^(?: {4}|\t)[^\n]*$", "", text, flags=re.M)
    yield 1, re.sub(r"^(?=[^|\n]* \| )", "| ", text, flags=re.M)


def prose_of_manual(text):
    """Yields a manual page without its macros: a line of a macro ends a paragraph, unless it is a word in the text (.Cm, .Sy, ...)."""
    lines = []
    for line in text.split("\n"):
        inline = re.match(r"\.(?:Cm|Sy|Em|Fl|Ar|Pa|Xr|Li|Ql|Dq|Sq|Nm|Ev|Va|Qq|B|I|Lk)\s(.*)", line)
        lines.append(inline.group(1) if inline else "" if line.startswith((".", "'")) else line)
    yield 1, "\n".join(lines)


def sentences(line, text):
    """Yields (line, sentence) for each sentence of two words or more; a paragraph and an item of a list end one."""
    for at, sentence, _ in placed_sentences(line, text):
        yield at, sentence


def placed_sentences(line, text):
    """Yields (line, sentence, whether it is the first of its paragraph)."""
    start = 0
    for paragraph in re.split(r"(\n[ \t]*\n|\n(?=[ \t]*(?:[-*|]|\d+\.|#+)[ \t]))", text):
        begun, first = start, True
        start += len(paragraph)
        for found in re.finditer(r"\S.*?(?:[.!?][)\"'`*]*(?=\s+[A-Z`\"'(*\d-])|\Z)", paragraph, re.S):
            sentence = " ".join(found.group().split())
            if len(re.findall(r"[A-Za-z]{2,}", sentence)) > 1:
                yield line + text.count("\n", 0, begun + found.start()), sentence, first
            first = False


def files(*patterns):
    return sorted({path for pattern in patterns for path in TREE.glob(pattern) if path.is_file()})


def reader(path):
    """Returns the function that takes the prose out of this file."""
    if path.suffix in (".c", ".h", ".tbl"):
        return comments_of_c
    if path.suffix == ".py":
        return comments_of_python
    if path.suffix == ".md":
        return prose_of_markdown
    return prose_of_manual if path.suffix in (".1", ".5") else comments_of_script


def read(paths):
    """Returns [(place, sentence, whether it is the first of its paragraph)] of these files."""
    found = []
    for path in paths:
        for line, text in reader(path)(path.read_text(encoding="utf-8", errors="replace")):
            found += [(f"{path.relative_to(TREE)}:{at}", *rest) for at, *rest in placed_sentences(line, text)]
    return found


GROUPS = {
    "code": ("src/**/*.[ch]", "include/**/*.h", "include/**/*.tbl"),
    "tests": ("test/**/*.[ch]", "test/**/*.py", "test/**/*.sh"),
    "documents": ("README.md", "doc/*.md", "doc/*.[15]"),
}


def group(name, below=()):
    """Returns the sentences of a group; `below` restricts it to files below these paths."""
    paths = [str(TREE / each) for each in below]
    return read([each for each in files(*GROUPS[name]) if not paths or str(each).startswith(tuple(paths))])


def subjects():
    """Returns [(commit, subject)], the latest first; empty where there is no repository."""
    try:
        run = subprocess.run(["git", "-C", str(TREE), "log", "--no-merges", f"-{SUBJECTS}", "--format=%h%x09%s"],
                             capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [tuple(line.split("\t", 1)) for line in run.stdout.splitlines()] if run.returncode == 0 else []


def has_people(found):
    return has(PEOPLE, found)


def markers(sentence, first):
    """Returns the names of the markers that this sentence has."""
    return [name for name, marker in MARKERS.items() if marker.search(sentence)] + (["opening"] if first and OPENING.search(sentence) else [])


def has_marker(found):
    """Returns [(place, sentence, markers)] of the sentences that have one."""
    with_markers = [(place, sentence, markers(sentence, first)) for place, sentence, first in found]
    return [each for each in with_markers if each[2]]


def has(pattern, found):
    return [each for each in found if pattern.search(each[1])]


def share(part, whole):
    return 100 * len(part) / len(whole) if whole else 0.0


def is_imperative(subject):
    words = re.sub(r"^[^:]{1,40}:\s*", "", subject).split()
    return bool(words) and words[0].strip(",;:").lower() in VERBS


def main():
    listing = "--list" in sys.argv[1:]
    below = [each for each in sys.argv[1:] if each != "--list"]
    groups = [(name, group(name, below)) for name in GROUPS]
    if not below:
        groups.append(("subjects", [(place, subject, True) for place, subject in subjects()]))
    for name, found in groups:
        if below and not found:
            continue
        people, marked = has_people(found), has_marker(found)
        long = [each for each in found if len(each[1].split()) > LONG]
        print(f"{name}: {len(found)} sentences, {share(people, found):.2f} % with words for people ({len(people)}), "
              f"{share(marked, found):.1f} % with markers of odd English ({len(marked)}), {share(long, found):.1f} % over {LONG} words; "
              f"{share(has(THAT, found), found):.1f} % \"a X that\", {share(has(REASON, found), found):.1f} % with a reason, "
              f"{share(has(EXAMPLE, found), found):.2f} % with an example")
        if name == "subjects":
            imperative = [each for each in found if is_imperative(each[1])]
            wide = [each for each in found if len(each[1]) > WIDE]
            print(f"{name}: {share(imperative, found):.0f} % imperative, {share(wide, found):.0f} % over {WIDE} characters")
        if listing:
            for place, sentence, _ in people:
                print(f"  {place}: [people] {sentence}")
            for place, sentence, names in marked:
                print(f"  {place}: [{', '.join(names)}] {sentence}")


if __name__ == "__main__":
    main()
