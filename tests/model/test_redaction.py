"""Tests that no form of a secret remains in texts and stored values, and that the surrounding text stays readable."""

from __future__ import annotations

import csv
import enum
import html
import io
import json
import re
import shlex
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import markupsafe
import msgspec
import pytest

from streamkeeper.model.redaction import (
    Structure,
    Text,
    redact,
    redact_everywhere,
    redact_value,
    secret_forms,
    secret_parts,
)


@pytest.mark.parametrize("value", ["hunter2", 'p@ss/wörd&"x"', "line one\nline two\n", "back\\slash", "a b+c"])
def test_no_form_of_a_secret_survives_redaction(value: str) -> None:
    """A secret is masked as plain text, in a URL, in JSON, as a Python literal and line by line."""
    secrets = {"secret://env/S": value}
    shown = [value, quote(value), quote(value, safe=""), json.dumps(value), repr(value), *value.splitlines()]
    for text in shown:
        masked = redact(f"before {text} after", secrets)
        assert masked.startswith("before ")
        assert masked.endswith(" after")
        assert not any(line.strip() in masked for line in value.splitlines())


def test_a_secret_inside_another_leaves_no_tail() -> None:
    """If one secret contains another, the longer one is masked as a whole."""
    assert redact("abc abcdef", {"a": "abc", "b": "abcdef"}) == "*** ***"


def test_without_secrets_text_is_left_alone() -> None:
    """Without secrets the text is unchanged."""
    assert redact("plain", {}) == "plain"


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("2", "Stage 12 of Spark 4.2.0 took 2.5 s on 2026-11-22", "Stage 12 of Spark 4.2.0 took 2.5 s on 2026-11-22"),
        ("2", "password=2&user=x2", "password=***&user=x2"),
        ("abc", "no login for abc. abcd, x.abc and a-abc go on", "no login for ***. abcd, x.abc and a-abc go on"),
        ("sa", "postgresql://sa:sa@host/sales", "postgresql://***:***@host/sales"),
        ("ab", "{'password': 'ab', 'n': 1}", "{'password': '***', 'n': 1}"),
        ("abcd", "xabcdx", "x***x"),
        ("***", "a *** b", "a *** b"),
    ],
)
def test_a_short_secret_is_masked_where_it_is_a_word(secret: str, text: str, shown: str) -> None:
    """A secret of up to three characters is masked only as a whole word, because it may be part of many words, numbers
    and versions; a longer one is masked anywhere.
    """
    assert redact(text, {"s": secret}) == shown


def test_a_blank_secret_masks_nothing() -> None:
    """A blank secret masks nothing."""
    assert redact("a + b  c", {"s": " ", "t": "  \n "}) == "a + b  c"


def test_brackets_of_a_secret_json_file_mask_nothing_elsewhere() -> None:
    """The content lines of a secret JSON file are masked, but its lines with only brackets do not mask brackets
    elsewhere.
    """
    key = '{\n  "private_key": "hunter2"\n}\n'
    assert redact(f'{{ "a": [ {{ }} ] }}\n{key}', {"s": key}) == '{ "a": [ { } ] }\n***'
    assert redact('  "private_key": "hunter2"\n} {', {"s": key}) == "***\n} {"


def test_secrets_that_overlap_leave_no_tail() -> None:
    """Two overlapping secrets are masked together."""
    assert redact("x abcdef y", {"a": "abcd", "b": "cdef"}) == "x *** y"


class Kind(enum.StrEnum):
    TABLE = "table"


class Inner(msgspec.Struct, frozen=True):
    name: Structure
    text: str
    kind: Kind | None = None


class Outer(msgspec.Struct, frozen=True):
    number: int
    inner: tuple[Inner, ...]
    pair: tuple[Structure, str]
    by_name: dict[str, str]
    by_text: dict[Text, Structure | None]
    maybe: Structure | None = None
    either: Inner | str | None = None
    ratio: float = 2.5
    flag: bool = True


def test_texts_of_a_value_are_masked_and_nothing_else() -> None:
    """Only texts in a value are masked, in nested structs, unions, tuples and dicts as well; names, enums, numbers and
    structural keys are unchanged.
    """
    value = Outer(
        number=2222,
        inner=(Inner("table", "a table", Kind.TABLE),),
        pair=("table", "table"),
        by_name={"table": "table", "2222": "2222"},
        by_text={"a table": "table", "b": None},
        maybe="table",
        either=Inner("table", "table"),
    )
    assert redact_value(value, {"a": "table", "b": "2222"}) == Outer(
        number=2222,
        inner=(Inner("table", "a ***", Kind.TABLE),),
        pair=("table", "***"),
        by_name={"table": "***", "2222": "***"},
        by_text={"a ***": "table", "b": None},
        maybe="table",
        either=Inner("table", "***"),
    )
    assert redact_value({"table": value, "n": ["table", 1, None]}, {"a": "table"})["n"] == ["***", 1, None]


def test_a_value_is_left_alone_without_secrets() -> None:
    """Without secrets the same object is returned."""
    value = Inner("a", "b")
    assert redact_value(value, {}) is value


def test_the_forms_of_a_secret_are_sorted_longest_first() -> None:
    """The forms of a secret are sorted by length, longest first, because a log holds back that much of an unfinished
    line.
    """
    forms = secret_forms({"s": "pä ss"})
    assert [len(each) for each in forms] == sorted(map(len, forms), reverse=True)
    assert {"pä ss", "p%C3%A4%20ss", "p%C3%A4+ss", "p\\u00e4 ss"} < set(forms)


PASSWORD = 'it\'s a "pä$$" & <b>\\x'


