"""What every room uses: errors for people, whole files, the cache, tools of the system, provenance."""
