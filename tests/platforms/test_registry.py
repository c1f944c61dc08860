from __future__ import annotations

import pytest

from app.platforms import registry


def test_nextcloud_talk_is_found_by_its_folder() -> None:
    found = registry.get("nextcloud_talk")
    assert (found.kind, found.max_message) == ("nextcloud_talk", 32_000)
    assert found.parse(b'{"type":"Other"}').kind == "unknown"


def test_the_sandbox_is_no_platform_of_its_own() -> None:
    assert list(registry.platforms()) == ["nextcloud_talk"]


def test_an_unknown_platform_is_told() -> None:
    with pytest.raises(LookupError, match="matrix"):
        registry.get("matrix")
