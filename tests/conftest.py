"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Under ``CI=true`` a skipped test of a real server, database or model is a failure."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and item.get_closest_marker("real") is not None:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and CI=true wants it to run: {report.longrepr}"
    return report
