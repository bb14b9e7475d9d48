"""The formal proofs, their runner and the evidence that they write."""
