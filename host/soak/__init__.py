"""The soak: random conversations on a device, for hours, each turn compared with the integer reference."""
