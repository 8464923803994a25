"""The common start of scripts that run DAGs with ``dag.test`` in their own process."""

OPENED = """
import functools, json, sys, time
import jsonschema
from airflow.utils import db
db.initdb()
import airflow.dag_processing.dagbag as dagbag
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
# A played run sleeps a second whenever all that is left is to be skipped, and reads and stores every graph again.
sleep, time.sleep = time.sleep, lambda seconds: None if seconds == 1 else sleep(seconds)
store, stored = dagbag.sync_bag_to_db, []
def store_once(bag, *rest, **options):
    if not stored:
        stored.append(store(bag, *rest, **options))
dagbag.sync_bag_to_db = store_once
dagbag.BundleDagBag = functools.cache(dagbag.BundleDagBag)
# Each task checks the schema of each field of the form ten times, beside the field itself.
jsonschema.Draft202012Validator.check_schema = lambda schema, **options: None
"""
"""The beginning of such a script; ``bag`` contains the DAGs of the folder that is its first argument."""
