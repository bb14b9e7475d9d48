"""The test suite. Its folders mirror the rooms; what tests share is in tests/benches."""
