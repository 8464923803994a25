"""Compares two versions of a job: params, confs, code, and Spark's description of each query. Pure.

Secrets are masked; binary and very long files are named but not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff

import msgspec

from streamkeeper.model.manifests.manifest import Manifest, Operator, Source
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.redaction import redact
from streamkeeper.model.secret_names import literal_secrets, masked_code, masked_place, shown_value

MOST_BYTES = 256 * 1024
MOST_LINES = 2_000
LONGEST_LINE = 400


class JobVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two compared versions of a job.

    ``name``: the display name; ``entry``: the job's file among ``files``; ``manifests``: the manifests of the job's
    queries, None if unknown.
    """

    name: str
    entry: str
    files: Mapping[str, bytes]
    params: Mapping[str, ParamValue]
    conf: Mapping[str, str]
    manifests: Mapping[str, Manifest] | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference in one file, in one query, in the params or in the confs.

    ``lines``: the lines of a unified diff; ``note``: which part of the difference is not shown, and why.
    """

    title: str
    lines: tuple[str, ...] = ()
    note: str = ""


def find_differences(before: JobVersion, after: JobVersion) -> tuple[Difference, ...]:
    """Return all differences in params, confs, files and queries, in this order; empty if the versions are equal.

    If the manifests of a version are unknown, a note replaces the differences in queries.
    """
    return tuple(_Comparison(before, after).differences())


class _Comparison:
    def __init__(self, before: JobVersion, after: JobVersion) -> None:
        self._before = before
        self._after = after
        settings = (values for version in (before, after) for values in (version.params, version.conf))
        self._secrets = {secret: secret for values in settings for secret in literal_secrets(values)}

    def differences(self) -> Iterator[Difference]:
        old, new = self._before, self._after
        yield from self._compare("params", _values(old.params, new.params), _values(new.params, old.params, new=True))
        yield from self._compare("conf", _values(old.conf, new.conf), _values(new.conf, old.conf, new=True))
        yield from self._files()
        if old.manifests is None or new.manifests is None:
            missing = old if old.manifests is None else new
            yield Difference(title="plan", note=f"not known: {missing.name} was not described")
            return
        for query in sorted({*old.manifests, *new.manifests}):
            sides = [manifests.get(query) for manifests in (old.manifests, new.manifests)]
            title = f"query {query}{_came_or_went(*sides)}"
            yield from self._compare(title, *(_lines_of(side) if side else [] for side in sides))

    def _files(self) -> Iterator[Difference]:
        """Yield the differences between files, starting with the job's own file, which is compared even if it was
        renamed.
        """
        old, new = dict(self._before.files), dict(self._after.files)
        entries = old.pop(self._before.entry, None), new.pop(self._after.entry, None)
        names = dict.fromkeys((self._before.entry, self._after.entry))
        yield from self._file(" -> ".join(names), *entries)
        for name in sorted({*old, *new}):
            yield from self._file(name, old.get(name), new.get(name))

    def _file(self, name: str, old: bytes | None, new: bytes | None) -> Iterator[Difference]:
        if old == new:
            return
        title = f"file {name}{_came_or_went(old, new)}"
        texts = [_text(content) for content in (old or b"", new or b"")]
        if None in texts:
            sizes = " -> ".join(f"{len(content):,} bytes" for content in (old, new) if content is not None)
            yield Difference(title=visible(title), note=f"not shown, binary or too long: {sizes}")
            return
        python = name.endswith(".py")
        lines = [masked_code(text, python=python).split("\n") if text else [] for text in texts]
        yield from self._compare(title, *lines, unseen="empty, or different only in what is masked")

    def _compare(self, title: str, old: list[str], new: list[str], *, unseen: str = "") -> Iterator[Difference]:
        """Yield the difference between two texts. ``unseen``: the note to report if no line differs; if it is empty, no
        difference is reported in that case.
        """
        before, after = (list(map(self._shown, lines)) for lines in (old, new))
        diff = list(unified_diff(before, after, self._before.name, self._after.name, lineterm=""))
        left = len(diff) - MOST_LINES
        note = unseen if not diff else f"{left:,} more lines are not shown" if left > 0 else ""
        if diff or note:
            yield Difference(title=visible(title), lines=tuple(diff[:MOST_LINES]), note=note)

    def _shown(self, line: str) -> str:
        text = visible(redact(line, self._secrets))
        return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} … ({len(text):,} characters)"


def _came_or_went(old: object, new: object) -> str:
    return " (new)" if old is None else " (gone)" if new is None else ""


def _text(data: bytes) -> str | None:
    """Return the text of a file; None if the file is binary, too long or not UTF-8."""
    if len(data) > MOST_BYTES or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _values(values: Mapping[str, ParamValue], other: Mapping[str, ParamValue], *, new: bool = False) -> list[str]:
    """Return one line per value. If a masked value has changed, its new line ends with ``(another value)``."""
    lines = []
    for key, value in sorted(values.items()):
        shown = shown_value(key, value)
        changed = new and key in other and other[key] != value and shown_value(key, other[key]) == shown
        lines.append(f"{key}: {shown}{' (another value)' if changed else ''}")
    return lines


def _lines_of(query: Manifest) -> list[str]:
    return masked_code("\n".join(_told(query))).split("\n")


def _told(query: Manifest) -> Iterator[str]:
    """Yield the lines that describe a manifest in the terms of the query's author."""
    for number, source in enumerate(query.sources):
        yield from source_lines(number, source)
    yield from (f"watermark: {watermark}" for watermark in query.watermarks)
    for number, operator in enumerate(query.operators):
        yield from operator_lines(number, operator)
    yield f"output mode: {query.output_mode}"
    yield f"trigger: {query.trigger}"
    yield f"sink: {query.sink.kind} {query.sink.output}"
    yield from (f"  {key}: {value}" for key, value in sorted(query.sink.options.items()))
    yield from (f"  names {name}" for name in query.sink_names or ())
    yield "output columns:"
    yield from (f"  {line}" for line in query.output_schema.splitlines())
    yield from (f"  {column.name} means {column.meaning}" for column in query.columns)
    yield from (f"function {name}: {_digest(digest)}" for name, digest in sorted(query.functions.items()))
    yield from (f"setting {key}: {value}" for key, value in sorted(query.confs.items()))
    yield f"Spark {query.spark_version}"
    yield "plan:"
    yield from (f"  {line}" for line in query.plan.splitlines())


