"""The language of comments and documents, and the names of the C code. See test/language.py and test/names.py."""

import re

import pytest

import language
import names
import writers

# Percent of the sentences with words for people. A bound is what the tree has reached, and only goes down.
PEOPLE = [("code", 0.7), ("tests", 0.9), ("documents", 0.4)]

# Percent of the sentences with a marker of odd English. Lower a bound when its group has become better.
ODD = [("code", 0.6), ("tests", 3.5), ("documents", 1.9)]

# Percent of the sentences in the comments of src and include: "a client that waits" at most, a reason and an example at least.
THAT, REASON, EXAMPLE = 1.5, 8.0, 0.5

# Names that a check of test/names.py finds and that are still to be changed. Remove a name here when it is gone; add none.
KNOWN = {
    "predicates with an effect": """
        client_may_go_on is_at_rest list_is_empty name_is_unknown pg_frame_is_here server_may_go_on
        """,
    "functions without a result named as a statement": """
        name_is_unknown
        """,
    "struct tags defined twice": "",
    "prefixes of two enums": """
        LEDGER_ PG_ STEP_ STREAM_
        """,
    "functions of two source files": """
        begin find
        """,
    "names of two source files": "",
    "names of two headers": "",
}

@pytest.mark.parametrize("name, bound", PEOPLE, ids=[name for name, _ in PEOPLE])
def test_few_sentences_have_words_for_people(name, bound):
    found = language.group(name)
    people = language.has_people(found)
    assert len(found) > 1000, f"{name}: the reader of comments finds nothing"
    assert language.share(people, found) <= bound, "\n".join(f"{each[0]}: {each[1]}" for each in people)

@pytest.mark.parametrize("name, bound", ODD, ids=[name for name, _ in ODD])
def test_few_sentences_have_markers_of_odd_english(name, bound):
    found = language.group(name)
    marked = language.has_marker(found)
    assert language.share(marked, found) <= bound, (
        f"{language.share(marked, found):.2f} % of the sentences of {name}; python3 test/language.py --list prints them, "
        "and takes the files that you have changed")

def test_comments_explain():
    """A rule alone is forgotten: comments have reasons and examples, and say "a full server", not "a server that is full"."""
    found = language.group("code")
    clauses = language.has(language.THAT, found)
    assert language.share(clauses, found) <= THAT, "\n".join(f"{each[0]}: {each[1]}" for each in clauses)
    assert language.share(language.has(language.REASON, found), found) >= REASON
    assert language.share(language.has(language.EXAMPLE, found), found) >= EXAMPLE

@pytest.mark.parametrize("sentence, pattern", [
    ("A server that is full gets few attempts.", language.THAT),
    ("The server closes, because its session has state of the client.", language.REASON),
    ("Example: a client sends SET.", language.EXAMPLE),
    ("The address of a service, for example, may lead to several servers.", language.EXAMPLE),
])
def test_clauses_reasons_and_examples_are_found(sentence, pattern):
    found = [("x.c:1", sentence, True), ("x.c:2", "A full server is closed.", True)]
    assert language.has(pattern, found) == found[:1]

@pytest.mark.parametrize("sentence", """
    Sends the cached error to every waiting client and closes the connection.
    The caller owns the returned string and frees it with mem_free.
    Returns false when there is no memory.
    One row per setting: the struct field, the parser and the manual page come from this table.
    The server may be behind a load balancer, so its address can change between two connections.
    The client must not see temporary objects of the previous client.
    Each of these functions asserts that the connection is not stopped.
    See what happens to the link in link.c.
    A client that waits longer than query_wait_timeout gets an error.
    The pool keeps the server connection until the transaction ends, because the server knows the cursor.
    Connections in the state IDLE are closed after server_idle_timeout.
    One of the servers is chosen by the number of its connections.
    That server is closed at release.
    The comparison takes the same time for every input of this length.
    """.strip().split("\n"))
def test_plain_english_has_no_marker(sentence):
    assert language.markers(sentence.strip(), True) == []

@pytest.mark.parametrize("sentence, marker", [
    ("What the client has made there is nothing to another one.", "opening"),
    ("The latter has been another client when a notification takes longer.", "latter"),
    ("Returns what is left of it.", "what"),
    ("The part of which nothing is kept.", "of which"),
    ("A server is opened for one that waits.", "one that"),
    ("The names of the months are those of no locale.", "that of"),
    ("All but those that have just come.", "those that"),
    ("Messages such as only a server sends.", "such as"),
    ("Bits behind the end are not zero.", "behind"),
    ("The process of before has ended.", "before"),
    ("There are so few clients.", "so many"),
    ("The reasons are numbered anew in each version.", "anew"),
    ("The value stands in the buffer.", "stands"),
    ("The pooler alone knows.", "alone"),
    ("Whether the message is there.", "is there"),
    ("A prefix that is no prefix of another word.", "is no"),
    ("This is a message of the pooler's.", "of the pooler's"),
    ("It is looked at before the text is complete.", "opening"),
])
def test_odd_english_has_a_marker(sentence, marker):
    assert marker in language.markers(sentence, True)

