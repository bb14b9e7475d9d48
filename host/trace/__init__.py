"""A pass of the simulated card as a picture: what happened when, from the signals of the kernel."""
