"""What holds for all tests: property tests try the examples of the profile `quick`, unless another is asked for."""

import property_examples  # noqa: F401  # its profiles
from hypothesis import settings

settings.load_profile("quick")
