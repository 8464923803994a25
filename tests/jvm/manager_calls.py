"""``python -m tests.jvm.manager_calls ROOT`` records which requests Streamkeeper's checkpoint file manager sends to a
real S3 server, call by call.

Prints a JSON object with the answer and the requests of each call.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.fault_proxy import fault_proxy
from harness.s3_server import FIRST_BUCKET, s3_server
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.driver.warm_up import touch
from streamkeeper.jvm.create_only import MANAGER, OURS


def main(root: Path) -> None:
    """Make the calls in order and print the answers and requests."""
    told: dict[str, Any] = {}
    with s3_server(root / "s3", volume_mb=64, volumes=10) as server, fault_proxy(server.endpoint) as proxy:
        os.environ |= {**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}
        os.environ["STREAMKEEPER_CHECKPOINTS"] = place = f"s3a://{FIRST_BUCKET}/v0001"
        session = start_session(session_conf({}, root, "calls"), {}, root, [])
        try:
            asked: list[str] = []
            proxy.heard = lambda request: asked.append(request.method)
            jvm: Any = session.spark._jvm
            path = jvm.org.apache.hadoop.fs.Path
            create = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create
            state: Any = session.spark._jsparkSession.sessionState()  # type: ignore[attr-defined]
            mine, other = (create(path(place), state.newHadoopConf()) for _ in range(2))
            assert state.newHadoopConf().get(MANAGER) == OURS

            def write(manager: Any, name: str, *, replace: bool = False) -> str:
                stream = manager.createAtomic(path(f"{place}/{name}"), replace)
                stream.write(bytearray(name.encode()))
                try:
                    stream.close()
                except Exception as error:
                    return "taken" if "FileAlreadyExistsException" in str(error) else str(error)
                return "written"

            def ask(call: str, answer: Callable[[], Any]) -> None:
                asked.clear()
                answered = answer()
                told[call] = {"answer": answered, "requests": list(asked)}

            def there(manager: Any, name: str) -> Callable[[], bool]:
                return lambda: bool(manager.exists(path(f"{place}/{name}")))

            ask("first exists", there(mine, "offsets/8"))
            ask("first create", lambda: write(mine, "offsets/8"))
            ask("its exists", there(mine, "offsets/8"))
            ask("next exists", there(mine, "offsets/9"))
            ask("create of another", lambda: write(other, "offsets/9"))
            ask("next exists after it", there(mine, "offsets/9"))
            ask("create after it", lambda: write(mine, "offsets/9"))
            ask("exists of another's next", there(mine, "commits/9"))
            ask("state", lambda: write(mine, "state/0/1/9.changelog", replace=True))
            ask("state again", lambda: write(mine, "state/0/1/9.changelog", replace=True))
            ask("delete", lambda: mine.delete(path(f"{place}/offsets/8")))
            ask("delete of state", lambda: mine.delete(path(f"{place}/state/0/1/9.changelog")))
            ask("delete of nothing", lambda: mine.delete(path(f"{place}/offsets/8")))
            ask("exists after delete", there(other, "offsets/8"))
            write(mine, "state/0/0/9.changelog", replace=True)
            ask("delete of a folder", lambda: mine.delete(path(f"{place}/state/0")))
            ask("touch", lambda: touch(session.spark, f"s3a://{FIRST_BUCKET}/touch"))
            ask("exists after a touch", lambda: bool(mine.exists(path(f"s3a://{FIRST_BUCKET}/touch/touched"))))
            ask("touch of no place", lambda: touch(session.spark, "nowhere://there"))
            ask("exists in the folder", there(mine, "state/0/0/9.changelog"))
        finally:
            session.kill()
    sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
