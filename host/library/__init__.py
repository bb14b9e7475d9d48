"""The Python front door: a model on any device, its sessions, and what they give back (docs/python.md)."""
