from __future__ import annotations

from hypothesis import settings

from tests.fakes.model_server import model_server
from tests.fakes.naps import record_naps
from tests.fakes.small_model import small_model

__all__ = ["model_server", "record_naps", "small_model"]

# The machines that run these tests have other work as well; how long one example takes says nothing.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
