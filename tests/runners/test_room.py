"""How much room a driver's container asks for."""

from __future__ import annotations

import pytest

from streamkeeper.runners.room import container_cores, container_mib


@pytest.mark.parametrize(
    ("memory", "mib"), [("", 2048), ("512m", 1536), ("2g", 3072), ("8GB", 10240), ("1t", 1310720), ("much", 2048)]
)
def test_a_container_has_room_for_what_is_beside_sparks_jvm(memory: str, mib: int) -> None:
    """Python, its workers and what the JVM needs outside its heap: a gibibyte, or a quarter of it."""
    assert container_mib({"spark.driver.memory": memory}) == mib


@pytest.mark.parametrize(("cores", "asked"), [("", 2), ("4", 4), ("0", 2), ("many", 2)])
def test_a_container_has_the_cores_that_a_release_asks_for(cores: str, asked: int) -> None:
    """Two where it asks for none, or for what is no number."""
    assert container_cores({"spark.driver.cores": cores}) == asked
