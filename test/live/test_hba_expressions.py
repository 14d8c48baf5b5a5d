r"""
Regular expressions of HBA and ident files: pgweir and PostgreSQL give the same results, including \1.

PostgreSQL evaluates the expressions with its operator ~ in a database with the encoding SQL_ASCII, under the collation "C": this is how it reads the
expressions of pg_hba.conf and pg_ident.conf, byte by byte, independent of the encoding of the client's database (test_hba_postgres.py shows this with
a real pg_hba.conf). pgweir's results come from test/live/patterns.c, which is linked with its library.

pgweir may refuse an expression that PostgreSQL accepts, but not the reverse, except for expressions that are too complex for PostgreSQL, whose engine
expands some repetitions more than pgweir's.
"""
import os
import random
import subprocess

import psycopg2
import pytest

from support.pgweir import binary
from support.rounds import size

ASK = """
CREATE FUNCTION ask(expression bytea, subject bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    e text COLLATE "C" := convert_from(expression, 'SQL_ASCII');
    s text COLLATE "C" := convert_from(subject, 'SQL_ASCII');
    groups text[];
BEGIN
    IF NOT s ~ e THEN RETURN 'no'; END IF;
    groups := regexp_match(s, e);
    RETURN 'yes ' || coalesce('=' || encode(convert_to(groups[1], 'SQL_ASCII'), 'hex'), '-');
EXCEPTION WHEN invalid_regular_expression THEN
    RETURN CASE WHEN SQLERRM LIKE '%too complex%' THEN 'too complex' ELSE 'refused' END;
END $$
"""

# Forms that engines read in different ways, and forms that are usual in HBA files.
FIXED = r"""
a$ ^a$ ^a\'$ \' \` a\' \`a \<a a\> \< \> ^\<a\>$ \ba a\b \B a\B \Ba \Aa a\Z \ma a\M \ya \Ya a\Y \y \Y \m \M \A \Z a{,3} a{ a{x
a{1 a{1x} a{1,x} a{,} {a} { } a} ] a] ) a) ( (a { {1} {1a} a{0} a{0}b (a){0}b a{1}{2} a{2}? a{255} a{256} a{2550} a{0255}
a{1,256} a{3,2} a{2,3} a{2,} a{2,2} a{0,0} a{0,1} \{ a\{1\} a\{,3\} a{1,2}* a{1,2}? * *a +a ?a {1}a (*a) (+) (|*a) a|*b a**
a*+ a+* a?? a*? a+? ^* ^+ $* $+ $? ^{2} \A* \y+ a|+ (^)* (^)*a ($)? (\y)+ ^^a a$$ ^$ $^ ^*a () ()a a() ()* ()+ ()? (){3} (|a)
(a|) (|) | || a| |a a|| a||b (||a) ((((((a)))))) (a)(b)(c) ((a)|b) (a|(b)) ((a)|(b)) (?:a) (?:a|b)c (?:) (?:a)* (?i)a (?s)a
(?x)a (?n)a (?q)a (?a) (?=a) (?!a) (?<=a) (?<!a) (?#a) (? (?: (?:a *** ***: ***:a ***= ***=a ***a ***:* \a \b \c \cA \d \D \e
\E \f \g \n \r \s \S \t \u \u0061 \U00000061 \v \w \W \x \x61 \x6 \0 \01 \1 \12 \9 (a)\1 (a)\2 \061 \101 \z \q \Q \h \R \X
\p{L} \\ \. \* \+ \? \( \) \[ \] \{ \} \| \^ \$ \/ \- \_ \@ \# \% \& \! \~ \" \, \; \: \= a\ \ab [a] [^a] [ab] [a-c] [^a-c] [a
[ [] []a] [^]a] []] [^]] [a-] [-a] [^-a] [a-b-c] [a-b-] [--a] [!--] [--] [---] [%--a] [a--] [c-a] [a-a] [[] [[a] [a[] []-a]
[a-[] [A-[] [[-a] [\a] [\d] [^\d] [\D] [\w] [\W] [\s] [\S] [\w-] [-\w] [\w-a] [a-\w] [\d\s] [\w.-] [\.] [\\] [\]] [\-] [\^a]
[a\-z] [a-\]] [\b] [\n] [\x61] [\1] [a\] [\y] [\A] [[:alpha:]] [[:ALPHA:]] [[:alpha:] [:alpha:] [[:alpha:]-z] [a-[:alpha:]]
[[:digit:][:upper:]] [^[:alnum:]_] [[:word:]] [[:ascii:]] [[:nosuch:]] [[::]] [[:] [[:a] [[.a.]] [[.hyphen.]] [[.-.]] [[=a=]]
[[=aa=]] [[:<:]] [[:>:]] [[:<:]a] [a[:<:]] [[:<:]]a a[[:>:]] [[:blank:]] [[:cntrl:]] [[:graph:]] [[:lower:]] [[:print:]]
[[:punct:]] [[:space:]] [[:upper:]] [[:xdigit:]] [^[:cntrl:]] [^[:print:]] [^[:space:]] . .. ^.$ ^..$ .* .+ ^.*$ é ^é$ [é]
^[é]+$ é* ^é*$ é+ ^é{2}$ ^é{1,2}$ [à-é] [^é] \é é|e ^\w$ ^\W\W$ ß Ä (é) (.*)@x (.+)@(.+)
^(.*)@x$ ^(.*)$ ^([^@]*)@ ^(.*?)@
^(a|ab)(c|bcd)(d*)$ ^(a|ab)(bcd|c)(d*)$ (a*)(ab)*(b*) (a*)(a|ab)*(b*) ^(a?)(ab)?$ (?:a|ab)(?:c|bcd)?(d*) (a*)* (a*)+ (a|b)*
((a|b)*) (a?)* (a){2} (a){1} (a){0,1} (a)? (a)?b (a*)? (a|ab|abc)? x(a*)|x(.*) (x)|(.*) (?:x(a)|y) (?:x|(y))z? (a(b)?)+
((a)b)* (a|(b)|c)* a*(a*) a*(a+) (a+)a* (a*)(a*) (a*)b*(.*) ((a*)b)(.*) .*(.) .*(.*) (.)(.*) (.)?(.*) ((.)|(..))(.*)
(?:(.)|..)(.*) ^(?:(a)|b)?(.*)$ \y(a+)\y (a|b|ab)(.*) (^a|b) (a$|b) (^|a)b a(b|$) (^$) (^|$) (a|^b|c) (^a)(b$) x*(^a) (a$)x*
(\ya|b\y) (a\Y|b) ^(a)(\y)(.*)
"""
SUBJECTS = ["", "a", "b", "ab", "abc", "abcd", "aab", "aaa", "xa", "xab", "a b", "ab@x", "a@b@x", "'", "a'", "`a", "<a>",
            "a{,3}", "a{1}", "{a}", "{", "}", "]", "\\", "a\\", "-", "A", "1", "_", "a_1", "\b", "\ba", "\n", "a\nb", "\t",
            "é", "éé", "e", "É", "aé", "à", "\x85", ".", "*a", "a*", "[", "^a", "a$", "(a)", "x", "xaxa", "y", "xy", "yz",
            "c", "a|b", "@", "b@", "z", "q", "B", "aabb", "abab", "\x7f"]


