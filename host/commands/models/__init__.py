"""The commands that make packages and checkpoints."""
