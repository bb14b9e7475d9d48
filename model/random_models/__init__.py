"""Parts of `model.synthetic`: models at the edges of the arithmetic, and calibration."""
