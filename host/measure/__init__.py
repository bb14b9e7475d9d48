"""What a V2 model does on a text: its density, work and time, and how well it predicts."""
