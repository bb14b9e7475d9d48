"""Parts that every unit uses: queues, pipelines, adder trees, priority encoders, module instances."""
