"""From text to an integer model: corpus, float model, trainer, quantiser, and the report of its quality."""
