"""Tests of the differences between two versions of a job: shown as lines for a person, without secrets."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.differences import MOST_BYTES, MOST_LINES, Difference, JobVersion, find_differences
from streamkeeper.model.manifests.manifest import StateColumn
from streamkeeper.model.secret_names import masked_code
from tests.compatibility.manifests import STATEFUL, changed, with_operator

OLD = JobVersion(
    name="r0001",
    entry="totals.py",
    files={"totals.py": b"import rates\n\nFACTOR = 1\n", "rates.py": b"RATE = 1\n"},
    params={"input": "/data", "limit": 1},
    conf={},
    manifests={"totals": STATEFUL},
)


def differences(**fields: object) -> dict[str, Difference]:
    found = find_differences(OLD, msgspec.structs.replace(OLD, name="candidate", **fields))
    return {each.title: each for each in found}


def with_files(**files: bytes) -> dict[str, Difference]:
    return differences(files={**OLD.files, **{f"{name}.py": data for name, data in files.items()}})


def changes(difference: Difference) -> list[str]:
    """Return the added and removed lines of a difference."""
    return [line for line in difference.lines[2:] if line[0] in "+-"]


def test_two_equal_versions_give_no_section() -> None:
    """Two equal versions give no section."""
    assert differences() == {}


def test_params_and_confs_are_compared_one_by_one() -> None:
    """Params and confs are compared one by one, and a number differs from the text with the same digits."""
    found = differences(params={"input": "/elsewhere", "limit": "1"}, conf={"spark.sql.shuffle.partitions": "4"})
    assert changes(found["params"]) == ['-input: "/data"', "-limit: 1", '+input: "/elsewhere"', '+limit: "1"']
    assert changes(found["conf"]) == ['+spark.sql.shuffle.partitions: "4"']


def test_a_helper_module_is_compared_as_the_job_file_is() -> None:
    """Helper files are compared like the job file, and added and removed files are marked as such."""
    found = differences(files={"totals.py": OLD.files["totals.py"], "more.py": b"X = 1\n"})
    assert changes(found["file rates.py (gone)"]) == ["-RATE = 1", "-"]
    assert changes(found["file more.py (new)"]) == ["+X = 1", "+"]
    assert changes(with_files(rates=b"RATE = 2\n")["file rates.py"]) == ["-RATE = 1", "+RATE = 2"]


def test_a_renamed_job_file_is_compared_with_the_earlier_one() -> None:
    """A renamed job file is compared with the earlier job file."""
    files = {"maxima.py": b"import rates\n\nFACTOR = 2\n", "rates.py": OLD.files["rates.py"]}
    (found,) = find_differences(OLD, msgspec.structs.replace(OLD, name="new", entry="maxima.py", files=files))
    assert found.title == "file totals.py -> maxima.py"
    assert changes(found) == ["-FACTOR = 1", "+FACTOR = 2"]


def test_a_changed_query_is_shown_as_changed_lines() -> None:
    """A changed query is shown as changed lines, such as its state values and its trigger, and added and removed
    queries are marked.
    """
    values = (StateColumn(meaning="max(source 0.x)", type="long"),)
    new = changed(with_operator(STATEFUL, values=values), trigger="1 second")
    found = changes(differences(manifests={"totals": new})["query totals"])
    assert "-  state value sum(source 0.x): long" in found
    assert "+  state value max(source 0.x): long" in found
    assert "-trigger: 5 seconds" in found
    gone = differences(manifests={"others": STATEFUL})
    assert set(gone) == {"query totals (gone)", "query others (new)"}


def test_the_plan_section_states_that_an_undescribed_plan_is_unknown() -> None:
    """For a candidate that could not be described, the section about the plan states that it is not known."""
    assert differences(manifests=None)["plan"].note == "not known: candidate was not described"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", b"#" * (MOST_BYTES + 1), b"x = 1\n" * 1_000_000])
def test_binary_or_oversized_files_are_named_with_their_size(data: bytes) -> None:
    """A file that is binary, in an unknown encoding or too long is named with its size and not shown."""
    found = with_files(rates=data)["file rates.py"]
    assert found.lines == ()
    assert found.note == f"not shown, binary or too long: 9 bytes -> {len(data):,} bytes"


def test_long_differences_and_long_lines_are_cut() -> None:
    """Long differences and long lines are cut, and the text states how much is left out."""
    found = with_files(rates=b"\n".join(b"%d" % number for number in range(MOST_LINES + 10)))["file rates.py"]
    assert len(found.lines) == MOST_LINES
    assert "more lines are not shown" in found.note
    assert changes(with_files(rates=b"x" * 1000)["file rates.py"])[-1].endswith("… (1,000 characters)")


def test_nothing_in_a_file_steers_a_terminal() -> None:
    """Escape sequences in a file's text or name are shown as text."""
    found = differences(files={**OLD.files, "a\x1b[2J.py": b"x = '\x1b[31m'\n"})
    assert changes(found["file a\\x1b[2J.py (new)"]) == ["+x = '\\x1b[31m'", "+"]