@pytest.fixture(scope="module")
def found_names():
    return names.read()

@pytest.mark.parametrize("check", KNOWN)
def test_no_name_breaks_a_rule(check, found_names):
    known = set(KNOWN[check].split())
    assert sorted(found_names[check] - known) == [], f"{check}; test/names.py has the rules"
    assert sorted(known - found_names[check]) == [], "exceptions that are not needed any more"

def test_no_line_has_more_than_100_columns():
    """A row of a table in include/tbl may be longer: it is read as a row."""
    wide = [f"{path.relative_to(names.TREE)}:{number}" for path in names.files("src/**/*.[ch]", "include/**/*.h")
            for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1) if len(line.expandtabs(8)) > 100]
    assert wide == []

# Members of connections that three or more files write. The bound is what the tree has reached, and only goes down.
SHARED_MEMBERS = 11

def test_few_members_of_a_connection_have_many_writers():
    found = writers.read()
    assert len(found) > 150, "test/writers.py finds no assignments"
    shared = writers.shared(found)
    assert len(shared) <= SHARED_MEMBERS, "\n".join(f"{'.'.join(each)}: {', '.join(sorted(where))}" for each, where in sorted(shared.items()))

# Members of struct client, without those of the structs that it embeds. The bound is what the tree has reached, and only goes down.
CLIENT_MEMBERS = 22

def test_a_client_has_few_members_of_its_own():
    """Each member of a client is read in many rooms: those of one room are in a struct of that room."""
    assert len(writers.structs()["client"]) <= CLIENT_MEMBERS, ", ".join(writers.structs()["client"])

def test_no_contract_refers_to_another_one():
    """"The same for a server": the reader has to find which other comment is meant, and what differs."""
    found = [f"{path.relative_to(names.TREE)}:{number}" for path in names.files("src/**/*.[ch]", "include/**/*.h")
             for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
             if re.match(r"\s*(?:/\*|\*) (?:The same\b|(?:As|Like) (?:\w+\(\)|[a-z]+_\w+))", line)
             or re.search(r"\b[Aa]s above\b", line)]
    assert found == []

def test_names_are_judged_by_their_declarations():
    text = """
bool pool_is_full(const struct pool *pool);
bool pool_may_grow(struct pool *pool);
static bool has_room(const struct pool *p)
{
	p->counts->asked = 1;
}
bool pool_has_room(const struct pool *p)
{
	return p->size == 1 && p->node.next != NULL;
}
void pool_is_empty(struct pool *pool);
bool size_is_known(const struct pool *pool, int *size);
enum a { ROW_NAME_ONE, ROW_NAME_TWO };
enum b {
#define ROW(id) ROW_##id,
	ROW_LAST
};
struct pool { struct inner { int a; } b; };
"""
    assert names.predicates_with_effect(text) == {"pool_may_grow", "has_room", "pool_is_empty", "size_is_known"}
    assert names.statements_without_result(text) == {"pool_is_empty"}
    assert names.enum_prefixes(text) == ["ROW_NAME_", "ROW_"]
    assert names.tags(text) == ["pool", "inner"]
    assert names.twice([["a", "b"], ["a"], ["c", "c"]]) == {"a", "c"}

@pytest.mark.parametrize("text, sentences", [
    ("/* A client that\n * nobody uses. It ends. */ char *s = \"/* who */\";", ["A client that nobody uses.", "It ends."]),
    ("int a; // one word\n// and whose\nint b;", ["one word and whose"]),
])
def test_comments_of_c_are_read(text, sentences):
    assert [each for line, body in language.comments_of_c(text) for _, each in language.sentences(line, body)] == sentences

def test_a_place_is_the_line_of_the_sentence():
    assert list(language.sentences(3, "It is first. Then\ncomes more.\n\n- An item\n  of two.")) == [
        (3, "It is first."), (3, "Then comes more."), (6, "- An item of two.")]

def test_imperative_subjects_are_told():
    assert language.is_imperative("pool: close idle servers of a removed database")
    assert not language.is_imperative("pool: what stood twice stands once")
