"""Find collations of a table's key that treat different strings as equal, so that an upsert would merge their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_ON_SQLITE = """
SELECT i.name, c.name, CASE c.coll WHEN 'BINARY' THEN NULL ELSE c.coll END
FROM pragma_index_list(:name) i, pragma_index_xinfo(i.name) c
WHERE i."unique" AND NOT i.partial AND c.key
"""
_ON_POSTGRESQL = """
SELECT i.indexrelid::text, a.attname, c.collname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indcollation::oid[]) k(attnum, collation_id)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
LEFT JOIN pg_collation c ON c.oid = k.collation_id AND NOT c.collisdeterministic
WHERE i.indrelid = to_regclass(:name) AND i.indisunique AND i.indpred IS NULL AND k.collation_id IS NOT NULL
"""


def find_merging_collations(connection: Connection, table: Table) -> list[str]:
    """Return a sentence for each text column of the key whose collation treats different strings as equal.

    All unique indexes on exactly the key's columns are checked, because an upsert names only columns, and the database
    may use any unique index on them. SQLite's BINARY and every deterministic collation of PostgreSQL distinguish any
    two strings.
    """
    import sqlalchemy as sa

    statement = _ON_SQLITE if connection.dialect.name == "sqlite" else _ON_POSTGRESQL
    indexes: dict[str, dict[str, str | None]] = {}
    for index, column, collation in connection.execute(sa.text(statement), {"name": table.name}):
        indexes.setdefault(index, {})[column] = collation
    texts = {column.name for column in table.primary_key if isinstance(column.type, sa.Text)}
    key = {column.name for column in table.primary_key}
    found = {
        (name, collation)
        for columns in indexes.values()
        if columns.keys() == key
        for name, collation in columns.items()
        if collation is not None and name in texts
    }
    return [
        f"its key compares {name} by the collation {collation}, which treats different strings as equal"
        for name, collation in sorted(found)
    ]
