"""Parts of attention over the KV ring: staged slots, the order in which they are read, scores and weights."""
