"""The way to a page in Airflow's frame."""

from __future__ import annotations

import pytest

from streamkeeper.pages.page_address import page_address, page_path


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("https://air.example", "https://air.example/plugin/streamkeeper/streamkeeper/jobs/orders"),
        ("https://air.example/", "https://air.example/plugin/streamkeeper/streamkeeper/jobs/orders"),
        ("https://x.example/air/", "https://x.example/air/plugin/streamkeeper/air/streamkeeper/jobs/orders"),
        ("", "/plugin/streamkeeper/streamkeeper/jobs/orders"),
    ],
)
def test_the_frame_has_the_page_in_its_address(base: str, address: str) -> None:
    """Airflow's own form of it: the view's route, then the path of the page, below its own path too."""
    assert page_address(base, page_path("orders")) == address


def test_a_name_stays_one_part_of_the_way() -> None:
    """Whatever was typed into a form; nothing of it leads elsewhere."""
    assert page_path() == ""
    assert page_path("orders", "op-1") == "jobs/orders/operations/op-1"
    assert page_path("../x?y#z", "a/b") == "jobs/..%2Fx%3Fy%23z/operations/a%2Fb"
    assert page_path("", "op-1") == ""
