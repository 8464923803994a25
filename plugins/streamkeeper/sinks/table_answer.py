"""Query a table, known only by its description, for its newest batch. Its URL is among the params of a release."""

from __future__ import annotations

from streamkeeper.errors import StreamkeeperError
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.databases import identity, may_be_there, open_engine, parse_url, server_of
from streamkeeper.sinks.staging import outputs_table
from streamkeeper.sinks.table_record import read_table_record


def answer(question: OutputQuestion) -> OutputAnswer:
    """Return what the output's row in its database records about the version in the question.

    The database's URL is the first of the question's ``places`` that leads to the database in the sink's description.
    """
    import sqlalchemy as sa

    database, _, table = question.sink.output.rpartition("#")
    url = _url_of(database, question)
    if not url:
        return OutputAnswer(unknown=f"no param of the release is the URL of {database}")
    outputs = outputs_table(sa.MetaData())
    engine = open_engine(url, pooled=False, reading=True)
    try:
        record = read_table_record(engine, url, table)
        if not may_be_there(url):
            return OutputAnswer(unknown=f"{database} does not exist", record=record)
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(outputs.name):
                return OutputAnswer(record=record)
            told = sa.select(outputs.c.owner, outputs.c.version, outputs.c.batch_id)
            row = connection.execute(told.where(outputs.c.output == table)).one_or_none()
    except sa.exc.SQLAlchemyError as error:
        # The error's text may name the user and the host, and the driver's own may contain more.
        return OutputAnswer(unknown=f"{database} does not answer: {type(error).__name__}", down=True)
    finally:
        engine.dispose()
    if row is None or row.version is None:
        return OutputAnswer(record=record)
    if row.owner != question.owner:
        return OutputAnswer(unknown=f"table {table} is written by {row.owner}")
    if row.version != question.version:
        unknown = f"checkpoint version {row.version} has written to table {table} since"
        return OutputAnswer(unknown=unknown, record=record)
    return OutputAnswer(batch=row.batch_id, record=record)


def _url_of(database: str, question: OutputQuestion) -> str:
    """Return the URL of a database among others, on the recorded server; a SQLite file needs only its path.

    For a URL without a password the identity contains everything that a secret has, and is masked where it is stored.
    """
    mask, server = question.mask, question.sink.server
    for place in question.places:
        try:
            url = parse_url(place)
        except StreamkeeperError:
            continue
        # An earlier version may have masked less in its records.
        same_server = server is None or mask(server_of(url)) == mask(server)
        if same_server and mask(identity(url)) == mask(database):
            return place
    return database if database.startswith("sqlite:") else ""
