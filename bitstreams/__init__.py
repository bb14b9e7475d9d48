"""Packaging of a kernel for Vitis and XRT, and the identity of what comes out of it (docs/packaging.md)."""
