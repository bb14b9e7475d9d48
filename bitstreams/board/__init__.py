"""Bitstreams of open boards: synthesis, place and route, manifest."""
