"""What is computed: configuration, number formats, integer reference, quantiser, package, tokenizer."""

import os

# The reference multiplies one vector at a time: BLAS threads only wait for each other (four times slower with
# two).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
