"""A kernel that only reads: it measures what the memory model of the simulation assumes of the card's HBM."""
