"""The language of comments and documents: words for people do not stand for clients, servers and processes. See test/language.py."""

import pytest

import language

# Percent of the sentences; a bound is what the tree has reached, and goes down only.
BOUNDS = [("code", language.code, 0.4), ("documents", language.documents, 0.4)]


@pytest.mark.parametrize("name, read, bound", BOUNDS, ids=[name for name, _, _ in BOUNDS])
def test_few_sentences_have_words_for_people(name, read, bound):
    found = read()
    people = language.has_people(found)
    assert len(found) > 1000, f"{name}: the reader of comments finds nothing"
    assert language.share(people, found) <= bound, "\n".join(f"{place}: {sentence}" for place, sentence in people)


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
