"""What can be shown about a build without the vendor's tools: fit, depth of logic, boundaries, a real place
and route, lint.

`python -m symlight.tools.evidence` (or `make evidence`) writes everything under docs/evidence/.
"""
