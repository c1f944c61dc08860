from __future__ import annotations

import pytest

from app.platforms import backends

KNOWN = ["https://cloud.example.test", "http://10.0.0.5:8080/nextcloud/"]


@pytest.mark.parametrize(
    "claimed",
    [
        "",
        "/",
        " / ",
        "https://cloud.example.test/",
        "https://cloud.example.test.:443",
        "HTTPS://Cloud.Example.Test/",
        "http://10.0.0.5:8080/nextcloud",
    ],
)
def test_no_name_and_a_known_name_fit(claimed: str) -> None:
    assert backends.fits(claimed, KNOWN)


@pytest.mark.parametrize(
    "claimed",
    [
        "//",
        "cloud.example.test",
        "//cloud.example.test/",
        "https://cloud.example.test.evil.example/",
        "https://cloud.example.test/nextcloud",
        "http://10.0.0.5/nextcloud",
        "http://10.0.0.5:8080/nextcloud/../admin",
        "ftp://cloud.example.test/",
        "https://",
        "https://cloud.example.test:port/",
        "\x00",
    ],
)
def test_another_name_does_not_fit(claimed: str) -> None:
    assert not backends.fits(claimed, KNOWN)
