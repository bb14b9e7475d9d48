"""A model on a device: driver, card, mailbox, kernels, sessions, verification."""