def test_a_literal_secret_in_params_or_confs_is_masked_wherever_it_occurs() -> None:
    """A secret written directly into params or confs is masked there and wherever code or a plan repeats it; that its
    value changed is shown.
    """
    old = msgspec.structs.replace(OLD, params={"password": "hunter2!", "url": "postgresql://ann:geheim99@db/x"})
    plan = changed(STATEFUL, plan=STATEFUL.plan + "\nLocal [sesame99]", trigger="1 second")
    new = msgspec.structs.replace(
        old,
        files={**OLD.files, "rates.py": b"print('sesame99')\n"},
        params={"password": "sesame99", "url": "postgresql://ann:offen1234@db/y"},
        conf={"spark.hadoop.fs.s3a.secret.key": "abcdefgh"},
        manifests={"totals": plan},
    )
    told = "\n".join(line for each in find_differences(old, new) for line in each.lines)
    assert not [each for each in ("hunter2", "sesame", "geheim", "offen", "abcdefgh") if each in told]
    assert "+password: *** (another value)" in told
    assert '+url: "postgresql://***@db/y"' in told
    assert "+spark.hadoop.fs.s3a.secret.key: ***" in told
    assert "+print('***')" in told


def test_a_reference_is_no_secret() -> None:
    """A reference to a secret, such as ``secret://env/WAREHOUSE``, is shown unmasked."""
    found = differences(params={**OLD.params, "password": "secret://env/WAREHOUSE"})
    assert changes(found["params"]) == ['+password: "secret://env/WAREHOUSE"']


def test_a_file_that_differs_only_in_a_secret_is_named() -> None:
    """A file that differs only in a masked secret is named with a note that states this."""
    old = msgspec.structs.replace(OLD, files={**OLD.files, "rates.py": b"TOKEN = 'one'\n"})
    new = msgspec.structs.replace(OLD, files={**OLD.files, "rates.py": b"TOKEN = 'two'\n"})
    (found,) = find_differences(old, new)
    assert (found.title, found.lines) == ("file rates.py", ())
    assert "only in what is masked" in found.note


@pytest.mark.parametrize(
    "code",
    [
        'password = "hunter2"',
        'PASSWORD: str = r"hunter2"',
        'reader.option("password", "hunter2")',
        '{"db_password": "hunter2"}',
        'os.environ["API_TOKEN"] = "hunter2"',
        'connect(user="ann", password="hunter2")',
        'set_password("hunter2")',
        '"password": Param(str, help="of the warehouse", default="hunter2")',
        'password = (\n    "hunter2"\n)',
        'api_key = f"hunter2{suffix}"',
        'pwd = "hunter2',
        'url = "postgresql://ann:hunter2@db/x"',
        'url = "jdbc:postgresql://db/x?user=ann&password=hunter2"',
        'KEY = """-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2\n-----END RSA PRIVATE KEY-----"""',
        'x = "hunter2ABCDefghIJKLmnop"',
        "password = 'it\\'s hunter2'",
        'credentials = {\n    "user": "ada",\n    "value": "hunter2",\n}',
        'passwords = [\n    "first",\n    "hunter2",\n]',
        'password = """\nhunter2\n"""',
        "password = '''hunter2\nhunter2'''",
        '.option(\n    "password",\n    "hunter2",\n)',
        'password = ("first"\n    + "hunter2")',
        'PGPASS = "hunter2"',
        'passphrase = "hunter2"',
        'signing_key = b"hunter2"',
        'client_key = "hunter2"',
        'auth = ("ada", "hunter2")',
        'headers = {"Authorization": "Token hunter2"}',
        'send("Bearer hunter2hunter2")',
        'dsn = "host=db user=ada password=hunter2"',
        """settings = '{"password": "hunter2"}'""",
    ],
)
def test_literals_beside_the_name_of_a_secret_are_masked(code: str) -> None:
    """A literal beside the name of a secret is masked, however the code is written, and the number of lines stays the
    same.
    """
    found = masked_code(code)
    assert "hunter2" not in found
    assert "***" in found
    assert found.count("\n") == code.count("\n")


@pytest.mark.parametrize(
    "text", ["DB_PASSWORD=hunter2", "password: hunter2 # old", '{"token": "hunter2", "a": 1}', "token: |\n  hunter2"]
)
def test_unquoted_secret_values_in_settings_and_yaml_files_are_masked(text: str) -> None:
    """In settings and YAML files an unquoted value of a secret is masked too; references and other values are kept."""
    assert "hunter2" not in masked_code(text, python=False)
    assert masked_code("password: secret://env/A\nshop: north", python=False).endswith("secret://env/A\nshop: north")


@pytest.mark.parametrize(
    "code",
    [
        'sink=TableSink(url, table="totals", key=["shop"])',
        'F.col("amount")',
        'password = "secret://env/WAREHOUSE"',
        'rows.groupBy("shop").agg(F.sum("amount").alias("total"))',
        'password = ("secret://env/A")\nshop = "north"',
        'connect(password=given)\nshop = "north"',
        'auth = "kerberos"',
    ],
)
def test_other_code_is_shown_as_it_is(code: str) -> None:
    """Code without secrets is shown unchanged."""
    assert masked_code(code) == code


def test_masking_a_very_long_line_finishes_quickly() -> None:
    """Masking a line of more than twice ``MOST_BYTES`` characters finishes without a long wait."""
    assert masked_code("a" * MOST_BYTES + "=" + "'" + "b" * MOST_BYTES)
