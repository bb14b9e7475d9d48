"""How the kernel's units are joined, by subject; `hw.top` calls each in turn."""