def _digest(digest: str) -> str:
    """Return a digest shortened to a length that still distinguishes two digests."""
    return digest if len(digest) < 64 else digest[:12]


def source_lines(number: int, source: Source) -> Iterator[str]:
    """Return the description of a source in the terms of the query's author, without secrets; the first line names the
    source.
    """
    named = f" {source.name}" if source.name else ""
    yield f"source {number}{named}: {source.kind} {masked_place(source.location)}"
    yield from (f"  {key}: {masked_place(value)}" for key, value in sorted({**source.options, **source.limits}.items()))
    yield from (f"  column {line}" for line in source.schema.splitlines())


def operator_lines(number: int, operator: Operator) -> Iterator[str]:
    """Return the description of a stateful operator and its state; the first line names the operator.

    The caller must mask secrets in the result (``masked_code``).
    """
    yield f"stateful operator {number}: {operator.kind}"
    yield from (f"  key {key}" for key in operator.keys)
    yield from (f"  makes {expression}" for expression in operator.expressions)
    yield from (f"  {key}: {value}" for key, value in sorted(operator.detail.items()))
    yield from (f"  state key {column.meaning}: {column.type}" for column in operator.key_columns)
    yield from (f"  state value {value.meaning}: {value.type}" for value in operator.values)
    yield from (f"  only rows where {row}" for row in operator.rows)
    yield from (f"  made of {part}" for part in operator.shape)
