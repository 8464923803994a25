"""Find the objects that depend on a table, and handle them when another table takes the name of that table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.errors import Unsupported

if TYPE_CHECKING:
    from sqlalchemy import Connection

_ON_POSTGRESQL = """
SELECT 'view ' || c.relname FROM pg_depend d
  JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class c ON c.oid = r.ev_class
  WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid = to_regclass(:name) AND c.oid <> d.refobjid
UNION SELECT 'foreign key ' || conname FROM pg_constraint WHERE confrelid = to_regclass(:name) AND contype = 'f'
UNION SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = to_regclass(:name) AND NOT tgisinternal
ORDER BY 1
"""
_ON_SQLITE = "SELECT 'trigger ' || name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :name ORDER BY 1"
_GRANTS = """
SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
       a.privilege_type, a.is_grantable
FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass(:name) AND a.grantee <> c.relowner
"""


def quoted(connection: Connection, name: str) -> str:
    """Return a table's name, quoted for a statement."""
    return connection.dialect.identifier_preparer.quote(name)


def has_rows(connection: Connection, table: str) -> bool:
    """Whether an existing table has a row."""
    import sqlalchemy as sa

    return connection.execute(sa.text(f"SELECT 1 FROM {quoted(connection, table)} LIMIT 1")).first() is not None


def refuse_dependents(connection: Connection, table: str) -> None:
    """Raise Unsupported if an object would silently continue to refer to the old table after a rebuilt table replaces
    it.

    A view of PostgreSQL is such an object. A view of SQLite is not, because it refers to the table by name and follows
    the new table.
    """
    import sqlalchemy as sa

    statement = _ON_SQLITE if connection.dialect.name == "sqlite" else _ON_POSTGRESQL
    found = list(connection.execute(sa.text(statement), {"name": table}).scalars())
    if found:
        raise Unsupported(
            f"table {table} cannot be replaced by a rebuilt one: {', '.join(found)} would stay with the old table",
            hint="drop these objects, and create them again after the deploy",
        )


def carry_grants(connection: Connection, old: str, new: str) -> None:
    """Give other roles the same privileges on the new table as on the old one. SQLite has no privileges."""
    import sqlalchemy as sa

    if connection.dialect.name == "sqlite":
        return
    for grantee, privilege, grantable in connection.execute(sa.text(_GRANTS), {"name": old}).all():
        option = " WITH GRANT OPTION" if grantable else ""
        connection.execute(sa.text(f"GRANT {privilege} ON {quoted(connection, new)} TO {grantee}{option}"))
