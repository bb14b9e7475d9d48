"""Cycles of a pass without a simulation: the design's own latencies, the layout, and the memory's timing as
recurrences in time.
"""