@pytest.fixture(name="ask_postgres", scope="module")
def make_ask_postgres(postgres):
    """Asks for the answers of PostgreSQL to a list of pairs of bytes."""
    postgres.execute("CREATE DATABASE expressions ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    connection = psycopg2.connect(host=postgres.host, port=postgres.port, user="postgres", dbname="expressions")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(ASK)

    def ask(pairs):
        with connection.cursor() as cursor:
            cursor.execute("SELECT ask(decode(e, 'hex'), decode(s, 'hex')) "
                           "FROM unnest(%s, %s) WITH ORDINALITY AS u (e, s, n) ORDER BY n",
                           ([e.hex() for e, _ in pairs], [s.hex() for _, s in pairs]))
            return [row[0] for row in cursor.fetchall()]

    yield ask
    connection.close()
    postgres.execute("DROP DATABASE expressions")


def ask_pgweir(pairs):
    program = os.path.join(os.path.dirname(binary()), "test", "live", "patterns")
    text = "".join("%s %s\n" % (e.hex() or "-", s.hex() or "-") for e, s in pairs)
    return subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout.splitlines()


def differences(pairs, ask_postgres):
    """Returns the differences, and the number of answers other than refusals."""
    found, taken = [], 0
    ours, theirs = ask_pgweir(pairs), ask_postgres(pairs)
    assert len(ours) == len(theirs) == len(pairs)
    for pair, our, their in zip(pairs, ours, theirs):
        if our.startswith("refused") or their == "too complex":
            continue
        taken += 1
        if our != their and not (our == "yes ?" and their.startswith("yes ")):
            found.append("%r on %r: %s, PostgreSQL says %s" % (*pair, our, their))
    return found, taken


def test_known_expressions_mean_the_same(ask_postgres):
    pairs = [(e.encode(), s.encode()) for e in FIXED.split() + ["", " ", "a b", "a\tb"] for s in SUBJECTS]
    found, taken = differences(pairs, ask_postgres)
    assert not found, "\n".join(found[:20])
    assert taken > len(pairs) / 2


# --- random ones

ATOMS = ["a", "a", "b", "c", "x", "@", ".", "é", "_", "1", "-", " ", "{", "}", "]", "\\.", "\\d", "\\w", "\\s", "\\D", "\\W",
         "\\S", "\\'", "\\`", "\\<", "\\>", "\\{", "\\\\", "^", "$", "\\A", "\\Z", "\\m", "\\M", "\\y", "\\Y", "[ab]", "[^a]",
         "[a-c]", "[^b-c]", "[[:alpha:]]", "[^[:digit:]_]", "[\\w.-]", "[]a]", "[é]", "[[:cntrl:]]"]
ODD = list("()[]{}*+?|^$\\.-,:=<>!#&'`/\"~ \n\tab19AZéßx_@")
BRACKETED = ["a", "b", "c", "-", "]", "[", "^", "\\", ":", ".", "=", "\\d", "\\w", "\\]", "\\-", "[:alpha:]", "[:digit:]",
             "z", "A", "é", "!"]


QUANTIFIERS = ["", "", "", "", "*", "+", "?", "{2}", "{0,1}", "{1,2}", "{0}", "{,2}", "{1,}"]


def random_set(chance):
    return "[%s%s]" % (chance.choice(("", "^")), "".join(chance.choice(BRACKETED) for _ in range(chance.randint(1, 5))))


def random_expression(chance, depth=3):
    branches = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        pieces = []
        for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4))):
            kind = chance.random()
            if depth > 0 and kind < 0.3:
                piece = chance.choice(("(%s)", "(%s)", "(?:%s)")) % random_expression(chance, depth - 1)
            elif kind < 0.38:
                piece = random_set(chance)
            else:
                piece = chance.choice(ATOMS)
            pieces.append(piece + chance.choice(QUANTIFIERS))
        branches.append("".join(pieces))
    return "|".join(branches)


