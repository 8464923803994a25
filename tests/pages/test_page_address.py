"""Tests the addresses of pages within Airflow's frame."""

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
def test_the_address_contains_base_url_plugin_route_and_page_path(base: str, address: str) -> None:
    """The address contains Airflow's base URL, the route of the plugin's view and the path of the page, including the
    path under which Airflow is served.
    """
    assert page_address(base, page_path("orders")) == address


def test_a_name_is_escaped_into_one_path_segment() -> None:
    """A job or operation name is escaped into one path segment, so that it cannot lead to a different address."""
    assert page_path() == ""
    assert page_path("orders", "op-1") == "jobs/orders/operations/op-1"
    assert page_path("../x?y#z", "a/b") == "jobs/..%2Fx%3Fy%23z/operations/a%2Fb"
    assert page_path("", "op-1") == ""
