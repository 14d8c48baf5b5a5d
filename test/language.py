#!/usr/bin/env python3
"""Measures the language of the tree: python3 test/language.py [--list].

Prints for the comments of src and include, the comments of test, the documents and the commit subjects how many sentences have words for
people, and how many have more than 30 words; and how many subjects are imperative, and how many have more than 72 characters. With
--list each sentence with such a word follows, with its file and line. test_language.py compares the first share with a bound."""

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
    yield 1, text


def prose_of_manual(text):
    """Yields a manual page without its macros: a line of a macro ends a paragraph, unless it is a word in the text (.Cm, .Sy, ...)."""
    lines = []
    for line in text.split("\n"):
        inline = re.match(r"\.(?:Cm|Sy|Em|Fl|Ar|Pa|Xr|Li|Ql|Dq|Sq|Nm|Ev|Va|Qq|B|I|Lk)\s(.*)", line)
        lines.append(inline.group(1) if inline else "" if line.startswith((".", "'")) else line)
    yield 1, "\n".join(lines)


def sentences(line, text):
    """Yields (line, sentence) for each sentence of two words or more; a paragraph and an item of a list end one."""
    start = 0
    for paragraph in re.split(r"(\n[ \t]*\n|\n(?=[ \t]*(?:[-*|]|\d+\.|#+)[ \t]))", text):
        begun = start
        start += len(paragraph)
        for found in re.finditer(r"\S.*?(?:[.!?][)\"'`*]*(?=\s+[A-Z`\"'(*\d-])|\Z)", paragraph, re.S):
            sentence = " ".join(found.group().split())
            if len(re.findall(r"[A-Za-z]{2,}", sentence)) > 1:
                yield line + text.count("\n", 0, begun + found.start()), sentence


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
    """Returns [(place, sentence)] of these files."""
    found = []
    for path in paths:
        for line, text in reader(path)(path.read_text(encoding="utf-8", errors="replace")):
            found += [(f"{path.relative_to(TREE)}:{at}", sentence) for at, sentence in sentences(line, text)]
    return found


def code():
    return read(files("src/**/*.[ch]", "include/**/*.h", "include/**/*.tbl"))


def tests():
    return read(files("test/**/*.[ch]", "test/**/*.py", "test/**/*.sh"))


def documents():
    return read(files("README.md", "doc/*.md", "doc/*.[15]"))


def subjects():
    """Returns [(commit, subject)], the latest first; empty where there is no repository."""
    try:
        run = subprocess.run(["git", "-C", str(TREE), "log", "--no-merges", f"-{SUBJECTS}", "--format=%h%x09%s"],
                             capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [tuple(line.split("\t", 1)) for line in run.stdout.splitlines()] if run.returncode == 0 else []


def has_people(found):
    return [each for each in found if PEOPLE.search(each[1])]


def share(part, whole):
    return 100 * len(part) / len(whole) if whole else 0.0


def is_imperative(subject):
    words = re.sub(r"^[^:]{1,40}:\s*", "", subject).split()
    return bool(words) and words[0].strip(",;:").lower() in VERBS


def main():
    listing = "--list" in sys.argv[1:]
    for name, found in (("src, include", code()), ("test", tests()), ("documents", documents()), ("subjects", subjects())):
        people = has_people(found)
        long = [each for each in found if len(each[1].split()) > LONG]
        print(f"{name}: {len(found)} sentences, {share(people, found):.2f} % with words for people ({len(people)}), "
              f"{share(long, found):.1f} % over {LONG} words")
        if name == "subjects":
            imperative = [each for each in found if is_imperative(each[1])]
            wide = [each for each in found if len(each[1]) > WIDE]
            print(f"{name}: {share(imperative, found):.0f} % imperative, {share(wide, found):.0f} % over {WIDE} characters")
        if listing:
            for place, sentence in people:
                print(f"  {place}: {sentence}")


if __name__ == "__main__":
    main()
