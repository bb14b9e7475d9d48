"""What tests import: benches and agents of hardware parts, fake cards, plain models; a folder per room."""
