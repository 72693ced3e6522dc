"""Every test of the lab has a user's cache of its own and no JUMOK_DATA."""

from tests.data.conftest import cache_home as cache_home
