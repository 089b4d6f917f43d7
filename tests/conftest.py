"""What holds for all tests: property tests try the examples of the profile `quick`, unless another is asked for."""

import gc

import property_examples  # noqa: F401  # its profiles
from hypothesis import settings

settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Take what the tests have imported out of the collector's sight.

    A run that has ended is one cycle of a few thousand objects, which may hold a hundred megabytes. The collector counts
    objects, and looks at old ones when there are a quarter more: among those of all modules this was after gigabytes.
    """
    gc.collect()
    gc.freeze()