def random_capture(chance):
    """An expression whose first group usually matches unambiguously."""
    def piece(behind):
        if chance.random() < 0.1:
            return chance.choice(("\\y", "^", "$", "\\m", "(b){0}"))
        atoms = ["a", "b", "ab", ".", "[ab]", "(?:a|ab)", "(?:ab|a|)", "(?:b|ba)"] + ["(b)", "(a|ab)", "(a)?c"] * behind
        return chance.choice(atoms) + chance.choice(("", "", "*", "+", "?", "{1,2}"))

    def plain(most, behind=False):
        return "".join(piece(behind) for _ in range(chance.randint(0, most)))

    def one():
        group = "(" + "|".join(plain(3, True) for _ in range(chance.choice((1, 1, 2, 3)))) + ")"
        around = chance.choice(("%s", "%s", "%s?", "%s{0,1}", "(?:%s|b)", "(?:b|%s)", "(?:a?%s)?"))
        return plain(2) + around % group + plain(3, True)

    return "|".join(chance.choice((one, one, lambda: plain(3)))() for _ in range(chance.choice((1, 1, 2))))


def broken(chance, text):
    """With some characters that are others, more or fewer."""
    for _ in range(chance.choice((0, 0, 1, 2))):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(("", chance.choice(ODD))) + text[at + chance.randint(0, 1):]
    return text


def random_subject(chance):
    alphabet = chance.choice(("ab", "ab", "ab", "abc", "aab@x", "ab_ 1.-", "abé\n", "a'`<>{}[]\\^$", "aA1\x85\x7f\xdf"))
    return "".join(chance.choice(alphabet) for _ in range(chance.choice((0, 1, 2, 3, 4, 6, 8))))


def random_pairs(chance, expressions):
    pairs = []
    for _ in range(expressions):
        text = random_capture(chance) if chance.random() < 0.4 else broken(chance, random_expression(chance))
        pairs += [(text.encode(), random_subject(chance).encode()) for _ in range(6)]
    return pairs


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_mean_the_same(ask_postgres, seed):
    chance = random.Random("expressions %d" % seed)
    pairs = random_pairs(chance, size(400, full=20000))
    found, taken = differences(pairs, ask_postgres)
    assert not found, "\n".join(found[:20])
    assert taken > len(pairs) / 3
