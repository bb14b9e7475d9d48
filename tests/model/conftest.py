"""Settings of this folder's tests."""

import symlight.model  # noqa: F401  before numpy: it keeps BLAS at one thread
from hypothesis import settings

settings.register_profile("model", deadline=None, max_examples=150, print_blob=True)
settings.load_profile("model")
