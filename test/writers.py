"""
Which source files write a member of a connection.

A member has one writer, the file that owns it: others call a function that says what happened. This
reads the text of src and include: the variables of a function with their types, the members of each
struct, and the assignments, increments and list functions that change a member through them. A header
and the .c file of its name are one file. `python3 test/writers.py` prints the members with their writers.
"""
import collections
import re

import names

# the structs of connections; a struct that one of them embeds belongs to it, unless any room uses it
ROOTS = ("client", "server", "peer")
COMMON = ("bytes", "list", "brief_address")

# what an online restart unpacks: the one other place that sets every member
RECORD = re.compile(r"_record\.c$|/handover/")

NAME = r"\**\s*(?!const\b|struct\b|enum\b|bool\b)\w+(?:\[[^\]]*\])?"
DECLARED = re.compile(rf"\bstruct\s+(\w+)\s+(?=[*\w])((?:{NAME}(?:\s*=[^;,]*)?\s*,\s*)*{NAME})")
PATH = r"(\w+)((?:\s*(?:->|\.)\s*\w+(?:\[[^\]]*\])?)+)"
WRITES = (re.compile(PATH + r"\s*(?:[-+*/|&^]|<<|>>)?=(?!=)"), re.compile(PATH + r"\s*(?:\+\+|--)"), re.compile(r"(?:\+\+|--)" + PATH))
LISTS = re.compile(r"\b(?:list|bytes)_(?:init|append|prepend|remove|insert\w*|take\w*|free|wipe|move|consume\w*|clear|reset)\(([^;]*)\);")
ADDRESS = re.compile(r"&" + PATH)

def body(text, at):
    """The text between the brace at this place and the one that closes it, and the place after it."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1:end], end + 1
    return "", len(text)

def members(text, name, found):
    """Enters the members of a struct: {member: type of an embedded struct or of one pointed to}."""
    own = found.setdefault(name, {})
    while True:
        inner = re.search(r"\b(?:struct|union)\s*(\w*)\s*\{", text)
        if not inner:
            break
        within, end = body(text, inner.end() - 1)
        after = re.match(r"\s*(\**\w+)?", text[end:])
        tag = inner.group(1) or f"{name}.{after.group(1) or ''}"
        if not after.group(1):
            text = text[:inner.start()] + within + text[end:].lstrip(" ;")
            continue
        members(within, tag, found)
        text = text[:inner.start()] + f"struct {tag.replace('.', '__')} " + text[end:]
        found[tag.replace(".", "__")] = found[tag]
    for line in text.split(";"):
        line = re.sub(r"\(\*(\w+)\)\s*\(.*", r"\1", line, flags=re.S)
        kind = re.match(r"\s*(?:const\s+)?struct\s+(\w+)\s+(.*)", line, re.S)
        names = kind.group(2) if kind else line
        for each in names.split(","):
            called = re.search(r"(\w+)\s*(?:\[.*|:.*)?$", each.strip(), re.S)
            if called:
                own[called.group(1)] = (kind.group(1), "*" in each) if kind else (None, False)

def structs():
    found = {}
    for _, text in names.sources():
        for each in re.finditer(r"^struct\s+(\w+)\s*\{", text, re.M):
            members(body(text, each.end() - 1)[0], each.group(1), found)
    return found

def functions(text):
    """Each function from its return type to its last brace."""
    start = 0
    for each in re.finditer(r"^\}", text, re.M):
        yield text[start:each.start()]
        start = each.end()

def owned(shapes):
    """The structs of connections: the roots, and what they embed."""
    found, todo = set(), list(ROOTS)
    while todo:
        name = todo.pop()
        if name in found or name in COMMON or name not in shapes:
            continue
        found.add(name)
        todo += [kind for kind, is_pointer in shapes[name].values() if kind and not is_pointer]
    return found

def target(shapes, variables, base, path):
    """(struct, member) that a path such as c->peer.held_first ends at; None for others."""
    kind = variables.get(base)
    found = None
    for member in re.findall(r"(?:->|\.)\s*(\w+)", path):
        if kind not in shapes or member not in shapes[kind]:
            return None
        found = (kind, member)
        kind = shapes[kind][member][0]
    return found

def read():
    """{(struct, member): the files that write it, as room/name}."""
    shapes = structs()
    mine = owned(shapes)
    found = collections.defaultdict(set)
    for path, whole in names.sources():
        if RECORD.search(path):
            continue
        where = re.search(r"\w+/\w+(?=\.\w$)", path).group()
        for text in functions(whole):
            variables = {}
            for each in DECLARED.finditer(text):
                for name in each.group(2).split(","):
                    variables[re.search(r"\w+", name).group()] = each.group(1)
            hits = [(m.group(1), m.group(2)) for pattern in WRITES for m in pattern.finditer(text)]
            hits += [(m.group(1), m.group(2)) for call in LISTS.finditer(text) for m in ADDRESS.finditer(call.group(1))]
            for base, way in hits:
                member = target(shapes, variables, base, way)
                if member and member[0] in mine:
                    found[member].add(where)
    return found

def shared(found):
    """The members that three or more files write."""
    return {member: where for member, where in found.items() if len(where) >= 3}

if __name__ == "__main__":
    many = shared(read())
    for (struct, member), where in sorted(many.items(), key=lambda each: (-len(each[1]), each[0])):
        print(f"{struct}.{member}\t{len(where)}\t{' '.join(sorted(where))}")
    print(len(many))