@pytest.mark.parametrize("wrap", ["\n", "\r\n", "\n    ", "\\n"])
@pytest.mark.parametrize("before", ["", "a", "ab", "b" * 40, "c" * 100])
def test_a_secret_in_base64_is_masked_across_lines(wrap: str, before: str) -> None:
    """A secret in base64 is masked wherever the text is wrapped into lines. Negative control: base64 of a different
    text is unchanged.
    """

    def wrapped(text: str) -> str:
        encoded = b64encode(text.encode()).decode()
        return wrap.join(encoded[at : at + 20] for at in range(0, len(encoded), 20))

    secret = "correct horse battery staple"
    masked = redact(f"head\n{wrapped(before + secret)}\ntail", {"s": secret})
    whole = b64encode((before + secret).encode()).decode()
    kept = whole[: len(before) // 15 * 20]
    assert masked.startswith("head\n")
    assert masked.endswith("***\ntail")
    assert masked.replace(wrap, "").replace("\n", "") == f"head{kept}***tail"
    other = f"head\n{wrapped('nothing that anybody has to hide here')}\ntail"
    assert redact(other, {"s": secret}) == other


def as_csv(text: str) -> str:
    file = io.StringIO()
    csv.writer(file).writerow([text])
    return file.getvalue().strip()


WRITTEN = {
    "SQL": PASSWORD.replace("'", "''"),
    "SQL with backslashes": PASSWORD.replace("\\", "\\\\").replace("'", "\\'"),
    "shell": shlex.quote(PASSWORD),
    "shell's backslashes": re.sub(r"([^\w])", r"\\\1", PASSWORD),
    "CSV": as_csv(PASSWORD),
    "HTML": html.escape(PASSWORD),
    "HTML of templates": str(markupsafe.escape(PASSWORD)),
    "JSON as it is": json.dumps(PASSWORD, ensure_ascii=False),
    "a URL in lower case": re.sub("%..", lambda found: found[0].lower(), quote(PASSWORD, safe="")),
    "base64": b64encode(PASSWORD.encode()).decode(),
    **{f"Basic, {user}": b64encode(f"{user}:{PASSWORD}".encode()).decode() for user in ("a", "ab", "abc")},
    "inside of base64url": urlsafe_b64encode(f"x{PASSWORD}tail".encode()).decode(),
    "hexadecimal": PASSWORD.encode().hex(),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_secret_is_masked_as_other_languages_write_it(form: str) -> None:
    """A secret is masked completely in the quoting of SQL, shells, CSV, HTML, JSON, URLs, base64 and hexadecimal.
    Negative control: the masking of earlier versions, ``redact_everywhere``, gives a different result for each form but
    two, which are not compared.
    """
    text = f"before {WRITTEN[form]} after"
    assert re.fullmatch(r"before [\"']?\*\*\*[\"']? after", redact(text, {"s": PASSWORD}))
    if form not in ("JSON as it is", "SQL with backslashes"):
        assert redact_everywhere(text, {"s": PASSWORD}) != redact(text, {"s": PASSWORD})


@pytest.mark.parametrize(
    ("secret", "parts"),
    [
        ("postgresql://app:s3cr%40t@db/app", ["s3cr%40t", "s3cr@t"]),
        ("s3://AKIA:sec@ret+x@host/b", ["sec@ret+x", "sec@ret x"]),
        ("postgresql://app:se/cr?e#t@db/app", ["se/cr?e#t"]),
        ("https://host/design:x@1", []),
        ("jdbc:postgresql://h/db?user=u&password=hunter22&ssl=true", ["hunter22"]),
        ("host=db password='hun ter' user=x", ["hun ter"]),
        ('PlainLoginModule required username="u" password="hunter22";', ["hunter22"]),
        ("AccountName=x;AccountKey=abc123==;EndpointSuffix=core", ["abc123=="]),
        ('{"private_key": "a\\nbcd", "token_uri": "https://x/token"}', ["a\\nbcd", "a\nbcd"]),
        ("postgresql://sales:sales@host/sales", []),
        ("postgresql://app:database@db/database", []),
        ("jdbc:database://h/x?password=data", ["data"]),
        ("https://host/design=1?key=2", []),
        ("postgresql://app:pw@db/app", []),
    ],
)
def test_passwords_inside_of_a_secret_are_secrets(secret: str, parts: list[str]) -> None:
    """A password inside a secret URL or connection string is masked on its own, unless it is also a different name in
    that secret.
    """
    assert list(secret_parts(secret)) == parts
    assert [redact(f"login with {part} failed", {"s": secret}) for part in parts] == ["login with *** failed"] * len(
        parts
    )


TANGLED = "Tr0ub4dor&3<x>=a/b'c"


@pytest.mark.parametrize(
    "form",
    [
        TANGLED.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        TANGLED.replace("&", "\\u0026").replace("<", "\\u003C").replace(">", "\\u003E"),
        TANGLED.replace("&", "\\u0026")
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("=", "\\u003d")
        .replace("'", "\\u0027"),
        TANGLED.replace("/", "\\/"),
        quote(quote(TANGLED, safe=""), safe=""),
        html.escape(html.escape(TANGLED)),
        html.escape(TANGLED).replace("&amp;", "&#38;"),
    ],
    ids=["Go", "upper case", "Gson", "slash", "URL in a URL", "HTML in HTML", "38"],
)
def test_a_secret_is_masked_as_encoders_of_other_languages_escape_it(form: str) -> None:
    """A secret is masked as a whole in the escaping of other languages' JSON encoders and in doubly encoded URLs and
    HTML. Negative control: the same form of a different secret is unchanged.
    """
    assert redact(f"got {form}!", {"secret://env/X": TANGLED}) == "got ***!"
    other = form.replace("Tr0ub4dor", "Tr0ub4d0r")
    assert redact(f"got {other}!", {"secret://env/X": TANGLED}) == f"got {other}!"
