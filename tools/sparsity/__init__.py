"""The sweep over lambda: quality against bytes, densities and cycles of a decode pass (docs/sparsity.md)."""
